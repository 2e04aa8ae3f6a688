//! Patterns of `include:`: `*` and `?` within a name, `**` for any number of folders.

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
    for (name, path) in entries(folder) {
        match (*part == "**", path.is_dir()) {
            // A link to a parent folder would be an endless loop.
            (true, true) if depth > 0 && !path.is_symlink() && !name.starts_with('.') => {
                walk(&path, parts, depth - 1, limit, found);
            }
            (true, _) => {}
            (false, true) if matches(part, &name) => walk(&path, rest, depth, limit, found),
            (false, false) if rest.is_empty() && matches(part, &name) => found.push(path),
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

/// Whether a name matches: `*` is any number of characters, `?` any one. Only a dot matches a
/// leading dot.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // Position of the last star, and of the text that it has matched: the point of return after a
    // mismatch.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, eaten)) => {
                    star = Some((at, eaten + 1));
                    p = at + 1;
                    n = eaten + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_and_question_marks() {
        assert!(matches("*.yaml", "a.yaml"));
        assert!(matches("a*b*c", "axxbxbc"));
        assert!(matches("?.yaml", "é.yaml"));
        assert!(!matches("?.yaml", "ab.yaml"));
        assert!(!matches("*.yaml", ".hidden.yaml"));
        assert!(!matches("a*b", "axbx"));
    }
}
