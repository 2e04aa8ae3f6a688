//! Watching the files a configuration was made of.
//!
//! Folders are watched, not files: editors replace files by renaming, and Kubernetes swaps a
//! symbolic link beside them. An event in a folder says little, so it only makes us look: a change
//! is reported when a file has another identity, size or time than when it was last loaded, or
//! when a configuration file has come or gone beside one of them (`include:` takes patterns).

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::unix::pipe::Receiver;
use tokio::time::{Instant, timeout};

/// Quiet time that ends a burst of events: a file may be written in several steps.
const QUIET_INTERVAL: Duration = Duration::from_millis(100);
/// A burst is cut off after this time, should a folder never be quiet.
const BURST: Duration = Duration::from_secs(1);

/// What changes a folder or what it has. Not that something is opened or read: agents may do so for
/// each request, and reading the configuration must not look like a change of it.
const CHANGES: WatchFlags = WatchFlags::ATTRIB
    .union(WatchFlags::CLOSE_WRITE)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::DELETE_SELF)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::MOVE)
    .union(WatchFlags::MOVE_SELF)
    .union(WatchFlags::ONLYDIR);

/// Watches folders.
pub(crate) struct Watch {
    /// `None` when the system gives no watches; then only SIGHUP reloads.
    /// inotify is no pipe, but is waited for and read like one.
    inotify: Option<Receiver>,
    /// The folders, with their watches; none where one cannot be had.
    folders: BTreeMap<PathBuf, Option<i32>>,
    files: Vec<PathBuf>,
    seen: State,
}

/// What the files look like: identity, size and time of each, and their neighbours' names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// `None` for a file that is not there.
    files: BTreeMap<PathBuf, Option<Look>>,
    neighbours: BTreeSet<PathBuf>,
}

/// What tells one content of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    device: u64,
    inode: u64,
    size: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl Watch {
    /// Watches nothing yet; to be made within a runtime. Gives what is wrong beside it when the system
    /// cannot watch.
    pub(crate) fn new() -> (Self, Option<io::Error>) {
        let made = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .map_err(io::Error::from)
            .and_then(|inotify| Receiver::from_file_unchecked(inotify.into()));
        let (inotify, problem) = match made {
            Ok(inotify) => (Some(inotify), None),
            Err(problem) => (None, Some(problem)),
        };
        let (folders, files, seen) = (BTreeMap::new(), Vec::new(), State::default());
        (Self { inotify, folders, files, seen }, problem)
    }

    /// What the watched files look like now. To be taken before they are read, so that a change
    /// while they are read is not missed.
    pub(crate) fn look(&self) -> State {
        State::of(&self.files, self.folders.keys())
    }

    /// Watches these files from now on; `before` is how those looked that were watched already.
    pub(crate) fn set(&mut self, files: Vec<PathBuf>, before: State) {
        let folders: BTreeSet<PathBuf> = files.iter().flat_map(|file| folders_of(file)).collect();
        let gone: Vec<Option<i32>> = self
            .folders
            .extract_if(.., |folder, _| !folders.contains(folder))
            .map(|f| f.1)
            .collect();
        let inotify = self.inotify.as_ref();
        for folder in folders {
            self.folders.entry(folder).or_insert_with_key(|folder| {
                // A folder that cannot be watched may be gone; SIGHUP still works.
                inotify::add_watch(inotify?, folder, CHANGES).ok()
            });
        }
        for watch in gone.into_iter().flatten() {
            // By another path it may be watched still: it has one watch then.
            let wanted = self.folders.values().any(|other| *other == Some(watch));
            if let Some(inotify) = inotify.filter(|_| !wanted) {
                let _ = inotify::remove_watch(inotify, watch);
            }
        }
        self.files = files;
        self.seen = self.look();
        for (file, looked) in before.files {
            if let Some(seen) = self.seen.files.get_mut(&file) {
                *seen = looked;
            }
        }
    }

    /// Waits until a file looks different from when it was last loaded.
    pub(crate) async fn changed(&mut self) {
        loop {
            self.woken().await;
            let end = Instant::now() + BURST;
            while Instant::now() < end {
                if timeout(QUIET_INTERVAL, self.woken()).await.is_err() {
                    break;
                }
            }
            if self.look() != self.seen {
                return;
            }
        }
    }

    /// Waits until something has happened in a folder.
    async fn woken(&self) {
        if let Some(inotify) = &self.inotify {
            while inotify.readable().await.is_ok() {
                let mut happened = false;
                // What it was is found out by looking; that is true of lost events as well.
                while inotify.try_read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
                    happened = true;
                }
                if happened {
                    return;
                }
            }
        }
        std::future::pending::<()>().await;
    }
}

impl State {
    fn of<'a>(files: &[PathBuf], folders: impl Iterator<Item = &'a PathBuf>) -> Self {
        let look = |path: &PathBuf| {
            let data = std::fs::metadata(path).ok()?;
            Some(Look {
                device: data.dev(),
                inode: data.ino(),
                size: data.size(),
                seconds: data.mtime(),
                nanoseconds: data.mtime_nsec(),
            })
        };
        Self {
            files: files.iter().map(|file| (file.clone(), look(file))).collect(),
            neighbours: folders.flat_map(|folder| configurations_in(folder)).collect(),
        }
    }
}

/// Files in a folder that an `include:` may name.
fn configurations_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let is_configuration =
        |path: &PathBuf| path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json");
    entries.flatten().map(|entry| entry.path()).filter(is_configuration).collect()
}

/// The folders whose entries decide what a path leads to: the one it stands in, those of every
/// symbolic link on the way, and the one it ends in.
fn folders_of(file: &Path) -> BTreeSet<PathBuf> {
    let Ok(absolute) = std::path::absolute(file) else { return BTreeSet::new() };
    let mut folders: BTreeSet<PathBuf> = absolute
        .ancestors()
        .filter(|path| path.is_symlink())
        .filter_map(|path| path.parent())
        .map(Path::to_owned)
        .collect();
    folders.extend(absolute.parent().map(Path::to_owned));
    if let Ok(real) = absolute.canonicalize() {
        folders.extend(real.parent().map(Path::to_owned));
    }
    folders
}

#[cfg(test)]
mod tests;
