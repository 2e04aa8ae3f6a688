//! Segments that are prepared ahead of need, by a thread that may wait for the disk.
//!
//! A worker takes the next segment from a queue without a system call. It never opens or closes a
//! file, as its thread may have its own table of file descriptors.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use crate::catalog::Catalog;
use crate::catalog::budget::Budget;
use crate::format::HEADER;
use crate::lane_state::{LaneShared, LaneState};
use crate::os::mapping::Mapping;
use crate::os::thread_waker::ThreadWaker;

/// Prepared segments in the queue of a lane: the minimum, the normal number (fewer only for
/// [`BURST_PAUSE`]), and the maximum.
const MIN_READY: u64 = 2;
const NORMAL_READY: u64 = 3;
const MAX_READY: u64 = 16;
/// Preparing a segment takes as long as serving some thousand requests. If enough are ready, the
/// next one is delayed by this time, until the burst that needed one is over.
const BURST_PAUSE: Duration = Duration::from_millis(500);
/// Time that the prepared segments should last: as long as the file system may delay the next one,
/// while it writes back what sealing syncs.
const READY_TIME: Duration = Duration::from_secs(2);
/// Shortest time over which a rate is measured, unless a segment was started in it.
const MIN_RATE_INTERVAL: Duration = Duration::from_millis(20);
/// Mappings of full segments that wait to be unmapped.
const MAX_RETIRED: usize = 8;
/// Bytes written at a time to bring the pages of a new file into memory.
const ZERO_CHUNK_BYTES: usize = 1 << 20;

/// A segment with allocated blocks and its pages in memory.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) number: u32,
    pub(crate) mapping: Mapping,
}

/// The lane's end of the queue of prepared segments.
#[derive(Debug)]
pub(crate) struct PreparedQueue {
    ready: Receiver<Prepared>,
    retired: SyncSender<Mapping>,
    supply: Arc<ThreadWaker>,
    /// The thread with the priority of workers.
    urgent: Arc<ThreadWaker>,
}

impl PreparedQueue {
    /// The next segment, if one is ready.
    pub(crate) fn pop(&self) -> Option<Prepared> {
        let prepared = self.ready.try_recv();
        if prepared.is_err() {
            self.urgent.wake();
        }
        self.supply.wake();
        prepared.ok()
    }

    /// Requests more segments: one was started, or half of it is full. If few are left, this wakes the
    /// thread as well that does not wait for workers to be idle.
    pub(crate) fn request(&self, shared: &LaneShared) {
        let started = shared.segments.load(Ordering::Relaxed);
        if shared.prepared.load(Ordering::Relaxed) < started + MIN_READY {
            self.urgent.wake();
        }
        self.supply.wake();
    }

    /// Hands over a mapping to be unmapped. That can take long: the lane does it itself only if the
    /// other side is behind.
    pub(crate) fn retire(&self, mapping: Mapping) {
        if let Err(TrySendError::Full(mapping) | TrySendError::Disconnected(mapping)) =
            self.retired.try_send(mapping)
        {
            drop(mapping);
        }
    }
}

/// Write rate of a lane.
#[derive(Debug, Default)]
struct Pace {
    /// Started segments and appended bytes at the last measurement, and its time.
    measured: Option<(u64, u64, Instant)>,
    /// Start of the last segment.
    started: Option<Instant>,
    /// Bytes a second.
    rate: u64,
}

impl Pace {
    /// Number of segments to keep ready, after `started` segments and `bytes` appended.
    fn ready(&mut self, (started, bytes): (u64, u64), segment_bytes: u32, now: Instant) -> u64 {
        match self.measured {
            Some((before, appended, then)) => {
                let elapsed = now.saturating_duration_since(then);
                if started > before {
                    self.started = Some(now);
                }
                if elapsed >= MIN_RATE_INTERVAL || started > before {
                    let millis = elapsed.as_millis().clamp(1, u128::from(u64::MAX)) as u64;
                    let rate = bytes.saturating_sub(appended).saturating_mul(1000) / millis;
                    // A lower rate takes effect slowly: bursts come together.
                    self.rate = rate.max(self.rate - self.rate / 4);
                    self.measured = Some((started, bytes, now));
                }
            }
            None => (self.measured, self.started) = (Some((started, bytes, now)), Some(now)),
        }
        let needed = self.rate.saturating_mul(READY_TIME.as_secs());
        needed.div_ceil(u64::from(segment_bytes).max(1)).clamp(NORMAL_READY, MAX_READY)
    }

    /// Whether the lane began a segment a moment ago, or was measured for the first time.
    fn is_in_burst(&self, now: Instant) -> bool {
        self.started.is_none_or(|then| now.saturating_duration_since(then) < BURST_PAUSE)
    }
}

/// Prepares the segments of one lane.
#[derive(Debug)]
pub(crate) struct Preallocator {
    lane: LaneState,
    /// Number of the next segment.
    next: u32,
    prepared: u64,
    pace: Pace,
    ready: SyncSender<Prepared>,
    retired: Receiver<Mapping>,
}

