//! Waits until a server is idle.

use super::server::RunningServer;
use crate::engine::Control;
use crate::observe::Gauges;
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

/// Idle condition.
#[derive(Debug)]
pub(super) enum Wait {
    /// A time.
    Time(Duration),
    /// Gauges that have to be 0.
    Zero(Gauges),
}

impl Wait {
    /// The idle condition of a server; `metrics` is the URL of its gauges, unless it is weir.
    pub(super) fn new(idle: &Idle, live: &RunningServer, metrics: Option<&str>) -> Self {
        let names = match idle {
            Idle::Time(time) => return Self::Time(*time),
            Idle::Drained => WEIR_GAUGES.map(str::to_owned).to_vec(),
            Idle::Zero(names) => names.clone(),
        };
        gauges(live, metrics, names).map_or(Self::Time(DEFAULT_IDLE_TIME), Self::Zero)
    }

    /// Whether the wait is long enough to be reported.
    pub(super) fn is_long(&self) -> bool {
        !matches!(self, Self::Time(time) if *time < DEFAULT_IDLE_TIME)
    }

    /// Waits; `false` after the timeout.
    pub(super) fn until_idle(&self, timeout: Duration, control: &Control) -> bool {
        let start = Instant::now();
        loop {
            let (done, timed_out) = match self {
                Self::Time(time) => (start.elapsed() >= *time, false),
                Self::Zero(gauges) => {
                    let found = gauges.scrape();
                    let zero = found.is_some_and(|all| all.iter().all(|(_, value)| *value <= 0.0));
                    (zero, start.elapsed() >= timeout)
                }
            };
            if done || timed_out || control.is_stopped() {
                return done;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
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
