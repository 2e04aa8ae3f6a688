//! Patterns of `include:`: `*` and `?` within a name, `**` for any number of folders.

use regex::Regex;
use std::path::{Path, PathBuf};

/// Maximum depth of folders that `**` searches.
const MAX_DEPTH: usize = 8;

/// Whether a path is a pattern.
pub(super) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// The files below `folder` that match, in the order of their names, at most `limit`.
pub(super) fn find(folder: &Path, pattern: &str, limit: usize) -> Vec<PathBuf> {
    let (start, rest) = match pattern.strip_prefix('/') {
        Some(rest) => (PathBuf::from("/"), rest),
        None => (folder.to_owned(), pattern),
    };
    let parts: Vec<&str> = rest.split('/').filter(|p| !p.is_empty()).collect();
    let mut found = Vec::new();
    walk(&start, &parts, MAX_DEPTH, limit, &mut found);
    found.sort();
    found.dedup();
    found
}

fn walk(folder: &Path, parts: &[&str], depth: usize, limit: usize, found: &mut Vec<PathBuf>) {
    let [part, rest @ ..] = parts else { return };
    if found.len() >= limit {
        return;
    }
    if !is_pattern(part) {
        let path = folder.join(part);
        match rest {
            [] if path.is_file() => found.push(path),
            [] => {}
            _ => walk(&path, rest, depth, limit, found),
        }
        return;
    }
    if *part == "**" {
        walk(folder, rest, depth, limit, found);
    }
    let Ok(names) = names(part) else { return };
    let matches = |name: &str| is_match(&names, part, name);
    for (name, path) in entries(folder) {
        match (*part == "**", path.is_dir()) {
            // A link to a parent folder would be an endless loop.
            (true, true) if depth > 0 && !path.is_symlink() && !name.starts_with('.') => {
                walk(&path, parts, depth - 1, limit, found);
            }
            (true, _) => {}
            (false, true) if matches(&name) => walk(&path, rest, depth, limit, found),
            (false, false) if rest.is_empty() && matches(&name) => found.push(path),
            (false, _) => {}
        }
    }
}

fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            Some((entry.file_name().into_string().ok()?, entry.path()))
        })
        .collect()
}

/// The names of a pattern: `*` is any number of characters, `?` any one.
fn names(pattern: &str) -> Result<Regex, regex::Error> {
    let expression = regex::escape(pattern).replace(r"\*", ".*").replace(r"\?", ".");
    Regex::new(&format!("(?s)^{expression}$"))
}

/// Whether a name matches. Only a dot matches a leading dot.
fn is_match(names: &Regex, pattern: &str, name: &str) -> bool {
    (pattern.starts_with('.') || !name.starts_with('.')) && names.is_match(name)
}

#[cfg(test)]
mod tests {
    use super::{is_match, names};

    #[test]
    fn stars_and_question_marks() {
        let matches = |pattern: &str, name: &str| is_match(&names(pattern).unwrap(), pattern, name);
        assert!(matches("*.yaml", "a.yaml"));
        assert!(matches("a*b*c", "axxbxbc"));
        assert!(matches("?.yaml", "é.yaml"));
        assert!(!matches("?.yaml", "ab.yaml"));
        assert!(!matches("*.yaml", ".hidden.yaml"));
        assert!(!matches("a*b", "axbx"));
    }
}
