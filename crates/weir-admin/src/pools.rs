//! Pools in the admin API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_broker::{DurationSummary, PoolSnapshot};

/// All pools, in the order of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pools {
    /// The pools.
    pub pools: Vec<PoolStatus>,
}

/// Status of a pool; counters count since the start of weir.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolStatus {
    /// Name of the pool.
    pub pool: String,
    /// Protocol of the agents: `fastcgi`, `http` or `cgi`.
    pub protocol: String,
    /// The pool is ready, as far as is known.
    pub ready: bool,
    /// Last error of an agent, until an agent serves again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Current agents.
    pub agents: Agents,
    /// Waiting requests.
    pub queue: Queue,
    /// Requests served.
    pub served: u64,
    /// Requests rejected because the queue was full.
    pub rejected_full: u64,
    /// Requests rejected because their wait timed out.
    pub rejected_wait: u64,
    /// Requests rejected because no agent could be started.
    pub rejected_unavailable: u64,
    /// Agents started.
    pub started: u64,
    /// Agent starts that failed.
    pub failed_starts: u64,
    /// Agents recycled: by requests, age, memory or command.
    pub restarted: u64,
    /// Agents that exited unexpectedly.
    pub crashed: u64,
    /// Agents killed because of a timeout or a protocol error.
    pub killed: u64,
    /// Log lines of agents that were dropped by the rate limit.
    pub log_dropped: u64,
    /// Time that requests waited for an agent.
    pub request_wait: Times,
    /// Time that agents needed for requests.
    pub request_duration: Times,
}

/// Agents by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Agents {
    /// With a request.
    pub busy: usize,
    /// Idle.
    pub available: usize,
    /// Started, not ready yet.
    pub starting: usize,
    /// Draining, or not known to be healthy.
    pub locked: usize,
    /// Maximum number of agents.
    pub max: usize,
    /// Process ids of the agents that weir started.
    pub pids: Vec<u32>,
}

/// Queue of waiting requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// Current length.
    pub current: usize,
    /// Peak length.
    pub peak: usize,
    /// Maximum length.
    pub max: usize,
}

/// Times in seconds; percentiles within 1 %.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Times {
    /// Number of values.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Maximum.
    pub max: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
}

impl Pools {
    /// From the gateway's snapshot.
    pub(crate) fn of(snapshots: Vec<PoolSnapshot>) -> Self {
        Self { pools: snapshots.into_iter().map(status).collect() }
    }
}

fn status(pool: PoolSnapshot) -> PoolStatus {
    PoolStatus {
        pool: pool.name,
        protocol: pool.protocol.to_owned(),
        ready: pool.ready,
        trouble: pool.last_error,
        agents: Agents {
            busy: pool.agents.busy,
            available: pool.agents.available,
            starting: pool.agents.starting,
            locked: pool.agents.locked,
            max: pool.max,
            pids: pool.pids,
        },
        queue: Queue { current: pool.queue, peak: pool.queue_peak, max: pool.queue_max },
        served: pool.served,
        rejected_full: pool.rejected_full,
        rejected_wait: pool.rejected_wait,
        rejected_unavailable: pool.rejected_unavailable,
        started: pool.started,
        failed_starts: pool.failed_starts,
        restarted: pool.restarted,
        crashed: pool.crashed,
        killed: pool.killed,
        log_dropped: pool.log_dropped,
        request_wait: times(pool.wait),
        request_duration: times(pool.duration),
    }
}

fn times(summary: DurationSummary) -> Times {
    let DurationSummary { count, mean, max, p50, p95, p99, .. } = summary;
    Times { count, mean, max, p50, p95, p99 }
}
