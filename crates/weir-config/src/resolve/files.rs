//! Files of a folder.

use super::keys;
use super::{Fields, Resolver};
use crate::config::{Files, PathPattern};
use crate::draft::Node;
use crate::finding::codes;
use crate::shape::Form;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Bytes of contents that are kept, unless said otherwise.
const MEMORY: u64 = 32 << 20;

impl Resolver<'_> {
    /// `files` of a route.
    pub(super) fn files(&mut self, node: &Node, pattern: Option<&PathPattern>) -> Option<Files> {
        let short = node.members().is_none();
        let fields = if short { super::fields::nothing() } else { node };
        let fields = Fields::new(fields, &keys::FILES);
        let root = if short { node } else { fields.get("root")? };
        root.text().filter(|text| !text.is_empty())?;
        let path = self.path_of(root);
        let file = match pattern {
            Some(pattern) if !self.draft.sealed => self.look_at(root, &path, pattern)?,
            _ => None,
        };
        let folder = match &file {
            Some(_) => path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(".".as_ref()),
            None => path.as_path(),
        };
        let files = Files {
            file,
            index: index(&fields),
            fallback: fields.text("fallback").map(str::to_owned),
            precompressed: fields.bool("precompressed").unwrap_or(true),
            dot_files: fields.bool("dot_files").unwrap_or(false),
            cache_control: fields.text("cache_control").map(str::to_owned),
            types: types(&fields),
            memory: fields.size("memory").unwrap_or(MEMORY),
            root: self.place_of(folder),
        };
        self.look_for_fallback(&fields, &files);
        Some(files)
    }

    /// Methods of a route that serves files: what is not said is GET.
    pub(super) fn methods_of_files(&mut self, methods: Vec<String>, node: &Node) -> Vec<String> {
        if let Some(other) = methods.iter().find(|m| !matches!(m.as_str(), "GET" | "HEAD")) {
            let message = format!("{other} is not supported: files are read-only");
            self.report
                .error(codes::CONFLICT, node.at, message)
                .help("write `get: /path` (includes HEAD); use other routes for other methods");
        }
        if methods.is_empty() { vec!["GET".to_owned()] } else { methods }
    }

    /// Whether what is to be served is there; gives its name if it is a single file.
    fn look_at(
        &mut self,
        node: &Node,
        path: &Path,
        pattern: &PathPattern,
    ) -> Option<Option<String>> {
        // Of a folder it is not enough that it is there: what is in it must be found.
        let looked = fs::metadata(path).and_then(|found| {
            if found.is_dir() {
                fs::metadata(path.join("."))
            } else {
                fs::File::open(path)?.metadata()
            }
        });
        let found = match looked {
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
            self.look_for_exposure(node, path);
            return Some(None);
        }
        if pattern.wildcard {
            let message = format!("`{}` is not a folder", path.display());
            self.report.error(codes::BAD_FILE, node.at, message);
            return None;
        }
        Some(Some(path.file_name()?.to_str()?.to_owned()))
    }

    /// A slip that would publish every secret: the folder of the configuration, or one above it.
    fn look_for_exposure(&mut self, node: &Node, folder: &Path) {
        let Ok(folder) = folder.canonicalize() else { return };
        let root = Fields::new(&self.draft.root, &keys::ROOT);
        let data = self.data(&root);
        let inside =
            |path: &PathBuf| path.canonicalize().is_ok_and(|path| path.starts_with(&folder));
        let exposed = self.draft.files.iter().chain([&data]).find(|path| inside(path));
        if let Some(exposed) = exposed {
            let message = format!("`{}` would be public", exposed.display());
            self.report.error(codes::EXPOSED, node.at, message).help("serve a separate folder");
        }
    }

    fn look_for_fallback(&mut self, fields: &Fields<'_>, files: &Files) {
        if let (Some(node), Some(fallback)) = (fields.get("fallback"), &files.fallback)
            && !self.draft.sealed
            && Form::FileBelow.check(fallback).is_ok()
            && !files.root.join(fallback).is_file()
        {
            let message = format!("the folder has no `{fallback}`");
            self.report.warning(codes::MISSING_FILE, node.at, message);
        }
    }
}

fn index(fields: &Fields<'_>) -> Vec<String> {
    match fields.texts("index") {
        names if names.is_empty() => vec!["index.html".to_owned()],
        names if names == ["none"] => Vec::new(),
        names => names,
    }
}

fn types(fields: &Fields<'_>) -> Vec<(String, String)> {
    let members = fields.members("types").iter();
    members.filter_map(|m| Some((m.key.to_ascii_lowercase(), m.value.text()?.to_owned()))).collect()
}
