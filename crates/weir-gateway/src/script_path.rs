//! Resolves the path of a request to the program file, `SCRIPT_NAME` and `PATH_INFO` (RFC 3875
//! section 4.1).

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_http::path;
use weir_http::problem::Problem;
use weir_model::pool::ScriptRoot;

/// Time to cache the file of a path.
const CACHE_TIME: Duration = Duration::from_secs(1);
/// Maximum number of paths cached by a worker.
const MAX_CACHED: usize = 1024;

/// The program of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// The program file, unless it is the agent itself.
    pub(crate) file: Option<PathBuf>,
    /// The folder that was searched.
    pub(crate) root: Option<PathBuf>,
    /// The part of the path that names the program, decoded.
    pub(crate) name: String,
    /// The rest of the path, decoded; empty or with a leading slash.
    pub(crate) info: String,
    /// The path of the program, percent-encoded, if another path was requested.
    pub(crate) own_path: Option<String>,
}

/// The cached files of paths of one worker.
#[derive(Debug, Default)]
pub(crate) struct ScriptPaths(RefCell<HashMap<Key, (Instant, Rc<Found>)>>);

/// A pool and a path.
type Key = (usize, String);

impl ScriptPaths {
    /// The file in a folder for the path `before` + `rest`; `rest` is below the route.
    pub(crate) async fn below(
        &self,
        pool: usize,
        root: &ScriptRoot,
        before: &str,
        rest: &str,
    ) -> Result<Rc<Found>, Problem> {
        let (key, now) = ((pool, format!("{before}{rest}")), Instant::now());
        if let Some((since, found)) = self.0.borrow().get(&key)
            && now.saturating_duration_since(*since) < CACHE_TIME
            // A reload may have changed the index of the pool.
            && found.root.as_deref() == Some(&root.folder)
        {
            return Ok(Rc::clone(found));
        }
        let (place, before, rest) = (root.clone(), before.to_owned(), rest.to_owned());
        // The disk may be slow.
        let found = tokio::task::spawn_blocking(move || resolve(&place, &before, &rest)).await;
        let found = found.map_err(|_| Problem::Internal)?.ok_or(Problem::NoRoute)?;
        let (found, mut known) = (Rc::new(found), self.0.borrow_mut());
        if known.len() >= MAX_CACHED {
            known.clear();
        }
        known.insert(key, (now, Rc::clone(&found)));
        Ok(found)
    }
}

/// Descends the folder along the path until a file is found; the rest of the path is `PATH_INFO`.
fn resolve(root: &ScriptRoot, before: &str, rest: &str) -> Option<Found> {
    let (mut file, mut taken) = (root.folder.clone(), 0);
    let mut found: Option<Metadata> = None;
    for segment in rest.split('/') {
        if segment.is_empty() && taken + 1 >= rest.len() {
            break;
        }
        let decoded = path::decode(segment);
        let plain = !decoded.is_empty()
            && !decoded.starts_with('.')
            && !decoded.contains(['/', '\\', '\0'])
            && !decoded.contains(char::REPLACEMENT_CHARACTER);
        if !plain {
            return None;
        }
        file.push(&*decoded);
        taken += segment.len();
        let metadata = fs::metadata(&file).ok()?;
        if metadata.is_file() {
            found = Some(metadata);
            break;
        }
        taken = (taken + 1).min(rest.len());
    }
    let mut path = format!("{before}{}", &rest[..taken]);
    if found.is_none() {
        let index = root.index.as_ref()?;
        file.push(index);
        found = fs::metadata(&file).ok().filter(Metadata::is_file);
        if !path.ends_with('/') {
            path.push('/');
        }
        path.push_str(index);
    }
    let metadata = found?;
    let file = file.canonicalize().ok()?;
    let fits = file.starts_with(&root.folder) && is_script(&file, &metadata, root);
    let info = decoded(&rest[taken..]);
    let (name, root) = (decoded(&path), Some(root.folder.clone()));
    let own_path = Some(path).filter(|path| *path != format!("{before}{rest}"));
    let found = Found { file: Some(file), root, name, info, own_path };
    (fits && !found.info.contains('\0')).then_some(found)
}

/// A decoded path for variables. Slashes and backslashes within segments stay escaped: decoded,
/// they would be separators, and `PATH_TRANSLATED` could leave its folder.
pub(crate) fn decoded(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut from = 0;
    for (at, _) in path.match_indices('%') {
        let escape = path.as_bytes().get(at + 1..at + 3);
        if matches!(escape, Some([b'2', b'F' | b'f'] | [b'5', b'C' | b'c'])) {
            out.push_str(&path::decode(&path[from..at]));
            out.push_str(&path[at..at + 3]);
            from = at + 3;
        }
    }
    out.push_str(&path::decode(&path[from..]));
    out
}

fn is_script(file: &Path, metadata: &Metadata, root: &ScriptRoot) -> bool {
    if root.extensions.is_empty() {
        return metadata.permissions().mode() & 0o111 != 0;
    }
    let extension = file.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| root.extensions.iter().any(|known| known == extension))
}

#[cfg(test)]
mod tests;
