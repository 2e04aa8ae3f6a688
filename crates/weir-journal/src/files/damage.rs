//! Parts of a lane's files that cannot be read, each counted once.
//!
//! Read errors are retried: an unplugged cable must not lose data. A page that has failed for a
//! minute is skipped like damage, so that one bad sector blocks neither sealing nor readers. While
//! the journal is opened there is no time to wait: a page that fails is skipped at once.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::failpoint::Faults;

/// Most ranges that are recorded; further ones are not counted.
const MAX_RANGES: usize = 65_536;
/// Time for which a page has to fail before it counts as lost.
const RETRY_TIME: Duration = Duration::from_secs(60);
/// Bytes that are read alone when a longer read fails.
const PAGE_BYTES: usize = 4096;

/// The damage found since the journal was opened.
#[derive(Debug, Default)]
pub(crate) struct DamageLog {
    ranges: Mutex<BTreeSet<RangeKey>>,
    bytes: AtomicU64,
    /// Pages that cannot be read, and since when.
    failing: Mutex<BTreeMap<RangeKey, Instant>>,
    /// Whether `failing` has entries, so that a successful read takes no lock.
    any_failing: AtomicBool,
    opened: AtomicBool,
    faults: Faults,
}

/// Segment, kind of its file, offset in it.
type RangeKey = (u32, &'static str, u64);

impl DamageLog {
    pub(crate) fn new(faults: Faults) -> Self {
        Self { faults, ..Self::default() }
    }

    /// The journal is open: from now on reads are retried.
    pub(crate) fn opened(&self) {
        self.opened.store(true, Ordering::Relaxed);
    }

    /// Fills `bytes` from `offset` on, of a segment's file of this kind. Pages that count as lost
    /// are zeros.
    ///
    /// # Errors
    /// A page cannot be read and does not count as lost yet, or the file ends before.
    pub(crate) fn read(
        &self,
        file: &impl FileExt,
        (segment, kind): (u32, &'static str),
        offset: u64,
        bytes: &mut [u8],
    ) -> io::Result<()> {
        if self.try_read(file, offset, bytes).is_ok() {
            self.clear_failures((segment, kind), offset..offset + bytes.len() as u64);
            return Ok(());
        }
        let mut done = 0;
        while done < bytes.len() {
            let offset = offset + done as u64;
            let page = (PAGE_BYTES - (offset as usize % PAGE_BYTES)).min(bytes.len() - done);
            let part = &mut bytes[done..done + page];
            match self.try_read(file, offset, part) {
                Ok(()) => self.clear_failures((segment, kind), offset..offset + page as u64),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(error),
                Err(error) => {
                    let start = offset - offset % PAGE_BYTES as u64;
                    if !self.is_lost((segment, kind, start)) {
                        return Err(error);
                    }
                    part.fill(0);
                }
            }
            done += page;
        }
        Ok(())
    }

    /// Fills `bytes` from `offset` on, or fails.
    pub(crate) fn try_read(
        &self,
        file: &impl FileExt,
        offset: u64,
        bytes: &mut [u8],
    ) -> io::Result<()> {
        self.faults.check("read")?;
        file.read_exact_at(bytes, offset)
    }

    /// Whether a page has failed for so long that it counts as lost.
    fn is_lost(&self, range: RangeKey) -> bool {
        let mut failing = self.failing.lock();
        if failing.len() >= MAX_RANGES && !failing.contains_key(&range) {
            return false;
        }
        self.any_failing.store(true, Ordering::Relaxed);
        let since = failing.entry(range).or_insert_with(Instant::now);
        since.elapsed() >= RETRY_TIME || !self.opened.load(Ordering::Relaxed)
    }

    /// Removes the failures of a range: it was read, or the file does not exist any more.
    pub(crate) fn clear_failures(&self, (segment, kind): (u32, &'static str), offsets: Range<u64>) {
        if !self.any_failing.load(Ordering::Relaxed) {
            return;
        }
        let start = offsets.start - offsets.start % PAGE_BYTES as u64;
        let pages = (segment, kind, start)..(segment, kind, offsets.end);
        let mut failing = self.failing.lock();
        failing.extract_if(pages, |_, _| true).for_each(drop);
        self.any_failing.store(!failing.is_empty(), Ordering::Relaxed);
    }

    /// Lets a minute pass for pages that fail.
    #[cfg(test)]
    pub(crate) fn age_failures(&self) {
        let mut failing = self.failing.lock();
        failing.values_mut().for_each(|since| {
            *since = since.checked_sub(RETRY_TIME).expect("the machine runs for a minute");
        });
    }

    /// Records `bytes` damaged bytes from `offset` on, in a segment's file of this kind.
    pub(crate) fn record(&self, segment: u32, kind: &'static str, offset: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let mut ranges = self.ranges.lock();
        if ranges.len() < MAX_RANGES && ranges.insert((segment, kind, offset)) {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Damaged bytes in total.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Whether a segment is to be skipped as damaged, rather than the reading aborted.
pub(crate) fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_again_or_gone_makes_room_for_other_failures() {
        let damage = DamageLog::default();
        for page in 0..MAX_RANGES as u64 {
            assert!(damage.is_lost((1, "segment", page * PAGE_BYTES as u64)), "nobody can wait");
        }
        let other = (2, "segment", 0);
        assert!(!damage.is_lost(other), "there is no room");
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 * PAGE_BYTES as u64).unwrap();
        damage.read(&file, (1, "segment"), PAGE_BYTES as u64 + 10, &mut [0; PAGE_BYTES]).unwrap();
        let failing = || damage.failing.lock().len();
        assert_eq!(failing(), MAX_RANGES - 2, "two pages were read");
        assert!(damage.is_lost(other));
        damage.clear_failures((1, "segment"), 0..u64::MAX);
        assert_eq!(failing(), 1);
        damage.clear_failures((2, "meta"), 0..u64::MAX);
        assert_eq!(failing(), 1, "that was another file");
    }
}
