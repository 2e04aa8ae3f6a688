//! Segments made ready for the lanes, by a thread that may wait for the disk.
//!
//! A worker takes the next one from a queue without a system call; it never opens or closes a
//! file, as its thread may have a table of file descriptors of its own.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use crate::files::{Budget, Files};
use crate::format::HEADER;
use crate::lane::Shared;
use crate::os::Mapping;

/// Segments that wait for a lane to begin them: never fewer, and fewer only for [`HOLD`], and at
/// most.
const LEAST_READY: u64 = 2;
const READY: u64 = 3;
const MOST_READY: u64 = 8;
/// Making a segment takes as long as serving some thousand requests: where enough are left, it
/// waits for that long, so that a burst that needed one is over.
const HOLD: Duration = Duration::from_millis(500);
/// How long those that wait should last: as long as the file system may keep us from making
/// another one, while it writes back what sealing syncs.
const LASTING: Duration = Duration::from_secs(2);
/// Full segments' mappings that wait to be given back to the system.
const RETIRED: usize = 8;

/// Bytes written at a time to bring a new file's pages into memory.
const ZEROS: usize = 1 << 20;

/// A segment with real blocks behind it and its pages in memory.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) number: u32,
    pub(crate) mapping: Mapping,
}

/// A lane's side.
#[derive(Debug)]
pub(crate) struct Taker {
    ready: Receiver<Prepared>,
    retired: SyncSender<Mapping>,
    bell: Arc<Bell>,
}

impl Taker {
    /// The next segment, if one is ready.
    pub(crate) fn take(&self) -> Option<Prepared> {
        let taken = self.ready.try_recv().ok()?;
        self.bell.ring();
        Some(taken)
    }

    /// Gives a segment's mapping back. Taking it apart can take long, so that the lane does it
    /// only when the other side has not kept up.
    pub(crate) fn retire(&self, mapping: Mapping) {
        if let Err(TrySendError::Full(mapping) | TrySendError::Disconnected(mapping)) =
            self.retired.try_send(mapping)
        {
            drop(mapping);
        }
    }
}

/// Wakes one of the journal's threads, and tells it when to end.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    thread: OnceLock<Thread>,
    stopped: AtomicBool,
}

impl Bell {
    pub(crate) fn ring(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Makes the calling thread the one that is woken.
    pub(crate) fn hang(&self) {
        let _ = self.thread.set(std::thread::current());
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.ring();
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }
}

/// How fast a lane takes segments.
#[derive(Debug, Default)]
struct Pace {
    /// Segments that were begun at the last look, and when the last of them was seen.
    seen: Option<(u64, Instant)>,
    /// How long one lasted lately.
    lasts: Option<Duration>,
}

impl Pace {
    /// Segments to have ready when `begun` have been begun.
    fn ready(&mut self, begun: u64, now: Instant) -> u64 {
        match self.seen {
            Some((before, then)) if begun > before => {
                let lasted = now.saturating_duration_since(then) / (begun - before) as u32;
                self.lasts = Some(lasted);
                self.seen = Some((begun, now));
            }
            // Since the last one as much time has passed at least.
            Some((_, then)) => {
                let since = now.saturating_duration_since(then);
                self.lasts = self.lasts.map(|lasts| lasts.max(since));
            }
            None => self.seen = Some((begun, now)),
        }
        let lasts = self.lasts.unwrap_or(LASTING).max(Duration::from_millis(1));
        LASTING.as_millis().div_ceil(lasts.as_millis()).clamp(READY.into(), MOST_READY.into())
            as u64
    }

    /// Whether the lane took a segment a moment ago, or was looked at first.
    fn is_fresh(&self, now: Instant) -> bool {
        self.seen.is_none_or(|(_, then)| now.saturating_duration_since(then) < HOLD)
    }
}

/// The side that makes segments ready, for one lane.
#[derive(Debug)]
pub(crate) struct Supply {
    files: Arc<Files>,
    shared: Arc<Shared>,
    next: u32,
    made: u64,
    pace: Pace,
    ready: SyncSender<Prepared>,
    retired: Receiver<Mapping>,
}

impl Supply {
    /// Supplies a lane from segment `next` on.
    pub(crate) fn new(
        files: Arc<Files>,
        shared: Arc<Shared>,
        next: u32,
        bell: Arc<Bell>,
    ) -> (Self, Taker) {
        let (ready, taken) = sync_channel(MOST_READY as usize);
        let (retired, back) = sync_channel(RETIRED);
        let taker = Taker { ready: taken, retired, bell };
        (Self { files, shared, next, made: 0, pace: Pace::default(), ready, retired: back }, taker)
    }

