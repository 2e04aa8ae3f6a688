//! Reads the main file and its included files.

use super::node::{Data, Node, Scalar};
use super::overlay::{self, VersionFolder};
use super::{Draft, glob, substitute, yaml};
use crate::finding::{Diagnostics, codes};
use crate::source_map::{SourceMap, Span};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// Maximum size of a file, included or named by `file:`, in bytes.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Maximum number of files of a configuration.
const MAX_FILES: usize = 1000;
/// Maximum depth of includes.
const MAX_INCLUDE_DEPTH: usize = 8;

/// What a draft may access besides its own text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Surroundings {
    /// Files and environment variables of this process.
    Process,
    /// Nothing: includes, files and environment variables are findings.
    Nothing,
}

/// Reads an entire draft; `None` without a top-level mapping.
pub(crate) struct Reader<'r> {
    pub(super) texts: SourceMap,
    pub(super) files: Vec<PathBuf>,
    pub(super) report: &'r mut Diagnostics,
    pub(super) surroundings: Surroundings,
    /// The texts stay as written: `${…}` in OpenAPI documents is not a variable of the
    /// configuration.
    pub(super) plain: bool,
    pub(super) included: Vec<Node>,
}

/// The result of reading: the draft, if there is one, and in any case the files that were read.
pub(super) type Read = Result<Draft, (SourceMap, Vec<PathBuf>)>;

/// Reads the draft at `path`, or `text` in place of the file; `version` finds the folder of the version
/// whose sections are added.
pub fn read(
    path: &Path,
    text: Option<&str>,
    sets: &[(String, String)],
    surroundings: Surroundings,
    version: VersionFolder<'_>,
    report: &mut Diagnostics,
) -> Read {
    let plain = Reader::plain(SourceMap::default(), report);
    let mut reader = Reader { surroundings, plain: false, ..plain };
    let root = match text {
        Some(text) => reader.parse(path, text),
        None => reader.main_file(path),
    };
    let Some(mut root) = root else { return Err((reader.texts, reader.files)) };
    let main = canonical(reader.texts.path(root.at.file));
    reader.include(&root, &mut vec![main]);
    // Where the version is comes first: further overrides may be of its sections.
    let (own, rest): (Vec<_>, Vec<_>) = sets.iter().partition(|(at, _)| overlay::is_own(at));
    for (at, value) in own {
        reader.set(&mut root, at, value);
    }
    if let Some(folder) = version(&root, &reader.texts) {
        reader.overlay(&mut root, &folder);
    }
    for (at, value) in rest {
        reader.set(&mut root, at, value);
    }
    let sealed = surroundings == Surroundings::Nothing;
    let described = reader.descriptions(&root);
    let Reader { texts, files, included, report, .. } = reader;
    let draft = Draft { root, included, described, texts, files, sealed };
    draft.check_names(report);
    Ok(draft)
}

/// Different spellings of a path must not hide a cycle.
pub fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

impl<'r> Reader<'r> {
    /// A reader without includes and substitutions.
    pub(crate) fn plain(texts: SourceMap, report: &'r mut Diagnostics) -> Self {
        Self {
            texts,
            files: Vec::new(),
            report,
            surroundings: Surroundings::Nothing,
            plain: true,
            included: Vec::new(),
        }
    }

    /// The texts that were read.
    pub(crate) fn into_texts(self) -> SourceMap {
        self.texts
    }

    pub(super) fn main_file(&mut self, path: &Path) -> Option<Node> {
        let file = if path.is_dir() { path.join("weir.yaml") } else { path.to_owned() };
        match self.read_file(&file) {
            Ok(text) => self.parse(&file, &text),
            Err(fault) => {
                let error = self.report.fault(None, fault);
                if path.is_dir() {
                    error.help("a folder needs a `weir.yaml`");
                }
                None
            }
        }
    }

    /// The text of a file, or the error.
    fn read_file(&mut self, path: &Path) -> Result<String, crate::finding::Fault> {
        if !self.files.iter().any(|f| f == path) {
            if self.files.len() >= MAX_FILES {
                let problem = format!("exceeds the limit of {MAX_FILES} files");
                return Err(fault(path, codes::TOO_MANY, &problem));
            }
            self.files.push(path.to_owned());
        }
        file_text(path)
    }

    /// The text of a file that is named at a location; `None` with a finding.
    pub(super) fn read_named(&mut self, path: &Path, at: Span) -> Option<String> {
        let read = self.read_file(path);
        read.map_err(|fault| self.report.fault(at, fault)).ok()
    }

    /// Parses and substitutes one text.
    fn parse(&mut self, path: &Path, text: &str) -> Option<Node> {
        let mut node = self.parse_plain(path, text)?;
        substitute::substitute(self, &mut node);
        Some(node)
    }

