//! CPU time and memory of a round.

use super::server::RunningServer;
use crate::measure::{DrainedUsage, RoundUsage};
use crate::observe::{HostTime, Usage, process_cpu, thread_time};
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time over which other programs are observed without load; `/proc/stat` counts 10 ms.
const IDLE_TIME: Duration = Duration::from_millis(500);
/// Time for processes of the last requests to end.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// Cores that programs other than server, backend and generator use while there is no load.
pub(super) fn others_without_load(server: &RunningServer, backend: Option<i32>) -> f64 {
    std::thread::sleep(SETTLE_TIME);
    let before = Reading::of(server, backend, None);
    std::thread::sleep(IDLE_TIME);
    let usage = before.until(&Reading::of(server, backend, None), server);
    let known =
        usage.generator + usage.server.unwrap_or_default() + usage.backend.unwrap_or_default();
    usage.busy.saturating_sub(known).as_secs_f64() / usage.length.as_secs_f64()
}

/// The readings of a round: at the start and the end of its measured seconds.
#[derive(Debug)]
pub(super) struct Readings<'s> {
    measured: Range<u64>,
    server: &'s RunningServer,
    backend: Option<i32>,
    /// The observed name of threads.
    thread: Option<&'s str>,
    first: Reading,
    last: Option<Reading>,
}

impl<'s> Readings<'s> {
    /// Starts with the round.
    pub(super) fn start(
        measured: Range<u64>,
        server: &'s RunningServer,
        backend: Option<i32>,
        thread: Option<&'s str>,
    ) -> Self {
        let first = Reading::of(server, backend, thread);
        Self { measured, server, backend, thread, first, last: None }
    }

    /// A second of the load is complete.
    pub(super) fn second(&mut self, second: u64) {
        if second + 1 == self.measured.start {
            self.first = self.now();
        } else if second + 1 == self.measured.end {
            self.last = Some(self.now());
        }
    }

    fn now(&self) -> Reading {
        Reading::of(self.server, self.backend, self.thread)
    }

    /// The first reading of the measured seconds.
    pub(super) fn first(&self) -> Reading {
        self.first
    }

    /// The use in the measured seconds; without an end, up to now.
    pub(super) fn usage(&self) -> RoundUsage {
        let last = self.last.unwrap_or_else(|| self.now());
        self.first.until(&last, self.server)
    }
}

/// CPU time of all parts up to a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    at: Instant,
    server: Option<Usage>,
    /// CPU time of the server's threads with the observed name.
    thread: Option<Duration>,
    backend: Option<Usage>,
    /// Bytes of the server's data folder.
    disk: Option<u64>,
    /// This process.
    generator: Duration,
    host: HostTime,
}

impl Reading {
    /// Reads the clocks of server, backend, this process and machine. `thread` is the observed name
    /// of threads.
    pub(super) fn of(server: &RunningServer, backend: Option<i32>, thread: Option<&str>) -> Self {
        Self {
            at: Instant::now(),
            server: (!server.pids.is_empty()).then(|| Usage::of(&server.pids)),
            thread: thread.map(|name| thread_time(&server.pids, name)),
            backend: backend.map(|pid| Usage::of(&[pid])),
            disk: server.data.as_deref().map(folder_bytes),
            generator: process_cpu(),
            host: HostTime::now(),
        }
    }

    /// The use from this reading to a later one.
    pub(super) fn until(&self, later: &Self, server: &RunningServer) -> RoundUsage {
        let cpu = |before: Option<Usage>, after: Option<Usage>| {
            before.zip(after).map(|(before, after)| after.cpu.saturating_sub(before.cpu))
        };
        let all = later.host.all.saturating_sub(self.host.all).as_secs_f64();
        let stolen = later.host.stolen.saturating_sub(self.host.stolen).as_secs_f64();
        RoundUsage {
            length: later.at.duration_since(self.at),
            server: cpu(self.server, later.server),
            server_cores: (!server.cores.is_empty()).then_some(server.cores.len()),
            server_memory: later.server.map_or(0, |usage| usage.memory),
            backend: cpu(self.backend, later.backend),
            generator: later.generator.saturating_sub(self.generator),
            lab: Duration::ZERO,
            busy: later.host.busy.saturating_sub(self.host.busy),
            steal: if all > 0.0 { stolen / all } else { 0.0 },
            anonymous_memory: later.server.map_or(0, |usage| usage.anonymous),
            disk: self.growth(later),
            generator_memory: peak_memory(),
            start: server.start,
            thread: self
                .thread
                .zip(later.thread)
                .map(|(before, after)| after.saturating_sub(before)),
            drained: None,
            idle_others: None,
        }
    }

    /// The use of a round until the server was idle, `time` after its load.
    pub(super) fn drained(&self, idle: &Self, time: Duration) -> Option<DrainedUsage> {
        let (before, after) = self.server.zip(idle.server)?;
        let server = after.cpu.saturating_sub(before.cpu);
        Some(DrainedUsage { time, server, disk: self.growth(idle) })
    }

    /// Growth of the data folder up to a later reading, in bytes.
    fn growth(&self, later: &Self) -> Option<i64> {
        later.disk?.checked_signed_diff(self.disk?)
    }
}

/// Value of `/proc/self/clear_refs` that resets the largest resident memory of a process.
const RESET_PEAK: &str = "5";

/// Starts a new measurement of the largest resident memory of this process.
pub(super) fn reset_peak_memory() {
    // Without this right, the figure is that since the start of the process.
    let _ = std::fs::write("/proc/self/clear_refs", RESET_PEAK);
}

/// The largest resident memory of this process, in bytes; 0 if unknown.
fn peak_memory() -> u64 {
    let status = procfs::process::Process::myself().and_then(|process| process.status());
    status.ok().and_then(|status| status.vmhwm).map_or(0, |kibibytes| kibibytes * 1024)
}

/// Bytes of all files in a folder and its folders. Files that are removed meanwhile are left out.
fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => folder_bytes(&entry.path()),
        _ => entry.metadata().map_or(0, |metadata| metadata.len()),
    };
    entries.map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_the_bytes_of_its_files() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("deep")).unwrap();
        std::fs::write(dir.path().join("a"), [0; 10]).unwrap();
        std::fs::write(dir.path().join("deep/b"), [0; 7]).unwrap();
        assert_eq!(folder_bytes(dir.path()), 17);
        assert_eq!(folder_bytes(&dir.path().join("none")), 0);
        assert!(peak_memory() > 1 << 20);
    }
}
