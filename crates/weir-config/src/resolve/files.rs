//! Static files.

use super::root::ROOT;
use super::{Fields, Resolver};
use crate::config::Files;
use crate::path_pattern::PathPattern;
use std::path::{Path, PathBuf};
use std::{fs, io};
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::shape::{Key, Kind, format};

const KIND: Kind = Kind::Either(&[Kind::Text, Kind::Object(Files::SHAPE)]);

/// `files` of a route.
pub(super) const FILES_KEY: Key = Key::new(
    "files",
    KIND,
    "Static files of a folder, for GET and HEAD. The path of the route ends in `/*`. A string is short for `{root: STRING}`.",
);

impl Resolver<'_> {
    /// `files` of a route.
    pub(super) fn files(&mut self, node: &Node, pattern: Option<&PathPattern>) -> Option<Files> {
        let short = node.members().is_none();
        let fields =
            if short { Fields::empty(Files::SHAPE) } else { Fields::new(node, Files::SHAPE) };
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
        let files = Files::read(&fields, self.absolute_path(folder), file);
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
