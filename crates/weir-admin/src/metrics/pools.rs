//! Statistics of pools as families.

use super::{Family, Labels, Sample, Samples};
use weir_gateway::pools::{PoolSnapshot, Spread};

/// Everything that is counted of pools; nothing where there are none.
pub fn pools(pools: &[PoolSnapshot]) -> Vec<Family> {
    if pools.is_empty() {
        return Vec::new();
    }
    let each = |value: fn(&PoolSnapshot) -> f64| -> Vec<Sample> {
        pools.iter().map(|pool| Sample::new(label(pool, &[]), value(pool))).collect()
    };
    let gauge = |name, help, value| Family { name, help, samples: Samples::Gauge(each(value)) };
    let counter = |name, help, value| Family { name, help, samples: Samples::Counter(each(value)) };
    let mut families = vec![
        agents(pools),
        rejected(pools),
        gauge("weir_pool_ready", "Whether a pool can serve, as far as is known.", |p| {
            f64::from(u8::from(p.ready))
        }),
        gauge("weir_pool_queue_depth", "Requests that wait for an agent.", |p| p.queue as f64),
        gauge("weir_pool_queue_depth_max", "Most requests that have waited at once.", |p| {
            p.queue_peak as f64
        }),
        counter("weir_pool_served_total", "Requests that agents answered.", |p| p.served as f64),
        counter("weir_pool_started_total", "Agents started.", |p| p.started as f64),
        counter("weir_pool_failed_starts_total", "Agents that never answered.", |p| {
            p.failed_starts as f64
        }),
        counter("weir_pool_restarted_total", "Agents replaced as planned.", |p| p.restarted as f64),
        counter("weir_pool_crashed_total", "Agents that ended by themselves.", |p| {
            p.crashed as f64
        }),
        counter(
            "weir_pool_killed_total",
            "Agents killed because a request took too long or their answer was garbage.",
            |p| p.killed as f64,
        ),
        counter(
            "weir_pool_log_dropped_total",
            "Lines of agents that were not logged because there were too many.",
            |p| p.log_dropped as f64,
        ),
    ];
    families.push(times(
        pools,
        "weir_pool_request_wait_seconds",
        "How long requests waited for an agent: percentiles, mean and maximum.",
        |pool| &pool.wait,
    ));
    families.push(times(
        pools,
        "weir_pool_request_duration_seconds",
        "How long agents took for requests: percentiles, mean and maximum.",
        |pool| &pool.duration,
    ));
    families.push(counter(
        "weir_pool_request_wait_seconds_total",
        "Time that requests waited for an agent, all together.",
        |p| p.wait.sum,
    ));
    families.push(counter(
        "weir_pool_request_duration_seconds_total",
        "Time that agents took for requests, all together.",
        |p| p.duration.sum,
    ));
    families
}

fn label(pool: &PoolSnapshot, more: &[(&'static str, &str)]) -> Labels {
    let more = more.iter().map(|(name, value)| (*name, (*value).to_owned()));
    std::iter::once(("weir_pool", pool.name.clone())).chain(more).collect()
}

fn agents(pools: &[PoolSnapshot]) -> Family {
    let states = pools.iter().flat_map(|pool| {
        let agents = pool.agents;
        [
            ("busy", agents.busy),
            ("available", agents.available),
            ("starting", agents.starting),
            ("locked", agents.locked),
        ]
        .map(|(state, count)| Sample::new(label(pool, &[("state", state)]), count as f64))
    });
    Family {
        name: "weir_pool_agents",
        help: "Agents by what they are doing.",
        samples: Samples::Gauge(states.collect()),
    }
}

fn rejected(pools: &[PoolSnapshot]) -> Family {
    let reasons = pools.iter().flat_map(|pool| {
        [
            ("full", pool.rejected_full),
            ("wait", pool.rejected_wait),
            ("unavailable", pool.rejected_unavailable),
        ]
        .map(|(reason, count)| Sample::new(label(pool, &[("reason", reason)]), count as f64))
    });
    Family {
        name: "weir_pool_rejected_total",
        help: "Requests refused: the queue was full, the wait too long, or no agent to be had.",
        samples: Samples::Counter(reasons.collect()),
    }
}

fn times(
    pools: &[PoolSnapshot],
    name: &'static str,
    help: &'static str,
    spread: fn(&PoolSnapshot) -> &Spread,
) -> Family {
    let samples = pools.iter().flat_map(|pool| {
        let Spread { mean, max, p50, p95, p99, .. } = *spread(pool);
        [("0.5", p50), ("0.95", p95), ("0.99", p99), ("1", max), ("mean", mean)]
            .map(|(what, seconds)| Sample::new(label(pool, &[("quantile", what)]), seconds))
    });
    Family { name, help, samples: Samples::Gauge(samples.collect()) }
}
