//! The texts of a draft: configuration files and `--set` values.

use crate::secret_names::names_secret;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Index of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileId(pub u32);

/// One text.
#[derive(Clone, Debug)]
pub struct SourceText {
    /// Its file, relative to the path given by the user, or a substitute (`--set path`).
    pub path: PathBuf,
    /// Base folder of relative paths.
    pub folder: PathBuf,
    /// The content.
    pub text: Arc<str>,
}

/// A location in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The text.
    pub file: FileId,
    /// 1-based line.
    pub line: u32,
    /// 1-based column, in characters.
    pub column: u32,
    /// Width in characters on that line, at least 1.
    pub width: u32,
    /// End of a location of several lines: 1-based line, and the number of its characters.
    pub until: Option<(u32, u32)>,
}

impl Span {
    /// The location of values that are not written, such as defaults.
    pub const NOWHERE: Self = Self::start(FileId(0));

    /// The start of a text.
    pub const fn start(file: FileId) -> Self {
        Self { file, line: 1, column: 1, width: 1, until: None }
    }
}

/// All texts of a configuration.
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    list: Vec<SourceText>,
    /// The folder of a version, and the one in which files are that the version does not have.
    version: Option<Box<(PathBuf, PathBuf)>>,
}

impl SourceMap {
    /// Adds a text.
    pub fn add(&mut self, path: PathBuf, folder: PathBuf, text: &str) -> FileId {
        let id = FileId(u32::try_from(self.list.len()).unwrap_or(u32::MAX));
        self.list.push(SourceText { path, folder, text: text.into() });
        id
    }

    /// The text of this index.
    pub fn get(&self, id: FileId) -> Option<&SourceText> {
        self.list.get(id.0 as usize)
    }

    /// Path of the text of this index.
    pub fn path(&self, id: FileId) -> &Path {
        self.get(id).map_or(Path::new(""), |t| &t.path)
    }

    /// A location for readers: path, line, column and width.
    pub(crate) fn place(&self, at: Span) -> (PathBuf, usize, usize, usize) {
        let path = self.path(at.file).to_owned();
        (path, at.line as usize, at.column as usize, at.width as usize)
    }

    /// Sets the folder of a version, and the one in which files are that the version does not have.
    pub(crate) fn set_version(&mut self, folder: PathBuf, own: PathBuf) {
        self.version = Some(Box::new((folder, own)));
    }

    /// `path` relative to the folder of the text `id`. Where a text of a version names a file that the
    /// version does not have, a file of the node is meant.
    pub fn resolve(&self, id: FileId, path: &str) -> PathBuf {
        let Some(text) = self.get(id) else { return PathBuf::from(path) };
        let resolved = text.folder.join(path);
        let Some((folder, own)) = self.version.as_deref() else { return resolved };
        match resolved.strip_prefix(folder) {
            Ok(rest) if leaves(rest) || !resolved.exists() => own.join(rest),
            _ => resolved,
        }
    }

    /// Every text.
    pub fn iter(&self) -> impl Iterator<Item = &SourceText> {
        self.list.iter()
    }
}

/// Whether a relative path leaves its folder.
fn leaves(path: &Path) -> bool {
    let mut depth = 0_usize;
    path.components().any(|part| match part {
        Component::Normal(_) => {
            depth += 1;
            false
        }
        Component::ParentDir => match depth.checked_sub(1) {
            Some(less) => {
                depth = less;
                false
            }
            None => true,
        },
        _ => false,
    })
}

/// Replacement for each character of a secret.
const MASK: char = '*';

impl SourceMap {
    /// The texts with the content of `spans` redacted, and with possible secrets redacted in the
    /// texts `unread`, which could not be parsed: values of keys that indicate secrets, lines
    /// indented below them, and lines without a key.
    pub(crate) fn redact(mut self, spans: &[Span], unread: &[FileId]) -> Self {
        for (index, text) in self.list.iter_mut().enumerate() {
            let mut spans = spans.iter().filter(|s| s.file.0 as usize == index).peekable();
            if spans.peek().is_none() {
                continue;
            }
            let mut lines: Vec<Vec<char>> =
                text.text.lines().map(|l| l.chars().collect()).collect();
            for span in spans {
                redact_span(span, &mut lines);
            }
            let lines: Vec<String> = lines.into_iter().map(String::from_iter).collect();
            text.text = lines.join("\n").into();
        }
        for id in unread {
            let Some(text) = self.list.get_mut(id.0 as usize) else { continue };
            let mut below: Option<usize> = None;
            let lines: Vec<String> =
                text.text.lines().map(|line| redact_line(line, &mut below)).collect();
            text.text = lines.join("\n").into();
        }
        self
    }
}

/// Redacts a line; `below` is the indentation of the secret that previous lines belong to.
fn redact_line(line: &str, below: &mut Option<usize>) -> String {
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
    let masked = line[from..].chars().map(|c| if c.is_whitespace() { c } else { MASK });
    line[..from].chars().chain(masked).collect()
}

/// Redacts the text of `span`; of further lines all but the indentation.
fn redact_span(span: &Span, lines: &mut [Vec<char>]) {
    let first = span.line as usize - 1;
    let start = span.column as usize - 1;
    let (last, end) = match span.until {
        Some((line, end)) => (line as usize - 1, end as usize),
        None => (first, start + span.width as usize),
    };
    let lines = lines.iter_mut().enumerate().take(last + 1).skip(first);
    for (index, line) in lines {
        let indent = || line.iter().take_while(|c| c.is_whitespace()).count();
        let from = if index == first { start } else { indent() };
        let to = if index == last { end } else { line.len() };
        let to = to.min(line.len());
        line[from.min(to)..to].fill(MASK);
    }
}

#[cfg(test)]
mod tests {
    use super::redact_line;

    #[test]
    fn what_a_secret_sounding_name_says_is_masked_whatever_stands_around_it() {
        let hidden = |line: &str| redact_line(line, &mut None);
        assert_eq!(hidden("  token: abc"), "  token: ***");
        assert_eq!(hidden("{€my-token: abc}"), "{€my-token: ****");
        assert_eq!(hidden("{\"\u{9f}son\": \"a\"}"), "{\"\u{9f}son\": \"a\"}");
        assert_eq!(hidden("路径: {pässword: x}"), "路径: {pässword: x}");
    }
}