    /// Parses one text; `None` with a finding.
    pub(crate) fn parse_plain(&mut self, path: &Path, text: &str) -> Option<Node> {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let text = &*with_line_feeds(text);
        let file = self.texts.add(path.to_owned(), folder, text);
        if text.len() as u64 > MAX_FILE_BYTES {
            let message = format!("the text exceeds {MAX_FILE_BYTES} bytes");
            self.report.error(codes::BAD_FILE, Span::start(file), message);
            return None;
        }
        let root = yaml::parse(text, file, 0, self.report).ok()?.filter(|node| !node.is_null());
        // An empty file is an empty mapping.
        Some(root.unwrap_or(Node { at: Span::start(file), data: Data::Map(Vec::new()) }))
    }

    /// Reads the files that `node` includes; `chain` are the including files.
    pub(super) fn include(&mut self, node: &Node, chain: &mut Vec<PathBuf>) {
        let Some(include) = node.get("include") else { return };
        let items = include.items().unwrap_or(std::slice::from_ref(include));
        for item in items {
            let Some(text) = item.text() else { continue };
            if self.surroundings == Surroundings::Nothing {
                self.report.error(codes::INCLUDE, item.at, "includes are not allowed here");
                continue;
            }
            for path in self.matches(text, item, chain) {
                self.include_file(&path, item, chain);
            }
        }
    }

    /// The files that a text names. A pattern that matches its own file does not include that file.
    fn matches(&mut self, text: &str, item: &Node, chain: &[PathBuf]) -> Vec<PathBuf> {
        let path = self.texts.resolve(item.at.file, text);
        if !glob::is_pattern(text) {
            return vec![path];
        }
        let mut found = glob::find(&self.texts.resolve(item.at.file, ""), text, MAX_FILES);
        found.retain(|path| !chain.contains(&canonical(path)));
        if found.is_empty() {
            self.report.warning(codes::INCLUDE, item.at, format!("`{text}` matches no file"));
        }
        found
    }

    fn include_file(&mut self, path: &Path, item: &Node, chain: &mut Vec<PathBuf>) {
        let key = canonical(path);
        if chain.contains(&key) {
            let message = format!("`{}` includes itself (cycle)", path.display());
            self.report.error(codes::INCLUDE, item.at, message);
            return;
        }
        if chain.len() > MAX_INCLUDE_DEPTH {
            let message = format!("includes are nested deeper than {MAX_INCLUDE_DEPTH}");
            self.report.error(codes::INCLUDE, item.at, message);
            return;
        }
        // A file included twice is not a cycle: its content counts once.
        if self.texts.iter().any(|t| canonical(&t.path) == key) {
            return;
        }
        let Some(text) = self.read_named(path, item.at) else { return };
        let Some(node) = self.parse(path, &text) else { return };
        chain.push(key);
        self.include(&node, chain);
        chain.pop();
        self.included.push(node);
    }
}

/// A null, for an empty value.
pub(super) fn null(at: Span) -> Node {
    let scalar =
        Scalar { text: String::new(), plain: true, from_file: false, from_env: false, lost: false };
    Node { at, data: Data::Scalar(scalar) }
}

/// YAML accepts a lone carriage return as a line break. With line feeds in its place, findings and
/// redaction count the same lines as the parser.
fn with_line_feeds(text: &str) -> Cow<'_, str> {
    let lone = text.split('\n').any(|line| line.strip_suffix('\r').unwrap_or(line).contains('\r'));
    if lone { text.replace("\r\n", "\n").replace('\r', "\n").into() } else { text.into() }
}

fn fault(path: &Path, code: &'static str, problem: &str) -> crate::finding::Fault {
    crate::finding::Fault::value(format!("`{}` {problem}", path.display())).code(code)
}

/// How a missing file of a key set or a certificate is created for development.
fn creation(path: &Path) -> Option<String> {
    let (name, folder) = (path.file_name()?.to_str()?, path.parent()?);
    if name == "jwks.json" {
        let folder = folder.display();
        return Some(format!(
            "for development, `weir jwt keypair {folder}` creates it and its key"
        ));
    }
    let is_certificate = matches!(path.extension()?.to_str()?, "crt" | "pem" | "key");
    is_certificate.then(|| "for development, `tls: self-signed` needs no files".to_owned())
}

/// The text of a file of at most 16 MiB, or the error.
pub fn file_text(path: &Path) -> Result<String, crate::finding::Fault> {
    let unreadable =
        |error: std::io::Error| fault(path, codes::BAD_FILE, &format!("cannot be read: {error}"));
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            let missing = fault(path, codes::MISSING_FILE, "does not exist");
            match creation(path) {
                Some(help) => missing.help(help),
                None => missing,
            }
        }
        _ => unreadable(error),
    })?;
    // Reading a pipe or device could block or never end.
    if !metadata.is_file() {
        return Err(fault(path, codes::BAD_FILE, "is not a file"));
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(fault(path, codes::BAD_FILE, &format!("exceeds {MAX_FILE_BYTES} bytes")));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    String::from_utf8(bytes).map_err(|_| fault(path, codes::BAD_FILE, "is not UTF-8"))
}
