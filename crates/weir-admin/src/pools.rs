//! What the admin API tells of pools.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_gateway::pools::{PoolSnapshot, Spread};

/// Every pool, in the order of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pools {
    /// The pools.
    pub pools: Vec<PoolStatus>,
}

/// A pool at this moment; what is counted is counted since weir was started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolStatus {
    /// Its name.
    pub pool: String,
    /// What its agents speak: `fastcgi`, `http` or `cgi`.
    pub protocol: String,
    /// It can serve, as far as is known.
    pub ready: bool,
    /// Why the last agent failed, until one serves again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Its agents now.
    pub agents: Agents,
    /// Requests that wait for one.
    pub queue: Queue,
    /// Requests answered.
    pub served: u64,
    /// Requests refused because the queue was full.
    pub rejected_full: u64,
    /// Requests refused because they had waited too long.
    pub rejected_wait: u64,
    /// Requests refused because no agent could be started.
    pub rejected_unavailable: u64,
    /// Agents started.
    pub started: u64,
    /// Agents that never answered.
    pub failed_starts: u64,
    /// Agents replaced as planned: by requests, age, memory or order.
    pub restarted: u64,
    /// Agents that ended by themselves.
    pub crashed: u64,
    /// Agents killed because a request took too long, or because their answer was garbage.
    pub killed: u64,
    /// Lines that agents wrote and that were not logged because there were too many.
    pub log_dropped: u64,
    /// Time that requests waited for an agent.
    pub request_wait: Times,
    /// Time that agents took for requests.
    pub request_duration: Times,
}

/// Agents by what they are doing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Agents {
    /// They have a request.
    pub busy: usize,
    /// They wait for one.
    pub available: usize,
    /// They have not answered for the first time yet.
    pub starting: usize,
    /// They take no more: to be replaced, or not known to be well.
    pub locked: usize,
    /// Most there may be.
    pub max: usize,
    /// Their process ids, if weir has started them.
    pub pids: Vec<u32>,
}

/// Requests that wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Queue {
    /// Now.
    pub current: usize,
    /// Most at once so far.
    pub peak: usize,
    /// Most that may.
    pub max: usize,
}

/// Times in seconds; percentiles are known to 1 %.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Times {
    /// How many.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// The longest.
    pub max: f64,
    /// Half took no longer.
    pub p50: f64,
    /// 95 of 100 took no longer.
    pub p95: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
}

impl Pools {
    /// What the gateway tells.
    pub(crate) fn of(snapshots: Vec<PoolSnapshot>) -> Self {
        Self { pools: snapshots.into_iter().map(status).collect() }
    }
}

fn status(pool: PoolSnapshot) -> PoolStatus {
    PoolStatus {
        pool: pool.name,
        protocol: pool.protocol.to_owned(),
        ready: pool.ready,
        trouble: pool.trouble,
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

fn times(spread: Spread) -> Times {
    let Spread { count, mean, max, p50, p95, p99, .. } = spread;
    Times { count, mean, max, p50, p95, p99 }
}
