//! What the server counts during a round: requests, and the counters of the scenario.

use super::Runner;
use super::idle::gauges;
use super::server::RunningServer;
use crate::engine::Summary;
use std::time::{Duration, Instant};

/// Number of completed requests of weir.
const REQUEST_COUNT_METRIC: &str = "http_server_request_duration_seconds_count";
/// Time for a server to update its counters.
const COUNT_TIMEOUT: Duration = Duration::from_secs(2);
/// Counters that are equal after this time are complete.
const SETTLE_TIME: Duration = Duration::from_millis(200);

/// Counters before a round.
#[derive(Debug)]
pub(super) struct CountersBefore {
    requests: Option<u64>,
    counters: Vec<f64>,
}

/// What the server has counted in a round.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// Sent requests and requests counted by the server, if they differ.
    pub(super) mismatch: Option<(u64, u64)>,
    /// Increase of the counters of the scenario, by their names.
    pub(super) counters: Vec<(String, f64)>,
}

impl Runner<'_> {
    /// Reads the counters before a round. `only_load`: the load sends all requests that the server
    /// counts.
    pub(super) fn counters_before(&self, live: &RunningServer, only_load: bool) -> CountersBefore {
        CountersBefore {
            requests: if only_load { self.request_count(live) } else { None },
            counters: self.counters(live).unwrap_or_default(),
        }
    }

    /// Reads the counters after a round.
    pub(super) fn counted(
        &self,
        live: &RunningServer,
        before: &CountersBefore,
        summary: &Summary,
    ) -> Counted {
        let mismatch = before.requests.and_then(|count| self.count_mismatch(live, count, summary));
        let names = self.scenario.observe.counters.iter().map(|(name, _)| name.clone());
        let after = self.settled_counters(live).unwrap_or_default();
        let increase = after.iter().zip(&before.counters).map(|(after, before)| after - before);
        Counted { mismatch, counters: names.zip(increase).collect() }
    }

    /// Requests counted by the server, if the Lab started it as weir.
    fn request_count(&self, live: &RunningServer) -> Option<u64> {
        let gauges =
            live.is_own.then(|| gauges(live, None, vec![REQUEST_COUNT_METRIC.to_owned()]))??;
        let found = gauges.scrape()?;
        // The row is missing before the first request.
        Some(found.first().map_or(0, |(_, count)| *count as u64))
    }

    /// Sent requests and requests counted by the server, if they differ. After failures nothing is
    /// compared: failed requests may not have reached the server.
    fn count_mismatch(
        &self,
        live: &RunningServer,
        before: u64,
        summary: &Summary,
    ) -> Option<(u64, u64)> {
        let all = summary.total.all(&summary.transactions);
        if all.failed() > 0 || summary.interrupted > 0 {
            return None;
        }
        let sent = all.samples();
        let start = Instant::now();
        loop {
            let counted = self.request_count(live)?.saturating_sub(before);
            if counted == sent {
                return None;
            }
            if start.elapsed() >= COUNT_TIMEOUT {
                return Some((sent, counted));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The counters of the scenario; `None` without any, or if the page cannot be read.
    fn counters(&self, live: &RunningServer) -> Option<Vec<f64>> {
        let observe = &self.scenario.observe;
        if observe.counters.is_empty() {
            return None;
        }
        let names: Vec<String> =
            observe.counters.iter().map(|(_, metric)| metric.clone()).collect();
        let found = gauges(live, observe.metrics.as_deref(), names.clone())?.scrape()?;
        // A row is missing before the first event.
        let value = |name: &String| found.iter().find(|(known, _)| known == name);
        Some(names.iter().map(|name| value(name).map_or(0.0, |(_, value)| *value)).collect())
    }

    /// The counters once they no longer change.
    fn settled_counters(&self, live: &RunningServer) -> Option<Vec<f64>> {
        let start = Instant::now();
        let mut before = self.counters(live)?;
        loop {
            std::thread::sleep(SETTLE_TIME);
            let now = self.counters(live)?;
            if now == before || start.elapsed() >= COUNT_TIMEOUT {
                return Some(now);
            }
            before = now;
        }
    }
}
