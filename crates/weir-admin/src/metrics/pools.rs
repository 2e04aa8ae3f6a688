//! Statistics of pools as families.

use super::Kind::{Counter, Gauge};
use super::{Family, Labels, Row, Sample};
use weir_broker::{DurationSummary, PoolSnapshot};

#[rustfmt::skip]
const POOLS: &[Row<PoolSnapshot>] = &[
    (Gauge, "weir_pool_ready", |p| p.ready.into(),
        "Whether a pool can serve, as far as is known."),
    (Gauge, "weir_pool_queue_depth", |p| p.queue as f64,
        "Requests that wait for an agent."),
    (Gauge, "weir_pool_queue_depth_max", |p| p.queue_peak as f64,
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
    (Counter, "weir_pool_request_wait_seconds_total", |p| p.wait.sum,
        "Time that requests waited for an agent, all together."),
    (Counter, "weir_pool_request_duration_seconds_total", |p| p.duration.sum,
        "Time that agents took for requests, all together."),
];

/// Everything that is counted of pools; no family where there are none.
pub fn pools(pools: &[PoolSnapshot]) -> Vec<Family> {
    if pools.is_empty() {
        return Vec::new();
    }
    let mut families = vec![
        by("weir_pool_agents", "Agents, by state.", Gauge, "state", pools, |pool| {
            let agents = pool.agents;
            [
                ("busy", agents.busy as f64),
                ("available", agents.available as f64),
                ("starting", agents.starting as f64),
                ("locked", agents.locked as f64),
            ]
        }),
        by(
            "weir_pool_rejected_total",
            "Requests rejected: the queue was full, the wait too long, or no agent available.",
            Counter,
            "reason",
            pools,
            |pool| {
                [
                    ("full", pool.rejected_full as f64),
                    ("wait", pool.rejected_wait as f64),
                    ("unavailable", pool.rejected_unavailable as f64),
                ]
            },
        ),
        by(
            "weir_pool_request_wait_seconds",
            "Time that requests waited for an agent: percentiles, mean and maximum.",
            Gauge,
            "quantile",
            pools,
            |pool| quantiles(&pool.wait),
        ),
        by(
            "weir_pool_request_duration_seconds",
            "Time that agents took for requests: percentiles, mean and maximum.",
            Gauge,
            "quantile",
            pools,
            |pool| quantiles(&pool.duration),
        ),
    ];
    families.extend(Family::table_of(POOLS, pools, labels));
    families
}

fn labels(pool: &PoolSnapshot) -> Labels {
    vec![("weir_pool", pool.name.clone())]
}

/// Numbers of each pool by the values of another label.
fn by<const N: usize>(
    name: &'static str,
    help: &'static str,
    kind: super::Kind,
    label: &'static str,
    pools: &[PoolSnapshot],
    values: fn(&PoolSnapshot) -> [(&'static str, f64); N],
) -> Family {
    let samples = pools.iter().flat_map(|pool| {
        values(pool).map(|(value, number)| {
            let mut labels = labels(pool);
            labels.push((label, value.to_owned()));
            Sample { labels, value: number }
        })
    });
    Family::new(kind, name, help, samples)
}

fn quantiles(summary: &DurationSummary) -> [(&'static str, f64); 5] {
    let DurationSummary { mean, max, p50, p95, p99, .. } = *summary;
    [("0.5", p50), ("0.95", p95), ("0.99", p99), ("1", max), ("mean", mean)]
}
