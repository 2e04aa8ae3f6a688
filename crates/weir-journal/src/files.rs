//! The files of a lane: which there are, and where.
//!
//! | name | what |
//! |---|---|
//! | `N.segment` | a segment as it was appended; zeros instead of a header if it was never begun |
//! | `N.spare` | a sealed one's file, kept to be used again |
//! | `N.meta`, `N.payload`, `N.failed` | the three parts of a sealed segment, told in [`crate::sealed`] |
//! | `N.carry` | what is in segments up to `N` of transactions that were open at its end |
//! | `*.new` | one that was being written |
//!
//! `N.meta` is renamed into place last and dropped last: a segment is sealed when it is there, and
//! what else there is of `N` without it is removed when the journal is opened.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::carry::Carry;
use crate::damage::Damages;
use crate::failpoint::Faults;
use crate::format::Position;
use crate::manifest::{Entry, Parts};
use crate::sealed::Summary;
use crate::segment;

/// Files kept to be used again, for each lane: what a burst needs that is sealed after it.
const SPARES: usize = 16;
/// The same once half of the budget is used.
const FEW_SPARES: usize = 3;

/// Segments that have to be left in the budget before any is made ahead of need.
const AHEAD: u64 = 64;

/// What all lanes together may take of the disk.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) segment_bytes: u32,
    limit: u64,
    used: AtomicU64,
}

impl Budget {
    pub(crate) fn new(segment_bytes: u32, limit: u64) -> Self {
        Self { segment_bytes, limit, used: AtomicU64::new(0) }
    }

    /// Takes `bytes` if that many are left.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Takes `bytes` that are used already.
    pub(crate) fn charge(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Whether more is used than allowed: sealed files are counted when they are there.
    pub(crate) fn is_over(&self) -> bool {
        self.used() > self.limit
    }

    /// Whether half of it is used: nothing is taken ahead of need then.
    pub(crate) fn is_half_used(&self) -> bool {
        self.used() > self.limit / 2
    }

    /// Whether segments may be made ready ahead of need: an eighth of the budget is left, or half
    /// of it in the case of one that is small.
    pub(crate) fn has_room_ahead(&self) -> bool {
        let left = self.limit.saturating_sub(self.used());
        left > self.limit / 2 || left > (self.limit / 8).max(AHEAD * u64::from(self.segment_bytes))
    }

    /// Whether another segment for each of `lanes` would go beyond the limit.
    pub(crate) fn short(&self, lanes: usize) -> bool {
        self.used() + u64::from(self.segment_bytes) * lanes as u64 > self.limit
    }
}

/// What there is of a lane.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Segments as they were appended, prepared ones too.
    pub(crate) raw: BTreeSet<u32>,
    pub(crate) sealed: BTreeMap<u32, Summary>,
    pub(crate) carry: Carry,
    /// What should be there of segments and is not.
    pub(crate) gone: BTreeMap<u32, Parts>,
}

/// The files of a lane. Readers hold the state while they read, so that nothing is taken from
/// under them; workers never touch it.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) lane: u16,
    pub(crate) folder: PathBuf,
    segment_bytes: u32,
    state: RwLock<State>,
    spares: Mutex<Vec<PathBuf>>,
    pub(crate) damages: Arc<Damages>,
    faults: Faults,
}

