//! Waiting until a server is idle.

use super::server::Live;
use crate::engine::Control;
use crate::observe::Gauges;
use crate::program::Origin;
use crate::scenario::Idle;
use std::time::{Duration, Instant};

/// weir's own: what is recorded is indexed and counted, no event waits.
const WEIR: [&str; 3] =
    ["weir_index_lag_records", "weir_monitor_lag_seconds", "weir_events_waiting"];
/// How often gauges are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long a server rests of whose queues nothing can be known.
const REST: Duration = Duration::from_secs(2);

/// What is waited for.
#[derive(Debug)]
pub(super) enum Wait {
    /// A time.
    Time(Duration),
    /// Gauges that have to be 0.
    Zero(Gauges),
}

impl Wait {
    /// What a server has to be waited for; `metrics` is the URL of its gauges, unless it is weir.
    pub(super) fn new(idle: &Idle, live: &Live, metrics: Option<&str>) -> Self {
        let names = match idle {
            Idle::Time(time) => return Self::Time(*time),
            Idle::Drained => WEIR.map(str::to_owned).to_vec(),
            Idle::Zero(names) => names.clone(),
        };
        gauges(live, metrics, names).map_or(Self::Time(REST), Self::Zero)
    }

    /// Whether somebody who watches should be told.
    pub(super) fn is_long(&self) -> bool {
        !matches!(self, Self::Time(time) if *time < REST)
    }

    /// Waits; `false` if it was in vain.
    pub(super) fn until_idle(&self, patience: Duration, control: &Control) -> bool {
        let start = Instant::now();
        loop {
            let (done, late) = match self {
                Self::Time(time) => (start.elapsed() >= *time, false),
                Self::Zero(gauges) => {
                    let found = gauges.scrape();
                    let zero = found.is_ok_and(|all| all.iter().all(|(_, value)| *value <= 0.0));
                    (zero, start.elapsed() >= patience)
                }
            };
            if done || late || control.is_stopped() {
                return done;
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Gauges of a server: of the page that is said, or weir's own.
pub(super) fn gauges(live: &Live, metrics: Option<&str>, names: Vec<String>) -> Option<Gauges> {
    if let Some((origin, target)) = metrics.and_then(|url| Origin::parse(url).ok()) {
        return Some(Gauges::new(origin, &target, names));
    }
    let admin = live.admin?;
    let origin = Origin { tls: false, host: admin.ip().to_string(), port: admin.port() };
    Some(Gauges::new(origin, "/metrics", names))
}
