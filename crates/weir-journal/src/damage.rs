//! What of a lane could not be read, each stretch counted once however often it is met.
//!
//! What the disk does not give is waited for: that a cable is out must not cost what is there. Only
//! what has failed for a minute is passed over like damage, so that one bad sector holds up neither
//! sealing nor who reads; while the journal is opened, when nobody can wait, at once.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::failpoint::Faults;

/// Most stretches that are told apart; others are not counted.
const STRETCHES: usize = 65_536;
/// How long a stretch has to fail before it is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is read by itself when reading more at a time fails.
const PAGE: usize = 4096;

/// The damage met since the journal was opened.
#[derive(Debug, Default)]
pub(crate) struct Damages {
    stretches: Mutex<BTreeSet<Stretch>>,
    bytes: AtomicU64,
    /// Since when stretches have failed to be read.
    failing: Mutex<BTreeMap<Stretch, Instant>>,
    opened: AtomicBool,
    faults: Faults,
}

/// Segment, kind of its file, place in it.
type Stretch = (u32, &'static str, u64);

impl Damages {
    pub(crate) fn new(faults: Faults) -> Self {
        Self { faults, ..Self::default() }
    }

    /// The journal is open: from now on there is time.
    pub(crate) fn opened(&self) {
        self.opened.store(true, Ordering::Relaxed);
    }

    /// Fills `bytes` from `place` on of a segment's file of this kind. Pages that cannot be read
    /// are zeros once they are given up.
    ///
    /// # Errors
    /// As long as they are not; and if the file ends before.
    pub(crate) fn read(
        &self,
        file: &impl FileExt,
        (segment, kind): (u32, &'static str),
        place: u64,
        bytes: &mut [u8],
    ) -> io::Result<()> {
        if self.try_read(file, place, bytes).is_ok() {
            return Ok(());
        }
        let mut done = 0;
        while done < bytes.len() {
            let place = place + done as u64;
            let page = (PAGE - (place as usize % PAGE)).min(bytes.len() - done);
            let part = &mut bytes[done..done + page];
            match self.try_read(file, place, part) {
                Ok(()) => {}
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

    /// Fills `bytes` from `place` on, or fails.
    pub(crate) fn try_read(
        &self,
        file: &impl FileExt,
        place: u64,
        bytes: &mut [u8],
    ) -> io::Result<()> {
        self.faults.check("read")?;
        file.read_exact_at(bytes, place)
    }

    /// Whether a stretch has failed for so long that it counts as lost.
    fn give_up(&self, stretch: Stretch) -> bool {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        if failing.len() >= STRETCHES && !failing.contains_key(&stretch) {
            return false;
        }
        let since = failing.entry(stretch).or_insert_with(Instant::now);
        since.elapsed() >= PATIENCE || !self.opened.load(Ordering::Relaxed)
    }

    /// Lets time pass for what fails.
    #[cfg(test)]
    pub(crate) fn wait_a_minute(&self) {
        let mut failing = self.failing.lock().unwrap_or_else(PoisonError::into_inner);
        failing.values_mut().for_each(|since| {
            *since = since.checked_sub(PATIENCE).expect("the machine runs for a minute");
        });
    }

    /// Notes `bytes` of a segment from `place` on in its file of this kind.
    pub(crate) fn note(&self, segment: u32, kind: &'static str, place: u64, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let mut stretches = self.stretches.lock().unwrap_or_else(PoisonError::into_inner);
        if stretches.len() < STRETCHES && stretches.insert((segment, kind, place)) {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    /// Bytes in all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
