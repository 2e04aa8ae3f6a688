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
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::failpoint::Faults;

/// Most ranges that are recorded; further ones are not counted.
const STRETCHES: usize = 65_536;
/// Time for which a page has to fail before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes that are read alone when a longer read fails.
const PAGE: usize = 4096;

/// The damage found since the journal was opened.
#[derive(Debug, Default)]
pub(crate) struct DamageLog {
    stretches: Mutex<BTreeSet<Stretch>>,
    bytes: AtomicU64,
    /// Pages that cannot be read, and since when.
    failing: Mutex<BTreeMap<Stretch, Instant>>,
    /// Whether `failing` has entries, so that a successful read takes no lock.
    any_failing: AtomicBool,
    opened: AtomicBool,
    faults: Faults,
}

/// Segment, kind of its file, offset in it.
type Stretch = (u32, &'static str, u64);

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
        place: u64,
        bytes: &mut [u8],
    ) -> io::Result<()> {
        if self.try_read(file, place, bytes).is_ok() {
            self.clear_failures((segment, kind), place..place + bytes.len() as u64);
            return Ok(());
        }
        let mut done = 0;
        while done < bytes.len() {
            let place = place + done as u64;
            let page = (PAGE - (place as usize % PAGE)).min(bytes.len() - done);
            let part = &mut bytes[done..done + page];
            match self.try_read(file, place, part) {
                Ok(()) => self.clear_failures((segment, kind), place..place + page as u64),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(error),
                Err(error) => {
                    let start = place - place % PAGE as u64;
                    if !self.give_up((segment, kind, start)) {
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
        place: u64,
        bytes: &mut [u8],
    ) -> io::Result<()> {
        self.faults.check("read")?;
        file.read_exact_at(bytes, place)
    }

    /// Whether a page has failed for so long that it counts as lost.
    fn give_up(&self, stretch: Stretch) -> bool {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        if failing.len() >= STRETCHES && !failing.contains_key(&stretch) {
            return false;
        }
        self.any_failing.store(true, Ordering::Relaxed);
        let since = failing.entry(stretch).or_insert_with(Instant::now);
        since.elapsed() >= PATIENCE || !self.opened.load(Ordering::Relaxed)
    }

    /// Removes the failures of a range: it was read, or the file does not exist any more.
    pub(crate) fn clear_failures(&self, (segment, kind): (u32, &'static str), places: Range<u64>) {
        if !self.any_failing.load(Ordering::Relaxed) {
            return;
        }
        let start = places.start - places.start % PAGE as u64;
        let pages = (segment, kind, start)..(segment, kind, places.end);
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        failing.extract_if(pages, |_, _| true).for_each(drop);
        self.any_failing.store(!failing.is_empty(), Ordering::Relaxed);
    }

    /// Lets a minute pass for pages that fail.
    #[cfg(test)]
    pub(crate) fn wait_a_minute(&self) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        failing.values_mut().for_each(|since| {
            *since = since.checked_sub(PATIENCE).expect("the machine runs for a minute");
        });
    }

    /// Records `bytes` damaged bytes from `offset` on, in a segment's file of this kind.
    pub(crate) fn record(&self, segment: u32, kind: &'static str, place: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let mut stretches = self.stretches.lock().unwrap_or_else(PoisonError::into_inner);
        if stretches.len() < STRETCHES && stretches.insert((segment, kind, place)) {
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
        let damages = DamageLog::default();
        for page in 0..STRETCHES as u64 {
            assert!(damages.give_up((1, "segment", page * PAGE as u64)), "nobody can wait");
        }
        let other = (2, "segment", 0);
        assert!(!damages.give_up(other), "there is no room");
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 * PAGE as u64).unwrap();
        damages.read(&file, (1, "segment"), PAGE as u64 + 10, &mut [0; PAGE]).unwrap();
        let failing = || damages.failing.lock().unwrap().len();
        assert_eq!(failing(), STRETCHES - 2, "two pages were read");
        assert!(damages.give_up(other));
        damages.clear_failures((1, "segment"), 0..u64::MAX);
        assert_eq!(failing(), 1);
        damages.clear_failures((2, "meta"), 0..u64::MAX);
        assert_eq!(failing(), 1, "that was another file");
    }
}
