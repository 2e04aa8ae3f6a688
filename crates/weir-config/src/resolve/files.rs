//! Static files.

use super::root::ROOT;
use super::{Fields, Resolver};
use crate::config::{Files, PathPattern};
use std::path::{Path, PathBuf};
use std::{fs, io};
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::shape::typed::{Defaulted, Typed, boolean, size, texts_of};
use weir_document::shape::{Key, Kind, Names, Shape, format};

const KIND: Kind = Kind::Either(&[Kind::Text, Kind::Object(&FILES)]);

/// `files` of a route.
pub(super) const FILES_KEY: Key = Key::new(
    "files",
    KIND,
    "Static files of a folder, for GET and HEAD. The path of the route ends in `/*`. A string is short for `{root: STRING}`.",
);

/// `none` means no file.
const INDEX: Defaulted<Vec<String>> = Typed::new(
    Key::new(
        "index",
        Kind::Either(&[Kind::Enum(&["none"]), Kind::OneOrMany(&Kind::Format(format::FILE_BELOW))]),
        "Index files of a folder: the first that exists is served.",
    ),
    |node| if node.text() == Some("none") { Some(Vec::new()) } else { texts_of(node) },
)
.default("index.html");
const PRECOMPRESSED: Defaulted<bool> = boolean(
    "precompressed",
    "Serve `FILE.br`, `FILE.zst` and `FILE.gz` in place of FILE to clients that accept the coding.",
)
.default("true");
const DOT_FILES: Defaulted<bool> = boolean(
    "dot_files",
    "Also serve hidden files: names of files or folders that begin with a dot.",
)
.default("false");
const MEMORY: Defaulted<u64> = size(
    "memory",
    "Maximum memory of the file cache (contents and compressed forms), for all workers.",
)
.default("32MiB");

/// `files` as a mapping.
pub(super) static FILES: Shape = Shape {
    misspellings: &[
        ("dir", "write `root`"),
        ("path", "write `root`"),
        ("folder", "write `root`"),
        ("gzip", "write `compress: true` beside `files`"),
        ("headers", "write `response: {headers: {set: …}}` beside `files`"),
        ("try_files", "write `fallback: index.html`"),
    ],
    ..Shape::new(
        "files",
        "Static files of a folder.",
        &[
            Key::new(
                "root",
                Kind::Text,
                "The folder, relative to this file; or a single file, if the path has no `/*`.",
            )
            .required(),
            INDEX.key,
            Key::new(
                "fallback",
                Kind::Format(format::FILE_BELOW),
                "File of the folder to serve in place of a 404, for single-page applications.",
            ),
            PRECOMPRESSED.key,
            DOT_FILES.key,
            Key::new(
                "cache_control",
                Kind::Format(format::HEADER_VALUE),
                "Cache-Control header of the responses.",
            ),
            Key::new(
                "types",
                Kind::Table(Names::Name, &Kind::Format(format::HEADER_VALUE)),
                "Content types by file extension, in addition to the built-in ones; they take precedence.",
            ),
            MEMORY.key,
        ],
    )
};

