//! Statistics of pools as families.

use super::Kind::{Counter, Gauge};
use super::{Family, LabelledRow, Labels, Row, counts};
use weir_broker::{DurationSummary, PoolSnapshot};

#[rustfmt::skip]
const POOLS: &[Row<PoolSnapshot>] = &[
    (Gauge, "weir_pool_ready", |p| p.ready.into(),
        "Whether a pool can serve, as far as is known."),
    (Gauge, "weir_pool_queue_depth", |p| p.queue.current as f64,
        "Requests that wait for an agent."),
    (Gauge, "weir_pool_queue_depth_max", |p| p.queue.peak as f64,
        "Highest queue depth so far."),
    (Counter, "weir_pool_served_total", |p| p.served as f64,
        "Requests that agents responded to."),
    (Counter, "weir_pool_started_total", |p| p.started as f64,
        "Agents started."),
    (Counter, "weir_pool_failed_starts_total", |p| p.failed_starts as f64,
        "Agent starts that failed."),
    (Counter, "weir_pool_restarted_total", |p| p.restarted as f64,
        "Agents replaced as planned."),
    (Counter, "weir_pool_crashed_total", |p| p.crashed as f64,
        "Agents that ended by themselves."),
    (Counter, "weir_pool_killed_total", |p| p.killed as f64,
        "Agents killed because a request timed out or their response was invalid."),
    (Counter, "weir_pool_log_dropped_total", |p| p.log_dropped as f64,
        "Log lines of agents dropped because there were too many."),
    (Counter, "weir_pool_request_wait_seconds_total", |p| p.request_wait.sum,
        "Time that requests waited for an agent, all together."),
    (Counter, "weir_pool_request_duration_seconds_total", |p| p.request_duration.sum,
        "Time that agents took for requests, all together."),
];

#[rustfmt::skip]
const LABELLED: &[LabelledRow<PoolSnapshot>] = &[
    (Gauge, "weir_pool_agents", "state",
        |p| vec![
            ("busy", p.agents.busy as f64),
            ("available", p.agents.available as f64),
            ("starting", p.agents.starting as f64),
            ("locked", p.agents.locked as f64),
        ],
        "Agents, by state."),
    (Counter, "weir_pool_rejected_total", "reason",
        |p| counts(
            &["full", "wait", "unavailable"],
            &[p.rejected_full, p.rejected_wait, p.rejected_unavailable],
        ),
        "Requests rejected: the queue was full, the wait too long, or no agent available."),
    (Gauge, "weir_pool_request_wait_seconds", "quantile",
        |p| quantiles(&p.request_wait),
        "Time that requests waited for an agent: percentiles, mean and maximum."),
    (Gauge, "weir_pool_request_duration_seconds", "quantile",
        |p| quantiles(&p.request_duration),
        "Time that agents took for requests: percentiles, mean and maximum."),
];

/// Statistics of pools; no family without pools.
pub fn pools(pools: &[PoolSnapshot]) -> Vec<Family> {
    if pools.is_empty() {
        return Vec::new();
    }
    let labelled = Family::labelled(LABELLED, pools, labels);
    labelled.chain(Family::table_of(POOLS, pools, labels)).collect()
}

fn labels(pool: &PoolSnapshot) -> Labels {
    vec![("weir_pool", pool.name.clone())]
}

fn quantiles(summary: &DurationSummary) -> Vec<(&'static str, f64)> {
    let DurationSummary { mean, max, p50, p95, p99, .. } = *summary;
    vec![("0.5", p50), ("0.95", p95), ("0.99", p99), ("1", max), ("mean", mean)]
}
