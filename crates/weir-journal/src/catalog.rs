//! The segments that a lane has.

pub(crate) mod budget;
pub(crate) mod carry_over;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, RwLock};

use crate::files::{Files, Parts};
use crate::format::Position;
use crate::os::atomic_file::create_folder;
use crate::segment;
use crate::segment::sealed::{Sealed, Summary};
use budget::Budget;
use carry_over::CarryOver;

/// Spare files kept for each lane: as many as a burst needs that is sealed after it.
const MAX_SPARES: usize = 16;
/// The same once half of the budget is used.
const MAX_SPARES_HALF_USED: usize = 3;

/// The segments of a lane.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    /// Segments as they were appended, prepared ones included.
    pub(crate) raw: BTreeSet<u32>,
    pub(crate) sealed: BTreeMap<u32, Summary>,
    pub(crate) carry_over: CarryOver,
    /// Files of segments that should exist and do not.
    pub(crate) missing: BTreeMap<u32, Parts>,
}

/// The segments of a lane and their files. Readers hold the lock while they read, so that no file
/// is removed meanwhile; workers never take it.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) files: Files,
    segment_bytes: u32,
    /// The segments: their files stay as long as the lock is held for reading, and change as long
    /// as it is held for writing.
    pub(crate) segments: RwLock<Segments>,
    spares: Mutex<Vec<PathBuf>>,
}

impl Catalog {
    /// Lists the files of a lane that another process writes up to `end`; nothing is removed.
    pub(crate) fn open_held(files: Files, budget: &Budget, end: Position) -> io::Result<Self> {
        create_folder(&files.folder)?;
        let mut found = list(&files.folder, false)?;
        let mut of = |kind| found.remove(kind).unwrap_or_default();
        let (raw, meta) = (of("segment"), of("meta"));
        let mut segments = Segments {
            carry_over: match CarryOver::last(&of("carry"), &raw, &meta) {
                Some(last) => CarryOver::read(&files, last)?,
                None => CarryOver::default(),
            },
            ..Segments::default()
        };
        for number in meta {
            let summary = Summary::read(&files, number)?;
            budget.charge(summary.bytes());
            segments.sealed.insert(number, summary);
        }
        let catalog = Self {
            files,
            segment_bytes: budget.segment_bytes,
            segments: RwLock::new(segments),
            spares: Mutex::default(),
        };
        catalog.add_written(raw, budget, end)?;
        Ok(catalog)
    }

    /// Adds the segments that the process which writes a held lane has started since, up to `end`.
    pub(crate) fn follow(&self, budget: &Budget, end: Position) -> io::Result<()> {
        let mut found = list(&self.files.folder, false)?;
        self.add_written(found.remove("segment").unwrap_or_default(), budget, end)
    }

    fn add_written(&self, raw: BTreeSet<u32>, budget: &Budget, end: Position) -> io::Result<()> {
        let mut segments = self.segments.write();
        for number in raw {
            let started = number < end.segment() || number == end.segment() && end.offset() > 0;
            let known = segments.raw.contains(&number) || segments.sealed.contains_key(&number);
            if started && !known {
                budget.charge(fs::metadata(self.files.segment(number))?.len());
                segments.raw.insert(number);
            }
        }
        Ok(())
    }

    /// Reads the files of a held lane again, whose writer has ended, as [`Catalog::open`] does.
    pub(crate) fn reopen(&self, budget: &Budget, known: &BTreeMap<u32, Parts>) -> io::Result<()> {
        let Files { lane, folder, faults, .. } = &self.files;
        let mut segments = self.segments.write();
        let before: u64 = segments.sealed.values().map(Summary::bytes).sum::<u64>()
            + segments.raw.len() as u64 * self.segment_bytes();
        let files = Files::new(*lane, folder.clone(), faults.clone());
        let again = Self::open(files, budget, known)?.segments.into_inner();
        budget.release(before);
        let missing = std::mem::take(&mut segments.missing);
        *segments = Segments { missing, ..again };
        Ok(())
    }

