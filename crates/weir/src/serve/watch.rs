//! Watches the files of a configuration.
//!
//! Folders are watched, not files: editors replace files by renaming, and Kubernetes replaces a
//! symbolic link in the folder. An event in a folder only triggers a check: a change is reported if a
//! file has another identity, size or time than at the last load, or if a configuration file was
//! added to or removed from its folder (`include:` has patterns).

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
/// Longest burst of events before a check.
const MAX_BURST: Duration = Duration::from_secs(1);

/// Changes of a folder or of its entries. Opening and reading are excluded: agents may do so for each
/// request, and reading the configuration is no change of it.
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
    /// `None` if the system has no watches; then only SIGHUP reloads.
    // inotify is not a pipe, but is polled and read like one.
    inotify: Option<Receiver>,
    /// The folders with their watches; `None` for a folder that cannot be watched.
    folders: BTreeMap<PathBuf, Option<i32>>,
    files: Vec<PathBuf>,
    loaded: State,
}

/// Identity of each file, and the configuration files in their folders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// `None` for a missing file.
    files: BTreeMap<PathBuf, Option<Identity>>,
    neighbours: BTreeSet<PathBuf>,
}

/// Distinguishes contents of a file without reading them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl Watch {
    /// Watches nothing yet; must be called within a runtime. The error is present if the system cannot
    /// watch.
    pub(crate) fn new() -> (Self, Option<io::Error>) {
        let opened = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)
            .map_err(io::Error::from)
            .and_then(|inotify| Receiver::from_file_unchecked(inotify.into()));
        let (inotify, problem) = match opened {
            Ok(inotify) => (Some(inotify), None),
            Err(problem) => (None, Some(problem)),
        };
        let (folders, files, loaded) = (BTreeMap::new(), Vec::new(), State::default());
        (Self { inotify, folders, files, loaded }, problem)
    }

    /// The current state of the watched files. To be taken before they are read, so that no change
    /// during the read is missed.
    pub(crate) fn state(&self) -> State {
        State::of(&self.files, self.folders.keys())
    }

    /// Watches these files from now on; `before` is the state of the ones that were watched already.
    pub(crate) fn set(&mut self, files: Vec<PathBuf>, before: State) {
        let folders: BTreeSet<PathBuf> = files.iter().flat_map(|file| folders_of(file)).collect();
        let removed: Vec<Option<i32>> = self
            .folders
            .extract_if(.., |folder, _| !folders.contains(folder))
            .map(|f| f.1)
            .collect();
        let inotify = self.inotify.as_ref();
        for folder in folders {
            self.folders.entry(folder).or_insert_with_key(|folder| {
                // A missing folder cannot be watched; SIGHUP still works.
                inotify::add_watch(inotify?, folder, CHANGES).ok()
            });
        }
        for watch in removed.into_iter().flatten() {
            // Two paths of a folder have the same watch.
            let is_used = self.folders.values().any(|other| *other == Some(watch));
            if let Some(inotify) = inotify.filter(|_| !is_used) {
                let _ = inotify::remove_watch(inotify, watch);
            }
        }
        self.files = files;
        self.loaded = self.state();
        for (file, known) in before.files {
            if let Some(identity) = self.loaded.files.get_mut(&file) {
                *identity = known;
            }
        }
    }

    /// Waits until the state differs from that of the last load.
    pub(crate) async fn changed(&mut self) {
        loop {
            self.woken().await;
            let end = Instant::now() + MAX_BURST;
            while Instant::now() < end {
                if timeout(QUIET_INTERVAL, self.woken()).await.is_err() {
                    break;
                }
            }
            if self.state() != self.loaded {
                return;
            }
        }
    }

    /// Waits for an event in a folder.
    async fn woken(&self) {
        if let Some(inotify) = &self.inotify {
            while inotify.readable().await.is_ok() {
                let mut any = false;
                // The content of an event is irrelevant; so events may be lost.
                while inotify.try_read(&mut [0; 4096]).is_ok_and(|count| count > 0) {
                    any = true;
                }
                if any {
                    return;
                }
            }
        }
        std::future::pending::<()>().await;
    }
}

impl State {
    fn of<'a>(files: &[PathBuf], folders: impl Iterator<Item = &'a PathBuf>) -> Self {
        let identity = |path: &PathBuf| {
            let data = std::fs::metadata(path).ok()?;
            Some(Identity {
                device: data.dev(),
                inode: data.ino(),
                size: data.size(),
                seconds: data.mtime(),
                nanoseconds: data.mtime_nsec(),
            })
        };
        Self {
            files: files.iter().map(|file| (file.clone(), identity(file))).collect(),
            neighbours: folders.flat_map(|folder| configurations_in(folder)).collect(),
        }
    }
}

/// Files in a folder that `include:` may select.
fn configurations_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let is_configuration =
        |path: &PathBuf| path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json");
    entries.flatten().map(|entry| entry.path()).filter(is_configuration).collect()
}

/// The folders whose entries determine the target of a path: its own folder, those of all symbolic
/// links in the path, and that of the target.
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
