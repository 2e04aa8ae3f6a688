//! Texts of scripts, as far as the translation depends on them.

use super::tree::{Element, Property};
use crate::bounded_file;
use std::path::Path;

/// Largest file of a script that is read.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The texts of a script: its properties, and its file.
pub(super) struct Source {
    /// The texts.
    pub(super) texts: Vec<String>,
    /// Its file is known only while the plan runs: the script may do anything.
    pub(super) is_unknown: bool,
}

impl Source {
    /// Reads the texts of an element. A relative file is in `folder`.
    pub(super) fn new(element: &Element, folder: &Path) -> Self {
        let texts = element.properties.0.values().filter_map(Property::text);
        let mut texts: Vec<String> = texts.map(str::to_owned).collect();
        // A file that is missing now may be there when the script runs.
        let read = file(element).map(|name| match name.contains("${") {
            true => None,
            false => bounded_file::read_text(&folder.join(name), MAX_FILE_BYTES).ok(),
        });
        let is_unknown = matches!(read, Some(None));
        texts.extend(read.flatten());
        Self { texts, is_unknown }
    }

    /// Whether the script may have one of these names.
    pub(super) fn mentions(&self, names: &[&str]) -> bool {
        let has = |text: &String| names.iter().any(|name| text.contains(name));
        self.is_unknown || self.texts.iter().any(has)
    }
}

/// The file of a script, which JMeter runs instead of the text in the plan.
pub(super) fn file(element: &Element) -> Option<&str> {
    let all = element.properties.0.iter();
    let mut files = all
        .filter(|(name, _)| name.as_str() == "filename" || name.ends_with(".filename"))
        .filter_map(|(_, value)| value.text());
    files.find(|name| !name.is_empty())
}

/// Names that a script gives variables or properties, as far as they are written there, and whether
/// there are others.
pub(super) fn written_names(script: &str) -> (Vec<String>, bool) {
    let (mut names, mut any) = (Vec::new(), false);
    for method in ["put(", "putAll(", "putObject(", "remove(", "setProperty("] {
        for (at, _) in script.match_indices(method) {
            let rest = script[at + method.len()..].trim_start();
            let mut characters = rest.chars();
            let name = match characters.next() {
                Some(quote @ ('"' | '\'')) => characters.as_str().split_once(quote),
                _ => None,
            };
            match name {
                // The rest of an expression may be a part of the name.
                Some((name, behind)) if !name.contains('$') && !is_joined(behind) => {
                    names.push(name.to_owned());
                }
                _ => any = true,
            }
        }
    }
    (names, any)
}

fn is_joined(behind: &str) -> bool {
    !behind.trim_start().starts_with([',', ')'])
}

#[cfg(test)]
mod tests {
    use super::written_names;

    #[test]
    fn names_that_scripts_set_are_found() {
        let names = |script: &str| written_names(script);
        assert_eq!(
            names("vars.put(\"a\", x); props.put( 'b','c')"),
            (vec!["a".into(), "b".into()], false)
        );
        assert_eq!(names("vars.get('a')"), (Vec::new(), false));
        for any in ["vars.put(name, 1)", "vars.put('a' + i, 1)", "vars.put(\"a${i}\", 1)", "put("] {
            assert_eq!(names(any), (Vec::new(), true), "{any}");
        }
    }
}