    /// Lists the files of a lane, and removes those that a crash left incomplete. `known` are the
    /// files that each segment had.
    pub(crate) fn open(
        files: Files,
        budget: &Budget,
        known: &BTreeMap<u32, Parts>,
    ) -> io::Result<Self> {
        create_folder(&files.folder)?;
        let mut found = list(&files.folder, true)?;
        let mut of = |kind| found.remove(kind).unwrap_or_default();
        let (mut raw, meta) = (of("segment"), of("meta"));
        for number in of("spare") {
            fs::remove_file(files.path(number, "spare"))?;
        }
        for kind in ["payload", "failed"] {
            for number in of(kind) {
                // Parts of a segment whose metadata was deleted stay: a copy of the metadata may
                // exist.
                if !meta.contains(&number) && !had(known, number, Parts::META) {
                    fs::remove_file(files.path(number, kind))?;
                }
            }
        }
        let (carry_over, floor) = CarryOver::find(&files, &of("carry"), &raw, &meta)?;
        // Segments that were never started are the last ones.
        let mut started = false;
        for number in raw.clone().into_iter().rev() {
            let path = files.segment(number);
            started |= !meta.contains(&number)
                && (had(known, number, Parts::RAW) || !segment::is_blank(&files, number, floor)?);
            if meta.contains(&number) || !started {
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
        let segments = Segments { raw, sealed, carry_over, missing: BTreeMap::new() };
        Ok(Self {
            files,
            segment_bytes: budget.segment_bytes,
            segments: RwLock::new(segments),
            spares: Mutex::default(),
        })
    }

    /// The catalog of a lane that does not exist.
    pub(crate) fn empty(lane: u16) -> Self {
        Self { files: Files { lane, ..Files::default() }, ..Self::default() }
    }

    /// Bytes between two positions, as if every segment were full.
    pub(crate) fn bytes_between(&self, from: Position, to: Position) -> u64 {
        let state = self.segments.read();
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

    pub(crate) fn add_raw(&self, number: u32) {
        self.segments.write().raw.insert(number);
    }

    pub(crate) fn pop_spare(&self) -> Option<PathBuf> {
        self.spares.lock().pop()
    }

    /// Removes all spare files.
    pub(crate) fn remove_spares(&self, budget: &Budget) {
        self.spares.lock().retain(|spare| !self.remove_spare(spare, budget));
    }

    /// Removes a spare file that could not be reused. If the removal fails as well the file is kept,
    /// as it still uses the disk, and the others are tried before it.
    pub(crate) fn reject_spare(&self, spare: PathBuf, budget: &Budget) {
        if !self.remove_spare(&spare, budget) {
            self.spares.lock().insert(0, spare);
        }
    }

    /// Whether the file does not exist any more.
    fn remove_spare(&self, spare: &Path, budget: &Budget) -> bool {
        let removed = self.files.faults.check("spare.remove").and_then(|()| fs::remove_file(spare));
        let gone = removed.map_or_else(|error| error.kind() == io::ErrorKind::NotFound, |()| true);
        if gone {
            budget.release(u64::from(budget.segment_bytes));
        }
        gone
    }

    /// Removes the file of a segment, or keeps it for reuse if it has the length of new ones and no
    /// snapshot has it.
    pub(crate) fn recycle(&self, number: u32, budget: &Budget) -> io::Result<()> {
        self.files.faults.check("seal.recycle")?;
        let path = self.files.segment(number);
        let metadata = fs::metadata(&path)?;
        let (length, is_shared) = (metadata.len(), metadata.nlink() > 1);
        let max = if budget.is_half_used() { MAX_SPARES_HALF_USED } else { MAX_SPARES };
        let mut spares = self.spares.lock();
        if spares.len() < max && length == u64::from(budget.segment_bytes) && !is_shared {
            let spare = self.files.path(number, "spare");
            fs::rename(&path, &spare)?;
            spares.push(spare);
        } else {
            fs::remove_file(&path)?;
            budget.release(length);
        }
        self.files.damage.clear_failures((number, "segment"), 0..u64::MAX);
        Ok(())
    }

    /// The number after the last one that was ever used.
    pub(crate) fn next_number(&self) -> u32 {
        let state = self.segments.read();
        let raw = state.raw.last().copied().unwrap_or(0);
        let sealed = state.sealed.last_key_value().map_or(0, |(number, _)| *number);
        let missing = state.missing.last_key_value().map_or(0, |(number, _)| *number);
        raw.max(sealed).max(missing).max(state.carry_over.segment) + 1
    }
}

impl Segments {
    /// Opens a sealed segment to read transactions with or without their payload.
    pub(crate) fn open_sealed(
        &self,
        files: &Files,
        number: u32,
        payload: bool,
    ) -> io::Result<Sealed> {
        let missing = self.missing.get(&number).copied().unwrap_or_default();
        Sealed::open(files, number, missing, payload)
    }
}

/// Whether a segment is known to have had a file.
fn had(known: &BTreeMap<u32, Parts>, number: u32, part: Parts) -> bool {
    known.get(&number).is_some_and(|parts| parts.intersects(part))
}

/// The numbers of the files of each kind. With `clean`, files that were being written are removed.
fn list(folder: &Path, clean: bool) -> io::Result<BTreeMap<&'static str, BTreeSet<u32>>> {
    const KINDS: [&str; 6] = ["segment", "spare", "meta", "payload", "failed", "carry"];
    let mut found: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse::<u32>().ok());
        let kind = KINDS.iter().find(|kind| Some(**kind) == extension);
        match (kind, number) {
            (Some(kind), Some(number)) => {
                found.entry(kind).or_default().insert(number);
            }
            _ if clean && extension == Some("new") => fs::remove_file(&path)?,
            _ => {}
        }
    }
    Ok(found)
}
