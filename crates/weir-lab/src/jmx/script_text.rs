//! Texts of scripts, as far as the translation depends on them.

use super::tree::{Element, Property};
use crate::bounded_file;
use std::path::Path;

/// Largest file of a script that is read.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// Methods that set or remove a variable or property.
const METHODS: [&str; 5] = ["put", "putAll", "putObject", "remove", "setProperty"];
/// Operators that assign, besides `=`.
const ASSIGNMENTS: [&str; 5] = ["+=", "-=", "?=", "++", "--"];

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
    let mut add = |name: Option<&str>| match name {
        Some(name) => names.push(name.to_owned()),
        None => any = true,
    };
    for method in METHODS {
        for (before, behind) in words(script, method) {
            if let Some(argument) = argument(before, behind) {
                // The rest of an expression may be a part of the name.
                let whole = literal(argument).filter(|(_, behind)| is_end(behind));
                add(whole.map(|(name, _)| name));
            }
        }
    }
    for (_, behind) in words(script, "props") {
        if let Some((key, behind)) = key(behind)
            && is_assignment(behind)
        {
            add(key);
        }
    }
    (names, any)
}

/// The texts around each place of a word that does not start within another one.
fn words<'s>(text: &'s str, word: &'s str) -> impl Iterator<Item = (&'s str, &'s str)> {
    let around = move |(at, _): (usize, &str)| (&text[..at], &text[at + word.len()..]);
    text.match_indices(word).map(around).filter(|(before, _)| !before.ends_with(is_name_part))
}

fn is_name_part(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// What follows the name of a method that is called: `("a", b)`, or `"a", b` as in Groovy.
fn argument<'s>(before: &str, behind: &'s str) -> Option<&'s str> {
    if let Some(inside) = behind.strip_prefix('(') {
        return Some(inside.trim_start());
    }
    let rest = behind.trim_start();
    let argument = rest.strip_prefix('(').unwrap_or(rest).trim_start();
    let first = argument.chars().next()?;
    // Without an object or quotes it may be a word of a comment.
    let is_call = match before.ends_with('.') {
        true => is_name_part(first) || matches!(first, '"' | '\'' | '$' | '['),
        false => matches!(first, '"' | '\''),
    };
    (is_call && rest.len() < behind.len()).then_some(argument)
}

/// The text in quotes at the start, and what follows; `None` if it is another expression.
fn literal(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''))?;
    let (name, behind) = text[1..].split_once(quote)?;
    (!name.contains(['$', '\\'])).then_some((name, behind.trim_start()))
}

/// Whether an argument ends here. In arguments of JMeter's functions commas are escaped.
fn is_end(behind: &str) -> bool {
    behind.starts_with([',', ')']) || behind.starts_with("\\,")
}

/// The key of a value of a map and what follows it: `['a']`, `.a`, `?.a`. The key is `None` if it is
/// another expression.
fn key(behind: &str) -> Option<(Option<&str>, &str)> {
    let rest = behind.trim_start();
    if let Some(inside) = rest.strip_prefix('[') {
        let of_literal = literal(inside.trim_start())
            .and_then(|(name, behind)| Some((Some(name), behind.strip_prefix(']')?)));
        return of_literal.or_else(|| Some((None, inside.split_once(']')?.1)));
    }
    let field = rest.strip_prefix('?').unwrap_or(rest).strip_prefix('.')?;
    if let Some((name, behind)) = literal(field) {
        return Some((Some(name), behind));
    }
    let end = field.find(|character: char| !is_name_part(character)).unwrap_or(field.len());
    Some((Some(&field[..end]), &field[end..]))
}

/// Whether an operator that assigns follows.
fn is_assignment(behind: &str) -> bool {
    let behind = behind.trim_start();
    let is_plain = |rest: &str| !rest.starts_with(['=', '~']);
    behind.strip_prefix('=').is_some_and(is_plain)
        || ASSIGNMENTS.iter().any(|operator| behind.starts_with(operator))
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
        for one in [
            "vars.put (\"a\", x)",
            "vars.put \"a\", x",
            "vars.putObject 'a', [x]",
            "with (vars) { put 'a', x }",
            "vars.put('a'\\, x)",
            "vars.remove('a')",
            "props['a'] = x",
            "props[ \"a\" ]+= x",
            "props.a = x",
            "props?.a=x",
            "props.'a' = x",
            "props.a++",
        ] {
            assert_eq!(names(one), (vec!["a".into()], false), "{one}");
        }
        for none in [
            "vars.get('a')",
            "// put the name into input (if it exists), or remove (if any)",
            "output('a')",
            "props.a == x || props['a'] == x || props.a =~ x || props[name] != x",
            "ownprops.a = x",
            "props = x",
            "x.put",
        ] {
            assert_eq!(names(none), (Vec::new(), false), "{none}");
        }
        for any in [
            "vars.put(name, 1)",
            "vars.put name, 1",
            "vars.put (name, 1)",
            "vars.put('a' + i, 1)",
            "vars.put 'a' + i, 1",
            "vars.put(\"a${i}\", 1)",
            "vars.put('\\u0061', 1)",
            "props[name] = 1",
            "props['a' + i] = 1",
            "put(",
        ] {
            assert_eq!(names(any), (Vec::new(), true), "{any}");
        }
    }
}
