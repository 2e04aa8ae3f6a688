//! Waits until a server is idle.

use super::server::RunningServer;
use crate::engine::Control;
use crate::observe::{Gauges, Usage};
use crate::program::Origin;
use crate::scenario::Idle;
use std::time::{Duration, Instant};

/// weir's gauges: all records are indexed and counted, and no event waits.
const WEIR_GAUGES: [&str; 3] =
    ["weir_index_lag_records", "weir_monitor_lag_seconds", "weir_events_waiting"];
/// Interval of gauge reads.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Waiting time for a server without gauges.
const DEFAULT_IDLE_TIME: Duration = Duration::from_secs(2);

/// Time without work after which a server is quiet.
const QUIET_TIME: Duration = Duration::from_secs(1);
/// Cores that a quiet server uses at most.
const QUIET_CORES: f64 = 0.05;

/// Idle condition.
#[derive(Debug)]
pub(super) enum Wait {
    /// A time.
    Time(Duration),
    /// Gauges that have to be 0.
    Zero(Gauges),
    /// Gauges that have to be 0, if any, and processes that do hardly anything.
    Quiet(Option<Gauges>, Vec<i32>),
}

impl Wait {
    /// The idle condition of a server; `metrics` is the URL of its gauges, unless it is weir.
    pub(super) fn new(idle: &Idle, live: &RunningServer, metrics: Option<&str>) -> Self {
        let all = || WEIR_GAUGES.map(str::to_owned).to_vec();
        let names = match idle {
            Idle::Time(time) => return Self::Time(*time),
            Idle::Quiet if !live.pids.is_empty() => {
                return Self::Quiet(gauges(live, None, all()), live.pids.clone());
            }
            Idle::Drained | Idle::Quiet => all(),
            Idle::Zero(names) => names.clone(),
        };
        gauges(live, metrics, names).map_or(Self::Time(DEFAULT_IDLE_TIME), Self::Zero)
    }

    /// Whether the wait is long enough to be reported.
    pub(super) fn is_long(&self) -> bool {
        !matches!(self, Self::Time(time) if *time < DEFAULT_IDLE_TIME)
    }

    /// Waits. Returns the time until the server was idle; `None` after the timeout.
    pub(super) fn until_idle(&self, timeout: Duration, control: &Control) -> Option<Duration> {
        let start = Instant::now();
        let mut quiet = Quiet::new(start);
        loop {
            let idle_at = match self {
                Self::Time(time) => (start.elapsed() >= *time).then_some(start + *time),
                Self::Zero(gauges) => are_zero(gauges).then(Instant::now),
                Self::Quiet(gauges, pids) => {
                    let now = Instant::now();
                    // Gauges are read at the end only: a read is work as well.
                    quiet.observe(now, Usage::of(pids).cpu, false).filter(|_| {
                        let works = gauges.as_ref().is_some_and(|gauges| !are_zero(gauges));
                        !works || quiet.observe(now, Usage::of(pids).cpu, true).is_some()
                    })
                }
            };
            if let Some(idle_at) = idle_at {
                return Some(idle_at.duration_since(start));
            }
            // A time has no timeout.
            let timed_out = !matches!(self, Self::Time(_)) && start.elapsed() >= timeout;
            if timed_out || control.is_stopped() {
                return None;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

fn are_zero(gauges: &Gauges) -> bool {
    gauges.scrape().is_some_and(|all| all.iter().all(|(_, value)| *value <= 0.0))
}

/// Detects a time without work.
#[derive(Debug)]
struct Quiet {
    /// Time and CPU time of the last observation.
    last: Option<(Instant, Duration)>,
    /// Begin of the time without work.
    since: Instant,
}

impl Quiet {
    fn new(start: Instant) -> Self {
        Self { last: None, since: start }
    }

    /// Adds an observation. Returns the begin of the quiet time once it is long enough.
    fn observe(&mut self, now: Instant, cpu: Duration, works: bool) -> Option<Instant> {
        let (then, before) = self.last.replace((now, cpu)).unwrap_or((now, cpu));
        let cores = cpu.saturating_sub(before).as_secs_f64()
            / now.duration_since(then).as_secs_f64().max(f64::MIN_POSITIVE);
        if works || cores > QUIET_CORES {
            self.since = now;
        }
        (now.duration_since(self.since) >= QUIET_TIME).then_some(self.since)
    }
}

/// Gauges of a server: of the metrics page of the scenario, or of weir's own.
pub(super) fn gauges(
    live: &RunningServer,
    metrics: Option<&str>,
    names: Vec<String>,
) -> Option<Gauges> {
    if let Some((origin, target)) = metrics.and_then(|url| Origin::parse(url).ok()) {
        return Some(Gauges::new(origin, &target, names));
    }
    let admin = live.admin?;
    let origin = Origin { tls: false, host: admin.ip().to_string(), port: admin.port() };
    Some(Gauges::new(origin, "/metrics", names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_quiet_from_the_end_of_its_work() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut quiet = Quiet::new(start);
        let mut observe = |millis, cpu, works| {
            let found = quiet.observe(at(millis), Duration::from_millis(cpu), works);
            found.map(|since| since.duration_since(start).as_millis())
        };
        // The CPU time before the first observation is not the wait's.
        assert_eq!(observe(0, 5_000, false), None);
        assert_eq!(observe(500, 5_400, false), None, "0.8 cores");
        assert_eq!(observe(1_000, 5_410, false), None, "idle for 0.5 s");
        assert_eq!(observe(1_400, 5_410, true), None, "a gauge is above 0");
        assert_eq!(observe(2_300, 5_420, false), None, "idle for 0.9 s");
        assert_eq!(observe(2_400, 5_420, false), Some(1_400));
    }
}
