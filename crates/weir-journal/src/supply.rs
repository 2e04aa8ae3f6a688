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
const MOST_READY: u64 = 16;
/// Making a segment takes as long as serving some thousand requests: where enough are left, it
/// waits for that long, so that a burst that needed one is over.
const HOLD: Duration = Duration::from_millis(500);
/// How long those that wait should last: as long as the file system may keep us from making
/// another one, while it writes back what sealing syncs.
const LASTING: Duration = Duration::from_secs(2);
/// Shortest time in which a rate is measured, unless a segment was begun in it.
const LOOK: Duration = Duration::from_millis(20);
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
    /// Wakes the thread that is no nicer than a worker.
    urgent: Arc<Bell>,
}

impl Taker {
    /// The next segment, if one is ready.
    pub(crate) fn take(&self) -> Option<Prepared> {
        let taken = self.ready.try_recv();
        if taken.is_err() {
            self.urgent.ring();
        }
        self.bell.ring();
        taken.ok()
    }

    /// A segment was begun, or half of it is full. Wakes those who make more; where few are left,
    /// also the one that need not wait for workers to be idle.
    pub(crate) fn hurry(&self, shared: &Shared) {
        let begun = shared.segments.load(Ordering::Relaxed);
        if shared.made.load(Ordering::Relaxed) < begun + LEAST_READY {
            self.urgent.ring();
        }
        self.bell.ring();
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

/// How fast a lane is written to.
#[derive(Debug, Default)]
struct Pace {
    /// Segments that had been begun and bytes appended at the last look, and when that was.
    seen: Option<(u64, u64, Instant)>,
    /// When a segment was begun last.
    taken: Option<Instant>,
    /// Bytes a second lately.
    rate: u64,
}

impl Pace {
    /// Segments to have ready when `begun` have been begun and `bytes` appended.
    fn ready(&mut self, (begun, bytes): (u64, u64), segment_bytes: u32, now: Instant) -> u64 {
        match self.seen {
            Some((before, appended, then)) => {
                let passed = now.saturating_duration_since(then);
                if begun > before {
                    self.taken = Some(now);
                }
                if passed >= LOOK || begun > before {
                    let millis = passed.as_millis().clamp(1, u128::from(u64::MAX)) as u64;
                    let rate = bytes.saturating_sub(appended).saturating_mul(1000) / millis;
                    // What has slowed down is believed to go on for a while: bursts come together.
                    self.rate = rate.max(self.rate - self.rate / 4);
                    self.seen = Some((begun, bytes, now));
                }
            }
            None => (self.seen, self.taken) = (Some((begun, bytes, now)), Some(now)),
        }
        let lasting = self.rate.saturating_mul(LASTING.as_secs());
        lasting.div_ceil(u64::from(segment_bytes).max(1)).clamp(READY, MOST_READY)
    }

    /// Whether the lane took a segment a moment ago, or was looked at first.
    fn is_fresh(&self, now: Instant) -> bool {
        self.taken.is_none_or(|then| now.saturating_duration_since(then) < HOLD)
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
        [bell, urgent]: [Arc<Bell>; 2],
    ) -> (Self, Taker) {
        let (ready, taken) = sync_channel(MOST_READY as usize);
        let (retired, back) = sync_channel(RETIRED);
        let taker = Taker { ready: taken, retired, bell, urgent };
        (Self { files, shared, next, made: 0, pace: Pace::default(), ready, retired: back }, taker)
    }

    /// Makes segments until as many are ready as should be, or the budget is used up.
    pub(crate) fn fill(&mut self, budget: &Budget) -> io::Result<()> {
        while self.retired.try_recv().is_ok() {}
        let begun = self.shared.segments.load(Ordering::Relaxed);
        let now = Instant::now();
        let bytes = self.shared.bytes.load(Ordering::Relaxed);
        let wanted = self.pace.ready((begun, bytes), budget.segment_bytes, now);
        let waits = wanted == READY && self.pace.is_fresh(now);
        while self.made < self.shared.segments.load(Ordering::Relaxed) + LEAST_READY
            || (self.made < begun + wanted && !waits && budget.has_room_ahead())
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
            self.shared.made.store(self.made, Ordering::Relaxed);
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
        const SEGMENT: u32 = 16 << 20;
        let (mut pace, start) = (Pace::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut ready = |begun, mib: u64, ms| pace.ready((begun, mib << 20), SEGMENT, at(ms));
        assert_eq!(ready(0, 0, 0), 3);
        assert_eq!(ready(1, 16, 10_000), 3);
        // 64 MiB a second, and no segment has been begun since.
        assert_eq!(ready(1, 22, 10_094), 8);
        assert_eq!(ready(2, 32, 10_104), 16, "1000 MiB a second for a moment");
        assert_eq!(ready(6, 96, 10_504), 16);
        let later: Vec<u64> = (1..=12).map(|n| ready(6, 96, 10_504 + n * 200)).collect();
        assert!(later.is_sorted_by(|a, b| a >= b) && later.last() == Some(&3), "{later:?}");
        assert!(pace.is_fresh(at(10_900)) && !pace.is_fresh(at(11_100)));
    }
}
