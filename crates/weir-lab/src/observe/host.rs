//! Observation of the host.

use crate::results::ServerRow;
use procfs::{Current, CurrentSI, KernelStats, Meminfo};
use std::time::{Duration, Instant};

/// The host.
#[derive(Debug)]
pub struct Host {
    before: Option<(Instant, Counters)>,
}

/// Counters of `/proc/stat`, in ticks of all cores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Counters {
    all: u64,
    /// Busy time: without idle and I/O wait.
    busy: u64,
    /// Time taken by the hypervisor.
    stolen: u64,
    switches: u64,
}

impl Host {
    /// `None` without `/proc/stat`.
    pub fn new() -> Option<Self> {
        KernelStats::current().ok().map(|_| Self { before: None })
    }

    /// Takes a sample. Rates count from the previous sample; the first one has none.
    pub fn sample(&mut self, now: Instant) -> ServerRow {
        let mut row = ServerRow::default();
        if let Ok(memory) = Meminfo::current() {
            let free = memory.mem_available.unwrap_or(memory.mem_free);
            row.memory = Some(memory.mem_total.saturating_sub(free));
        }
        let Ok(stats) = KernelStats::current() else { return row };
        let counters = Counters::new(&stats);
        if let Some((then, before)) = self.before.replace((now, counters)) {
            counters.compare(&before, now.duration_since(then).as_secs_f64(), &mut row);
        }
        row
    }
}

/// Busy time of all cores, and the time that the hypervisor took, since the start of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostTime {
    /// Busy time, added up over all cores.
    pub busy: Duration,
    /// Time that the hypervisor took.
    pub stolen: Duration,
    /// Time of all cores.
    pub all: Duration,
}

impl HostTime {
    /// Up to now; zero without `/proc/stat`.
    #[must_use]
    pub fn now() -> Self {
        let Ok(stats) = KernelStats::current() else { return Self::default() };
        let counters = Counters::new(&stats);
        let tick = 1.0 / procfs::ticks_per_second() as f64;
        let time = |ticks: u64| Duration::from_secs_f64(ticks as f64 * tick);
        let Counters { all, busy, stolen, .. } = counters;
        Self { busy: time(busy), stolen: time(stolen), all: time(all) }
    }
}

impl Counters {
    fn new(stats: &KernelStats) -> Self {
        let cpu = &stats.total;
        let idle = cpu.idle + cpu.iowait.unwrap_or(0);
        let stolen = cpu.steal.unwrap_or(0);
        let interrupts = cpu.irq.unwrap_or(0) + cpu.softirq.unwrap_or(0);
        // User time includes guest time.
        let busy = cpu.user + cpu.nice + cpu.system + interrupts;
        Self { all: busy + idle + stolen, busy, stolen, switches: stats.ctxt }
    }

    fn compare(&self, before: &Self, seconds: f64, row: &mut ServerRow) {
        let all = self.all.saturating_sub(before.all);
        if all == 0 || seconds <= 0.0 {
            return;
        }
        let share = |now: u64, then: u64| now.saturating_sub(then) as f64 / all as f64;
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        row.cpu = Some(share(self.busy, before.busy) * cores);
        row.steal = Some(share(self.stolen, before.stolen));
        row.switches = Some(self.switches.saturating_sub(before.switches) as f64 / seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_all_time() {
        let before = Counters { all: 1000, busy: 100, stolen: 10, switches: 5 };
        let now = Counters { all: 1200, busy: 200, stolen: 20, switches: 205 };
        let mut row = ServerRow::default();
        now.compare(&before, 2.0, &mut row);
        let cores = std::thread::available_parallelism().unwrap().get() as f64;
        assert_eq!(row.cpu, Some(0.5 * cores));
        assert_eq!((row.steal, row.switches), (Some(0.05), Some(100.0)));
        let mut same = ServerRow::default();
        now.compare(&now, 2.0, &mut same);
        assert_eq!(same, ServerRow::default());
    }

    #[test]
    fn this_machine_has_figures() {
        let mut host = Host::new().unwrap();
        let first = host.sample(Instant::now());
        assert!(first.memory.unwrap() > 1 << 20 && first.cpu.is_none());
    }
}
