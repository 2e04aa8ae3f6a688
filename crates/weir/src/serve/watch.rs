//! Watching the files a configuration was made of.
//!
//! Folders are watched, not files: editors replace files by renaming, and Kubernetes swaps a
//! symbolic link beside them. An event in a folder says little, so it only makes us look: a change
//! is reported when a file has another identity, size or time than when it was last loaded, or
//! when a configuration file has come or gone beside one of them (`include:` takes patterns).

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// Quiet time that ends a burst of events: a file may be written in several steps.
const QUIET: Duration = Duration::from_millis(100);
/// A burst is cut off after this time, should a folder never be quiet.
const BURST: Duration = Duration::from_secs(1);

/// Watches folders.
pub(crate) struct Watch {
    /// `None` when the system gives no watches; then only SIGHUP reloads.
    watcher: Option<RecommendedWatcher>,
    wake: mpsc::Receiver<()>,
    /// Keeps `wake` open without a watcher.
    _waker: mpsc::Sender<()>,
    folders: BTreeSet<PathBuf>,
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
    /// Watches nothing yet. Gives what is wrong beside it when the system cannot watch.
    pub(crate) fn new() -> (Self, Option<notify::Error>) {
        // One wake-up waits at most: it makes us look at everything.
        let (waker, wake) = mpsc::channel(1);
        let sender = waker.clone();
        let made = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // Reading the configuration must not look like a change of it.
            if !matches!(event, Ok(Event { kind: EventKind::Access(_), .. })) {
                let _ = sender.try_send(());
            }
        });
        let (watcher, problem) = match made {
            Ok(watcher) => (Some(watcher), None),
            Err(problem) => (None, Some(problem)),
        };
        let watch = Self {
            watcher,
            wake,
            _waker: waker,
            folders: BTreeSet::new(),
            files: Vec::new(),
            seen: State::default(),
        };
        (watch, problem)
    }

    /// What the watched files look like now. To be taken before they are read, so that a change
    /// while they are read is not missed.
    pub(crate) fn look(&self) -> State {
        State::of(&self.files, &self.folders)
    }

    /// Watches these files from now on; `before` is how those looked that were watched already.
    pub(crate) fn set(&mut self, files: Vec<PathBuf>, before: State) {
        let folders: BTreeSet<PathBuf> = files.iter().flat_map(|file| folders_of(file)).collect();
        if let Some(watcher) = &mut self.watcher {
            for gone in self.folders.difference(&folders) {
                let _ = watcher.unwatch(gone);
            }
            for new in folders.difference(&self.folders) {
                // A folder that cannot be watched may be gone; SIGHUP still works.
                let _ = watcher.watch(new, RecursiveMode::NonRecursive);
            }
        }
        self.files = files;
        self.folders = folders;
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
            if self.wake.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
            let end = Instant::now() + BURST;
            while Instant::now() < end {
                if timeout(QUIET, self.wake.recv()).await.is_err() {
                    break;
                }
            }
            if self.look() != self.seen {
                return;
            }
        }
    }
}

impl State {
    fn of(files: &[PathBuf], folders: &BTreeSet<PathBuf>) -> Self {
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
            neighbours: folders.iter().flat_map(|folder| configurations_in(folder)).collect(),
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
