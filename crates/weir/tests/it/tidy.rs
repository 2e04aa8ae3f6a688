//! The house rules, executed: what a reviewer would otherwise have to say again and again.
//!
//! Every check takes texts and gives problems, so that each can be shown to fail here; the tests
//! at the end of each module apply it to the repository itself.

mod code;
mod documents;
mod edges;
mod keys;
mod modules;
mod sources;
mod terms;
mod words;

use std::fs;
use std::path::{Path, PathBuf};

/// Root of the repository.
fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the repository is there")
}

/// Files below `folder` (relative to the root) with one of these extensions, as paths relative to
/// the root with their text. Build output, run-time data and git's own files are left out.
fn files(folder: &str, extensions: &[&str]) -> Vec<(String, String)> {
    let root = root();
    let mut found = Vec::new();
    let mut open = vec![root.join(folder)];
    while let Some(dir) = open.pop() {
        let Ok(entries) = fs::read_dir(&dir) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_dir() {
                if !name.starts_with('.')
                    && !matches!(name, "target" | "data" | "corpus" | "node_modules")
                {
                    open.push(path);
                }
                continue;
            }
            let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
            if extensions.contains(&extension)
                && let Ok(text) = fs::read_to_string(&path)
                && let Ok(relative) = path.strip_prefix(&root)
            {
                found.push((relative.display().to_string(), text));
            }
        }
    }
    found.sort();
    found
}

/// Fails with every problem on a line of its own.
fn assert_none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}
