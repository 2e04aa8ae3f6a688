//! The file cache of a folder, for one worker: lookups are cached for a moment, small files and
//! compressed forms within the memory limit.

use super::disk::{self, IoMode, ReadError};
use super::resource::{Lookup, Resource, lookup};
use foldhash::fast::FixedState;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_config::Files;
use weir_http::clock;

/// How long a lookup is valid. The folder itself, whose path may contain a symbolic link that is
/// switched, is opened again as often: a change takes effect within a second.
const VALID_FOR: Duration = Duration::from_millis(500);
/// Most cached paths of one worker for one folder.
const MAX_PATHS: usize = 8192;
/// Most open files of one worker for one folder.
const MAX_OPEN: usize = 256;
/// Memory of an entry besides the bytes of its file.
const OVERHEAD_BYTES: usize = 512;

/// A folder that is served.
#[derive(Debug)]
pub struct Root {
    /// Settings of the route.
    pub files: Arc<Files>,
    /// Key of the fallback, which no request path can have.
    fallback: Option<String>,
    /// Memory limit of this worker, in bytes.
    memory: usize,
    folder: RefCell<Option<(Arc<OwnedFd>, Instant)>>,
    entries: RefCell<HashMap<Box<str>, Entry, FixedState>>,
    /// Sums over the entries.
    bytes: Cell<usize>,
    open: Cell<usize>,
    /// Counts uses.
    uses: Cell<u64>,
}

#[derive(Debug)]
struct Entry {
    resource: Arc<Resource>,
    checked: Instant,
    used: u64,
    /// Its part of the sums.
    bytes: usize,
    open: usize,
}

impl Root {
    /// The cache of one of `workers` workers.
    pub fn new(files: &Files, workers: usize) -> Self {
        let memory = usize::try_from(files.memory).unwrap_or(usize::MAX) / workers.max(1);
        Self {
            fallback: files.fallback.as_ref().map(|path| format!("\0{path}")),
            files: Arc::new(files.clone()),
            memory,
            folder: RefCell::default(),
            entries: RefCell::default(),
            bytes: Cell::new(0),
            open: Cell::new(0),
            uses: Cell::new(0),
        }
    }

    /// Key and path of the fallback file.
    pub fn fallback(&self) -> Option<(&str, &str)> {
        self.fallback.as_deref().zip(self.files.fallback.as_deref())
    }

    /// The cached file of a path, if the lookup is still valid.
    pub fn recent(&self, key: &str, now: Instant) -> Option<Arc<Resource>> {
        let mut entries = self.entries.borrow_mut();
        let entry = entries.get_mut(key)?;
        // An open file may be truncated at any time, and a stat is cheap compared with reading.
        if now.saturating_duration_since(entry.checked) >= VALID_FOR
            || !entry.resource.is_unchanged()
        {
            return None;
        }
        self.uses.set(self.uses.get() + 1);
        entry.used = self.uses.get();
        Some(Arc::clone(&entry.resource))
    }

    /// Looks up `path`, and caches a file under `key`.
    pub async fn find(&self, key: &str, path: Vec<u8>) -> Result<Lookup, ReadError> {
        let before = self.entries.borrow().get(key).map(|entry| Arc::clone(&entry.resource));
        let known = self.folder();
        let found = match lookup_in(
            &self.files,
            known.as_ref(),
            &path,
            before.as_deref(),
            IoMode::NonBlocking,
        ) {
            Err(ReadError::WouldBlock) => {
                let files = Arc::clone(&self.files);
                disk::on_thread(move || {
                    lookup_in(&files, known.as_ref(), &path, before.as_deref(), IoMode::Blocking)
                })
                .await
            }
            found => found,
        };
        let (folder, found) = match found {
            Ok(found) => found,
            Err(error) => {
                self.remove(key);
                return Err(error);
            }
        };
        let now = clock::now();
        if let Some(folder) = folder {
            *self.folder.borrow_mut() = Some((folder, now));
        }
        match &found {
            Lookup::File(resource) => self.store(key, resource, now),
            Lookup::Folder | Lookup::NotFound => self.remove(key),
        }
        Ok(found)
    }

    /// The open folder, if it is still valid.
    fn folder(&self) -> Option<Arc<OwnedFd>> {
        let now = clock::recent();
        let folder = self.folder.borrow();
        let (folder, opened) = folder.as_ref()?;
        (now.saturating_duration_since(*opened) < VALID_FOR).then(|| Arc::clone(folder))
    }

    fn store(&self, key: &str, resource: &Arc<Resource>, now: Instant) {
        self.remove(key);
        self.uses.set(self.uses.get() + 1);
        let entry = Entry {
            resource: Arc::clone(resource),
            checked: now,
            used: self.uses.get(),
            bytes: weight(key, resource),
            open: resource.forms().filter(|form| form.open().is_some()).count(),
        };
        self.bytes.set(self.bytes.get() + entry.bytes);
        self.open.set(self.open.get() + entry.open);
        self.entries.borrow_mut().insert(key.into(), entry);
        self.shrink();
    }

    fn remove(&self, key: &str) {
        if let Some(entry) = self.entries.borrow_mut().remove(key) {
            self.bytes.set(self.bytes.get() - entry.bytes);
            self.open.set(self.open.get() - entry.open);
        }
    }

    /// Whether a form of this size would be cached.
    pub fn has_room(&self, bytes: u64) -> bool {
        bytes <= (self.memory / 8) as u64
    }

    /// A compressed form was added to a file.
    pub fn grown(&self, key: &str) {
        if let Some(entry) = self.entries.borrow_mut().get_mut(key) {
            let bytes = weight(key, &entry.resource);
            self.bytes.set(self.bytes.get() - entry.bytes + bytes);
            entry.bytes = bytes;
        }
        self.shrink();
    }

    /// Evicts the least recently used entries until all bounds hold: a quarter at a time, as a
    /// search costs the same for one.
    fn shrink(&self) {
        let mut entries = self.entries.borrow_mut();
        while self.bytes.get() > self.memory
            || entries.len() > MAX_PATHS
            || self.open.get() > MAX_OPEN
        {
            let mut uses: Vec<u64> = entries.values().map(|entry| entry.used).collect();
            let quarter = uses.len() / 4;
            let (_, limit, _) = uses.select_nth_unstable(quarter);
            let limit = *limit;
            entries.retain(|_, entry| {
                let kept = entry.used > limit;
                if !kept {
                    self.bytes.set(self.bytes.get() - entry.bytes);
                    self.open.set(self.open.get() - entry.open);
                }
                kept
            });
        }
    }
}

fn weight(key: &str, resource: &Resource) -> usize {
    OVERHEAD_BYTES + key.len() + resource.forms().map(|form| form.weight()).sum::<usize>()
}

/// Looks up a path in the folder, which is opened first if it is not `known`, and returned then.
fn lookup_in(
    files: &Files,
    known: Option<&Arc<OwnedFd>>,
    path: &[u8],
    before: Option<&Resource>,
    mode: IoMode,
) -> Result<(Option<Arc<OwnedFd>>, Lookup), ReadError> {
    if let Some(folder) = known {
        return Ok((None, lookup(files, folder, path, before, mode)?));
    }
    let Some(folder) = disk::open_folder(&files.root, mode)? else {
        return Ok((None, Lookup::NotFound));
    };
    let found = lookup(files, &folder, path, before, mode)?;
    Ok((Some(Arc::new(folder)), found))
}

#[cfg(test)]
mod tests;