    /// Makes segments until as many are ready as should be, or the budget is used up.
    pub(crate) fn fill(&mut self, budget: &Budget) -> io::Result<()> {
        while self.retired.try_recv().is_ok() {}
        let begun = self.shared.segments.load(Ordering::Relaxed);
        let now = Instant::now();
        let wanted = self.pace.ready(begun, now);
        let waits = wanted == READY && self.pace.is_fresh(now);
        while self.made < self.shared.segments.load(Ordering::Relaxed) + LEAST_READY
            || (self.made < begun + wanted && !waits && !budget.is_half_used())
        {
            let prepared = match self.prepare(budget) {
                Ok(Some(prepared)) => prepared,
                Ok(None) => return Ok(()),
                Err(error) => {
                    self.shared.disk_errors.fetch_add(1, Ordering::Relaxed);
                    return Err(error);
                }
            };
            self.made += 1;
            if self.ready.try_send(prepared).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// One more segment; none if the budget does not allow it. Nothing is left behind on failure.
    fn prepare(&mut self, budget: &Budget) -> io::Result<Option<Prepared>> {
        let number = self.next;
        let path = self.files.segment(number);
        let length = u64::from(budget.segment_bytes);
        if budget.is_over() {
            self.files.drop_spares(budget);
        }
        let reused = match self.files.take_spare() {
            Some(spare) => Some(
                self.reuse(&spare, &path)
                    .inspect_err(|_| self.files.reject_spare(spare, budget))?,
            ),
            None => None,
        };
        let made = match reused {
            Some(file) => Mapping::new(&file, length as usize),
            None if !budget.take(length) => return Ok(None),
            None => {
                self.create(&path, length).and_then(|file| Mapping::new(&file, length as usize))
            }
        };
        let mapping = made.inspect_err(|_| {
            // What cannot be removed is found and removed when the journal is opened again.
            let _ = fs::remove_file(&path);
            budget.give_back(length);
        })?;
        self.files.began(number);
        self.next += 1;
        Ok(Some(Prepared { number, mapping }))
    }

    /// Makes a spare file a segment that was not begun.
    fn reuse(&self, spare: &Path, path: &Path) -> io::Result<File> {
        self.files.faults().check("segment.reuse")?;
        let file = OpenOptions::new().read(true).write(true).open(spare)?;
        file.write_all_at(&[0; HEADER], 0)?;
        fs::rename(spare, path)?;
        Ok(file)
    }

    fn create(&self, path: &Path, length: u64) -> io::Result<File> {
        self.files.faults().check("segment.create")?;
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, length)?;
        // Long writes bring pages in by the dozen; a fault for each would cost ten times as much.
        let zeros = vec![0; ZEROS.min(length as usize)];
        for offset in (0..length).step_by(ZEROS) {
            let left = (length - offset).min(ZEROS as u64) as usize;
            file.write_all_at(&zeros[..left], offset)?;
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_segments_wait_for_a_lane_that_is_fast_and_fewer_once_it_slows_down() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        assert_eq!(pace.ready(0, at(0)), 3);
        assert_eq!(pace.ready(1, at(10_000)), 3);
        assert!(pace.is_fresh(at(10_400)) && !pace.is_fresh(at(10_600)));
        assert_eq!(pace.ready(2, at(10_500)), 4);
        assert_eq!(pace.ready(6, at(10_900)), 8);
        assert_eq!(pace.ready(6, at(11_000)), 8);
        assert_eq!(pace.ready(6, at(11_400)), 4);
        assert_eq!(pace.ready(6, at(20_000)), 3);
    }
}