impl Resolver<'_> {
    /// `files` of a route.
    pub(super) fn files(&mut self, node: &Node, pattern: Option<&PathPattern>) -> Option<Files> {
        let short = node.members().is_none();
        let fields = if short { Fields::empty(&FILES) } else { Fields::new(node, &FILES) };
        let root = if short { node } else { fields.get("root")? };
        root.text().filter(|text| !text.is_empty())?;
        let path = self.path_of(root);
        let file = match pattern {
            Some(pattern) if !self.draft.sealed => self.find_file(root, &path, pattern)?,
            _ => None,
        };
        let folder = match &file {
            Some(_) => path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(".".as_ref()),
            None => path.as_path(),
        };
        let files = Files {
            file,
            index: fields.read(&INDEX),
            fallback: fields.text("fallback").map(str::to_owned),
            precompressed: fields.read(&PRECOMPRESSED),
            dot_files: fields.read(&DOT_FILES),
            cache_control: fields.text("cache_control").map(str::to_owned),
            types: types(&fields),
            memory: fields.read(&MEMORY),
            root: self.absolute_path(folder),
        };
        self.check_fallback(&fields, &files);
        Some(files)
    }

    /// Methods of a route that serves files: GET if none are set.
    pub(super) fn methods_of_files(&mut self, methods: Vec<String>, node: &Node) -> Vec<String> {
        if let Some(other) = methods.iter().find(|m| !matches!(m.as_str(), "GET" | "HEAD")) {
            let message = format!("{other} is not supported: files are read-only");
            self.report
                .error(codes::CONFLICT, node.at, message)
                .help("write `get: /path` (includes HEAD); use other routes for other methods");
        }
        if methods.is_empty() { vec!["GET".to_owned()] } else { methods }
    }

    /// Checks that the folder or file exists; returns the name of a single file.
    fn find_file(
        &mut self,
        node: &Node,
        path: &Path,
        pattern: &PathPattern,
    ) -> Option<Option<String>> {
        // It is not enough that a folder exists: its files must be accessible.
        let accessible = fs::metadata(path).and_then(|found| {
            if found.is_dir() {
                fs::metadata(path.join("."))
            } else {
                fs::File::open(path)?.metadata()
            }
        });
        let found = match accessible {
            Ok(found) => found,
            Err(error) => {
                let shown = path.display();
                if error.kind() == io::ErrorKind::NotFound {
                    let message = format!("`{shown}` does not exist");
                    self.report.error(codes::MISSING_FILE, node.at, message);
                } else {
                    let message = format!("`{shown}` cannot be read: {error}");
                    self.report.error(codes::BAD_FILE, node.at, message);
                }
                return None;
            }
        };
        if found.is_dir() {
            if !pattern.wildcard {
                let text = pattern.text.trim_end_matches('/');
                self.report
                    .error(codes::BAD_PATH, node.at, "the path for a folder must end in `/*`")
                    .help(format!("write `{text}/*`, or use a single file"));
                return None;
            }
            self.check_exposure(node, path);
            return Some(None);
        }
        if pattern.wildcard {
            let message = format!("`{}` is not a folder", path.display());
            self.report.error(codes::BAD_FILE, node.at, message);
            return None;
        }
        Some(Some(path.file_name()?.to_str()?.to_owned()))
    }

    /// Serving the folder of the configuration, or one above it, would publish all secrets.
    fn check_exposure(&mut self, node: &Node, folder: &Path) {
        let Ok(folder) = folder.canonicalize() else { return };
        let root = Fields::new(&self.draft.root, &ROOT);
        let data = self.data(&root);
        let inside =
            |path: &PathBuf| path.canonicalize().is_ok_and(|path| path.starts_with(&folder));
        let exposed = self.draft.files.iter().chain([&data]).find(|path| inside(path));
        if let Some(exposed) = exposed {
            let message = format!("`{}` would be public", exposed.display());
            self.report.error(codes::EXPOSED, node.at, message).help("serve a separate folder");
        }
    }

    fn check_fallback(&mut self, fields: &Fields<'_>, files: &Files) {
        if let (Some(node), Some(fallback)) = (fields.get("fallback"), &files.fallback)
            && !self.draft.sealed
            && format::FILE_BELOW.check(fallback).is_ok()
            && !files.root.join(fallback).is_file()
        {
            let message = format!("the folder has no `{fallback}`");
            self.report.warning(codes::MISSING_FILE, node.at, message);
        }
    }
}

fn types(fields: &Fields<'_>) -> Vec<(String, String)> {
    let members = fields.members("types").iter();
    members.filter_map(|m| Some((m.key.to_ascii_lowercase(), m.value.text()?.to_owned()))).collect()
}
