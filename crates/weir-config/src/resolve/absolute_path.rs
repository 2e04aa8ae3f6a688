//! Paths of the configuration, resolved once: absolute, and without `..`.
//!
//! Agents receive some of them and have working folders of their own; PHP does not find a script by
//! a path with `..`. Symbolic links are kept: a link to the current release may be switched while
//! weir runs. Findings show paths as written.

use std::path::{Component, Path, PathBuf};

/// A path of this machine. Where `..` follows a symbolic link, the link is resolved first, as the
/// operating system does.
pub(super) fn absolute(path: &Path) -> PathBuf {
    without_parents(path, |link| link.canonicalize().unwrap_or_else(|_| link.to_owned()))
}

/// A path that may be one of another machine: the file system is not read.
pub(super) fn lexical(path: &Path) -> PathBuf {
    without_parents(path, Path::to_owned)
}

fn without_parents(path: &Path, resolved: impl Fn(&Path) -> PathBuf) -> PathBuf {
    // The folder of a file named without one is the working folder of weir.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    path.components().fold(PathBuf::new(), |mut out, component| {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out = resolved(&out);
                out.pop();
            }
            _ => out.push(component),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_absolute_and_without_parents() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink("a/b", root.join("link")).unwrap();
        assert_eq!(absolute(&root.join("a/../a/./b")), root.join("a/b"));
        assert_eq!(absolute(&root.join("link/x")), root.join("link/x"), "links stay");
        assert_eq!(absolute(&root.join("link/../x")), root.join("a/x"), "as the system reads it");
        assert_eq!(absolute(&root.join("none/../data")), root.join("data"));
        assert_eq!(absolute(Path::new("/../..")), Path::new("/"));
        assert_eq!(lexical(Path::new("/link/../x/./y/")), Path::new("/x/y"));
        assert!(absolute(Path::new("")).is_absolute());
    }
}