impl Files {
    /// Finds what there is, and removes what a crash left half done. What is `known` of the lane's
    /// segments was there.
    pub(crate) fn open(
        lane: u16,
        folder: PathBuf,
        faults: Faults,
        budget: &Budget,
        known: &BTreeMap<u32, Entry>,
    ) -> io::Result<Self> {
        create_folder(&folder)?;
        let mut found: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u32>().ok());
            let kind = KINDS.iter().find(|kind| Some(**kind) == extension);
            match (kind, number) {
                (Some(kind), Some(number)) => {
                    found.entry(kind).or_default().insert(number);
                }
                _ if extension == Some("new") => fs::remove_file(&path)?,
                _ => {}
            }
        }
        let mut of = |kind| found.remove(kind).unwrap_or_default();
        let (mut raw, meta) = (of("segment"), of("meta"));
        let files = Self {
            lane,
            folder,
            segment_bytes: budget.segment_bytes,
            state: RwLock::default(),
            spares: Mutex::default(),
            damages: Arc::new(Damages::new(faults.clone())),
            faults,
        };
        for number in of("spare") {
            fs::remove_file(files.path(number, "spare"))?;
        }
        for (kind, number) in ["payload", "failed"]
            .into_iter()
            .flat_map(|kind| {
                of(kind).into_iter().map(move |number| (kind, number)).collect::<Vec<_>>()
            })
            // Of a segment whose metadata somebody deleted, the rest is left for who has a copy of it.
            .filter(|(_, number)| !meta.contains(number) && !was(known, *number, Parts::META))
            .collect::<Vec<_>>()
        {
            fs::remove_file(files.path(number, kind))?;
        }
        let (carry, floor) = Carry::find(&files, &of("carry"), &raw, &meta)?;
        // Those that were never begun are the last ones.
        let mut begun = false;
        for number in raw.clone().into_iter().rev() {
            let path = files.segment(number);
            begun |= !meta.contains(&number)
                && (was(known, number, Parts::RAW) || !segment::is_blank(&files, number, floor)?);
            if meta.contains(&number) || !begun {
                fs::remove_file(path)?;
                raw.remove(&number);
            } else {
                budget.charge(fs::metadata(path)?.len());
            }
        }
        let mut sealed = BTreeMap::new();
        for number in meta {
            let summary = Summary::read(&files, number)?;
            budget.charge(summary.bytes());
            sealed.insert(number, summary);
        }
        *files.change() = State { raw, sealed, carry, gone: BTreeMap::new() };
        Ok(files)
    }

    /// The files of a lane that does not exist.
    pub(crate) fn none(lane: u16) -> Self {
        Self {
            lane,
            folder: PathBuf::new(),
            segment_bytes: 0,
            state: RwLock::default(),
            spares: Mutex::default(),
            damages: Arc::default(),
            faults: Faults::default(),
        }
    }

    /// Bytes from a position to another one, as if every segment were full.
    pub(crate) fn bytes_between(&self, from: Position, to: Position) -> u64 {
        let state = self.state();
        let first = state.raw.first().copied().unwrap_or(u32::MAX);
        let first = state.sealed.first_key_value().map_or(first, |(sealed, _)| first.min(*sealed));
        let from = from.max(Position::new(first.min(to.segment()), 0));
        let segments = u64::from(to.segment().saturating_sub(from.segment()));
        (segments * u64::from(self.segment_bytes) + u64::from(to.offset()))
            .saturating_sub(u64::from(from.offset()))
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes.into()
    }

    pub(crate) fn path(&self, number: u32, kind: &str) -> PathBuf {
        self.folder.join(format!("{number:010}.{kind}"))
    }

    pub(crate) fn segment(&self, number: u32) -> PathBuf {
        self.path(number, "segment")
    }

    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    /// What there is, as long as it is held.
    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is, to be changed with the files.
    pub(crate) fn change(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn began(&self, number: u32) {
        self.change().raw.insert(number);
    }

    fn spares(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take_spare(&self) -> Option<PathBuf> {
        self.spares().pop()
    }

    /// Gives room back that is only kept to be used again.
    pub(crate) fn drop_spares(&self, budget: &Budget) {
        self.spares().retain(|spare| !self.remove_spare(spare, budget));
    }

    /// Removes a spare file that was taken and could not be used. If that fails as well it is kept,
    /// as it still takes its room, and the others are tried before it.
    pub(crate) fn reject_spare(&self, spare: PathBuf, budget: &Budget) {
        if !self.remove_spare(&spare, budget) {
            self.spares().insert(0, spare);
        }
    }

    /// Whether it is gone now.
    fn remove_spare(&self, spare: &Path, budget: &Budget) -> bool {
        let removed = self.faults.check("spare.remove").and_then(|()| fs::remove_file(spare));
        let gone = removed.map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |()| true);
        if gone {
            budget.give_back(u64::from(budget.segment_bytes));
        }
        gone
    }

    /// Removes a segment's file, or keeps it to be used again if it is as long as new ones are.
    pub(crate) fn recycle(&self, number: u32, budget: &Budget) -> io::Result<()> {
        self.faults.check("seal.recycle")?;
        let path = self.segment(number);
        let length = fs::metadata(&path)?.len();
        let most = if budget.is_half_used() { FEW_SPARES } else { SPARES };
        let mut spares = self.spares();
        if spares.len() < most && length == u64::from(budget.segment_bytes) {
            let spare = self.path(number, "spare");
            fs::rename(&path, &spare)?;
            spares.push(spare);
        } else {
            fs::remove_file(&path)?;
            budget.give_back(length);
        }
        self.damages.fails_no_more((number, "segment"), 0..u64::MAX);
        Ok(())
    }

    /// The number after the last one that was ever used.
    pub(crate) fn next(&self) -> u32 {
        let state = self.state();
        let raw = state.raw.last().copied().unwrap_or(0);
        let sealed = state.sealed.last_key_value().map_or(0, |(number, _)| *number);
        let gone = state.gone.last_key_value().map_or(0, |(number, _)| *number);
        raw.max(sealed).max(gone).max(state.carry.segment) + 1
    }

    /// Makes renames and removals durable.
    pub(crate) fn sync_folder(&self) -> io::Result<()> {
        fs::File::open(&self.folder)?.sync_all()
    }
}

/// Whether a segment is known to have had a file.
fn was(known: &BTreeMap<u32, Entry>, number: u32, part: Parts) -> bool {
    known.get(&number).is_some_and(|entry| entry.parts.has(part) || entry.gone.has(part))
}

const KINDS: [&str; 6] = ["segment", "spare", "meta", "payload", "failed", "carry"];

/// Makes a folder that only its owner can enter.
pub(crate) fn create_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}
