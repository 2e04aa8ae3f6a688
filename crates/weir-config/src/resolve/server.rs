//! Listeners, admin, limits, drain, log.

use super::{Fields, Resolver, absolute_path};
use crate::config::{AccessLog, IoBackend, Limits, LogTarget};
use std::path::{Path, PathBuf};
use weir_document::draft::Node;
use weir_document::finding::codes;

/// Number of worker threads: as written, or one per core.
pub(super) fn workers(root: &Fields<'_>) -> usize {
    root.integer("workers").and_then(|n| usize::try_from(n).ok()).unwrap_or_else(|| {
        std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get)
    })
}

/// How workers wait for connections.
pub(super) fn io(root: &Fields<'_>) -> IoBackend {
    root.text("io").and_then(|name| name.parse().ok()).unwrap_or_default()
}

impl Resolver<'_> {
    pub(super) fn limits(&mut self, root: &Fields<'_>) -> Limits {
        let fields = root.object_or_empty("limits", Limits::SHAPE);
        let limits = Limits::read(&fields);
        for (key, value, least, most) in [
            ("header_bytes", limits.header_bytes, 1024, 1024 * 1024),
            ("url", limits.url, 256, limits.header_bytes),
        ] {
            if !(least..=most).contains(&value)
                && let Some(node) = fields.get(key)
            {
                self.report
                    .error(codes::BAD_VALUE, node.at, format!("`{key}` is out of range"))
                    .help(match key {
                        "url" => "at least 256B and at most `header_bytes`",
                        _ => "from 1KiB to 1MiB",
                    });
            }
        }
        limits
    }

    pub(super) fn access_log(&mut self, root: &Fields<'_>) -> AccessLog {
        let fields = root.object_or_empty("log", AccessLog::SHAPE);
        let target = match fields.get("to") {
            Some(node) if node.text() != Some("stderr") => {
                LogTarget::File(self.absolute_path(&self.path_of(node)))
            }
            _ => LogTarget::Stderr,
        };
        AccessLog { target, ..AccessLog::read(&fields) }
    }

    pub(super) fn data(&mut self, root: &Fields<'_>) -> PathBuf {
        let file = root.get("data").unwrap_or(root.node()).at.file;
        self.absolute_path(&self.draft.texts.resolve(file, &root.text_or_default("data")))
    }

    /// An absolute path, as used by weir and by programs; of a sealed draft without access to the
    /// file system.
    pub(super) fn absolute_path(&self, path: &Path) -> PathBuf {
        if self.draft.sealed { absolute_path::lexical(path) } else { absolute_path::absolute(path) }
    }

    /// The path of a node, relative to the folder of its file.
    pub(super) fn path_of(&self, node: &Node) -> PathBuf {
        self.draft.texts.resolve(node.at.file, node.text().unwrap_or_default())
    }
}
