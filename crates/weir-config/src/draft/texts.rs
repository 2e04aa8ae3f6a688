//! The texts a draft was read from: configuration files and `--set` values.

use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Index of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId(pub(crate) u32);

/// One text.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    /// Its file as found from the path the user gave, or what stands for it (`--set path`).
    pub(crate) path: PathBuf,
    /// What relative paths in it start from.
    pub(crate) folder: PathBuf,
    /// Its characters.
    pub(crate) text: Arc<str>,
}

/// All texts of a draft.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    list: Vec<Text>,
}

impl Texts {
    /// Adds a text.
    pub(crate) fn add(&mut self, path: PathBuf, folder: PathBuf, text: &str) -> FileId {
        let id = FileId(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        self.list.push(Text { path, folder, text: text.into() });
        id
    }

    /// The text of this index.
    pub(crate) fn get(&self, id: FileId) -> Option<&Text> {
        self.list.get(id.0 as usize)
    }

    /// Path of the text of this index.
    pub(crate) fn path(&self, id: FileId) -> &Path {
        self.get(id).map_or(Path::new(""), |t| &t.path)
    }

    /// `path` as seen from the folder of the text `id`.
    pub(crate) fn resolve(&self, id: FileId, path: &str) -> PathBuf {
        self.get(id).map_or_else(|| PathBuf::from(path), |t| t.folder.join(path))
    }

    /// Every text.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Text> {
        self.list.iter()
    }
}

/// What stands for each character of a secret.
const BLOT: char = '*';

impl Texts {
    /// The texts with what stands at `spots` blotted out.
    pub(crate) fn hide(mut self, spots: &[super::Spot]) -> Self {
        for (index, text) in self.list.iter_mut().enumerate() {
            let mut spots = spots.iter().filter(|s| s.file.0 as usize == index).peekable();
            if spots.peek().is_none() {
                continue;
            }
            let mut lines: Vec<Vec<char>> =
                text.text.lines().map(|l| l.chars().collect()).collect();
            for spot in spots {
                blot(spot, &mut lines);
            }
            let lines: Vec<String> = lines.into_iter().map(String::from_iter).collect();
            text.text = lines.join("\n").into();
        }
        self
    }
}

/// What is in the name of a key whose value may be a secret.
const SECRETS: [&str; 10] = [
    "authorization",
    "cookie",
    "key",
    "token",
    "secret",
    "passw",
    "bearer",
    "credential",
    "jwks",
    "signature",
];

/// Whether a header or a query parameter of this name may have a secret as its value: beside what
/// [`names_secret`] says, abbreviations that are too short for any key.
#[must_use]
pub fn names_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let mut words = name.split(|c: char| !c.is_ascii_alphanumeric());
    names_secret(&name.replace("keyword", ""))
        || words.any(|word| {
            matches!(word, "sig" | "sign" | "hmac" | "mac" | "pwd" | "sas")
                || (word.contains("auth") && !word.starts_with("author"))
        })
}

/// Whether a text is a URL with a password, or a URL or a path with a query parameter that may be a
/// secret.
pub(crate) fn is_url_with_secret(text: &str) -> bool {
    let (authority, rest) = match text.split_once("://") {
        Some((_, rest)) => (&rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())], rest),
        None if text.starts_with('/') => ("", text),
        None => return false,
    };
    let query = rest.split_once('?').map_or("", |(_, query)| query);
    let named = |pair: &str| names_credential(pair.split('=').next().unwrap_or_default());
    authority.contains('@') || query.split(['&', ';', '#']).any(named)
}

/// Whether a key of this name, known or not, may have a secret as its value.
pub(crate) fn names_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    // `value` is one below `header`.
    key == "value" || SECRETS.iter().any(|part| key.contains(part))
}

impl Texts {
    /// The texts with all that may be a secret blotted out in those that nobody could read: what
    /// follows a name that sounds like one, what is indented below it, and lines without a name.
    pub(crate) fn hide_unread(mut self, unread: &[FileId]) -> Self {
        for id in unread {
            let Some(text) = self.list.get_mut(id.0 as usize) else { continue };
            let mut below: Option<usize> = None;
            let lines: Vec<String> =
                text.text.lines().map(|line| hide_line(line, &mut below)).collect();
            text.text = lines.join("\n").into();
        }
        self
    }
}

/// One line; `below` is the indentation of the secret that the line before belongs to.
fn hide_line(line: &str, below: &mut Option<usize>) -> String {
    let indent = line.len() - line.trim_start().len();
    if line.trim().is_empty() {
        return line.to_owned();
    }
    let belongs = below.is_some_and(|secret| indent > secret);
    if !belongs {
        *below = None;
    }
    let colons = line.match_indices(':').map(|(at, _)| at);
    let named = colons.clone().find(|at| {
        let name = line[..*at].trim_end_matches(['"', '\'', ' ']);
        let mut parts = name.rsplit(|c: char| !(c.is_alphanumeric() || "_-.".contains(c)));
        parts.next().is_some_and(names_secret)
    });
    let from = match named {
        _ if belongs => indent,
        Some(at) => {
            *below = Some(indent);
            at + 1
        }
        None if line.contains(':') => return line.to_owned(),
        None => indent,
    };
    let blotted = line[from..].chars().map(|c| if c.is_whitespace() { c } else { BLOT });
    line[..from].chars().chain(blotted).collect()
}

/// Blots out what stands at `spot`; of further lines all but the indentation.
fn blot(spot: &super::Spot, lines: &mut [Vec<char>]) {
    let first = spot.line as usize - 1;
    let start = spot.column as usize - 1;
    let (last, end) = match spot.until {
        Some((line, end)) => (line as usize - 1, end as usize),
        None => (first, start + spot.width as usize),
    };
    let lines = lines.iter_mut().enumerate().take(last + 1).skip(first);
    for (index, line) in lines {
        let indent = || line.iter().take_while(|c| c.is_whitespace()).count();
        let from = if index == first { start } else { indent() };
        let to = if index == last { end } else { line.len() };
        let to = to.min(line.len());
        line[from.min(to)..to].fill(BLOT);
    }
}

#[cfg(test)]
mod tests {
    use super::{hide_line, is_url_with_secret, names_credential};

    #[test]
    fn what_may_be_a_credential_is_known_by_its_name() {
        for name in ["X-Api-Key", "sig", "x-amz-signature", "X-Auth", "oauth_verifier", "api_sig"] {
            assert!(names_credential(name), "{name}");
        }
        for name in ["format", "keyword", "author", "design", "signal", "page", ""] {
            assert!(!names_credential(name), "{name}");
        }
        let secret = ["https://u:p@a/", "https://a/hook?x=1&sig=abc", "srv+https://a?api_key=b#c"];
        for url in secret.into_iter().chain(["/alive?token=a"]) {
            assert!(is_url_with_secret(url), "{url}");
        }
        for url in ["https://a/u:p@b?page=1", "a?sig=b", "https://a/?q=sig", "/a/b@c?page=1"] {
            assert!(!is_url_with_secret(url), "{url}");
        }
    }

    #[test]
    fn what_a_secret_sounding_name_says_is_blotted_whatever_stands_around_it() {
        let hidden = |line: &str| hide_line(line, &mut None);
        assert_eq!(hidden("  token: abc"), "  token: ***");
        assert_eq!(hidden("{€my-token: abc}"), "{€my-token: ****");
        assert_eq!(hidden("{\"\u{9f}son\": \"a\"}"), "{\"\u{9f}son\": \"a\"}");
        assert_eq!(hidden("路径: {pässword: x}"), "路径: {pässword: x}");
    }
}