impl Preallocator {
    /// Prepares segments from number `next` on.
    pub(crate) fn new(
        lane: LaneState,
        next: u32,
        supply: Arc<ThreadWaker>,
        urgent: Arc<ThreadWaker>,
    ) -> (Self, PreparedQueue) {
        let (ready, prepared) = sync_channel(MAX_READY as usize);
        let (retired, unmap) = sync_channel(MAX_RETIRED);
        let queue = PreparedQueue { ready: prepared, retired, supply, urgent };
        (Self { lane, next, prepared: 0, pace: Pace::default(), ready, retired: unmap }, queue)
    }

    /// Index of the lane.
    pub(crate) fn lane(&self) -> u16 {
        self.lane.catalog.files.lane
    }

    /// Unmaps retired segments, and prepares segments until enough are ready or the budget is used
    /// up.
    pub(crate) fn fill(&mut self, budget: &Budget) -> io::Result<()> {
        while self.retired.try_recv().is_ok() {}
        let shared = Arc::clone(&self.lane.shared);
        let started = shared.segments.load(Ordering::Relaxed);
        let now = Instant::now();
        let bytes = shared.bytes.load(Ordering::Relaxed);
        let target = self.pace.ready((started, bytes), budget.segment_bytes, now);
        let delayed = target == NORMAL_READY && self.pace.is_in_burst(now);
        while self.prepared < shared.segments.load(Ordering::Relaxed) + MIN_READY
            || (self.prepared < started + target && !delayed && budget.allows_segments_ahead())
        {
            let prepared = match self.prepare(budget) {
                Ok(Some(prepared)) => prepared,
                Ok(None) => return Ok(()),
                Err(error) => {
                    shared.disk_errors.fetch_add(1, Ordering::Relaxed);
                    return Err(error);
                }
            };
            self.prepared += 1;
            shared.prepared.store(self.prepared, Ordering::Relaxed);
            if self.ready.try_send(prepared).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Prepares one segment; none if the budget does not allow it. A failure leaves no file.
    fn prepare(&mut self, budget: &Budget) -> io::Result<Option<Prepared>> {
        let number = self.next;
        let catalog = &self.lane.catalog;
        let path = catalog.files.segment(number);
        let length = u64::from(budget.segment_bytes);
        if budget.is_exceeded() {
            catalog.remove_spares(budget);
        }
        let reused = match catalog.pop_spare() {
            Some(spare) => Some(
                reuse(catalog, &spare, &path)
                    .inspect_err(|_| catalog.reject_spare(spare, budget))?,
            ),
            None => None,
        };
        let mapping = match reused {
            Some(file) => Mapping::new(&file, length as usize),
            None if !budget.try_reserve(length) => return Ok(None),
            None => {
                create(catalog, &path, length).and_then(|file| Mapping::new(&file, length as usize))
            }
        };
        let mapping = mapping.inspect_err(|_| {
            // A file that cannot be removed now is removed when the journal is opened again.
            let _ = fs::remove_file(&path);
            budget.release(length);
        })?;
        catalog.add_raw(number);
        self.next += 1;
        Ok(Some(Prepared { number, mapping }))
    }
}

/// Turns a spare file into a segment that was not started.
fn reuse(catalog: &Catalog, spare: &Path, path: &Path) -> io::Result<File> {
    catalog.files.faults.check("segment.reuse")?;
    let file = OpenOptions::new().read(true).write(true).open(spare)?;
    file.write_all_at(&[0; HEADER], 0)?;
    fs::rename(spare, path)?;
    Ok(file)
}

/// Creates a file with allocated blocks and its pages in memory.
fn create(catalog: &Catalog, path: &Path, length: u64) -> io::Result<File> {
    catalog.files.faults.check("segment.create")?;
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(path)?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, length)?;
    // Long writes bring in many pages at a time; a page fault for each would cost ten times as much.
    let zeros = vec![0; ZERO_CHUNK_BYTES.min(length as usize)];
    for offset in (0..length).step_by(ZERO_CHUNK_BYTES) {
        let left = (length - offset).min(ZERO_CHUNK_BYTES as u64) as usize;
        file.write_all_at(&zeros[..left], offset)?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_lane_has_more_segments_ready_and_fewer_after_it_slows_down() {
        const SEGMENT: u32 = 16 << 20;
        let (mut pace, start) = (Pace::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut ready = |started, mib: u64, ms| pace.ready((started, mib << 20), SEGMENT, at(ms));
        assert_eq!(ready(0, 0, 0), 3);
        assert_eq!(ready(1, 16, 10_000), 3);
        // 64 MiB a second, no segment started since.
        assert_eq!(ready(1, 22, 10_094), 8);
        assert_eq!(ready(2, 32, 10_104), 16, "1000 MiB a second for a moment");
        assert_eq!(ready(6, 96, 10_504), 16);
        let later: Vec<u64> = (1..=12).map(|n| ready(6, 96, 10_504 + n * 200)).collect();
        assert!(later.is_sorted_by(|a, b| a >= b) && later.last() == Some(&3), "{later:?}");
        assert!(pace.is_in_burst(at(10_900)) && !pace.is_in_burst(at(11_100)));
    }
}
