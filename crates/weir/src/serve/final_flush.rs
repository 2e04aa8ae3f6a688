//! The end of a drain: sinks and the database of the fleet get what was recorded last.

use super::ship;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use weir_fleet::Handle as Fleet;
use weir_journal::Journal;
use weir_monitor::COUNTER_FOLLOWER;
use weir_ship::SinkLag;

/// Interval of checks.
const INTERVAL: Duration = Duration::from_millis(50);

/// Waits until sinks have acknowledged all transactions, and usage is replicated. A sink that is paused is
/// not waited for. Returns what is left after the deadline.
pub(super) async fn flush(
    journal: Option<&Journal>,
    ship: Option<&ship::Handle>,
    fleet: Option<&Fleet>,
    deadline: Instant,
) -> Vec<String> {
    let mut left = Vec::new();
    if let (Some(fleet), Some(journal)) = (fleet, journal)
        && let Err(error) = replicated(journal, fleet, deadline).await
    {
        left.push(format!("usage is not replicated completely: {error}"));
    }
    if let Some(ship) = ship {
        let unshipped = shipped(ship, deadline).await.into_iter();
        left.extend(unshipped.map(|(sink, lag)| {
            format!("{} transactions are not acknowledged by sink {sink}", lag.records)
        }));
    }
    left
}

/// Waits until calls are counted, then replicates them.
async fn replicated(journal: &Journal, fleet: &Fleet, deadline: Instant) -> Result<(), String> {
    while is_counting(journal) {
        if Instant::now() >= deadline {
            return Err("calls are still being counted".to_owned());
        }
        tokio::time::sleep(INTERVAL).await;
    }
    let replicated = tokio::time::timeout_at(deadline.into(), fleet.replicate()).await;
    let replicated = replicated.map_err(|_| "the database did not respond in time".to_owned())?;
    replicated.map_err(|error| error.to_string())
}

/// Whether the counter has not read the whole journal.
fn is_counting(journal: &Journal) -> bool {
    let lag = journal.lag(COUNTER_FOLLOWER).unwrap_or_default();
    lag.is_some_and(|lag| lag.records > 0)
}

/// Waits for the sinks; returns the lag of those that have not acknowledged everything.
async fn shipped(ship: &ship::Handle, deadline: Instant) -> BTreeMap<String, SinkLag> {
    loop {
        let (states, lags) = (ship.sinks().states(), ship.sinks().lags());
        let mut lags = lags.unwrap_or_default();
        lags.retain(|name, lag| lag.records > 0 && states.contains_key(name));
        let is_paused =
            |name: &String| states.get(name).is_some_and(|state| state.statistics.paused.is_some());
        if lags.keys().all(is_paused) || Instant::now() >= deadline {
            return lags;
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
