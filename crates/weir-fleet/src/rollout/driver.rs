//! A node and the rollout: it reads its version with each heartbeat, and drives the active rollout if it has
//! the task.

use super::verdict::{self, Step};
use super::{Offer, current, files};
use crate::database::{Connection, DatabaseError, Parameter};
use crate::identity::Boot;
use crate::status::{NodeState, NodeStatus};
use crate::task;
use crate::versions::{FleetVersions, NodeVersion, Rollout, RolloutState, Stage};
use std::time::Duration;
use tokio_postgres::types::{Json, Type};
use uuid::Uuid;

/// Name of the task.
const TASK: &str = "rollout";

/// A node with the task.
struct Driver<'a> {
    connection: &'a Connection,
    node: Uuid,
    /// Fencing token of the task.
    epoch: i64,
}

/// The versions, and what this node has done.
pub(crate) struct Progress {
    pub(crate) versions: FleetVersions,
    /// The rollout that it has rolled back.
    pub(crate) failed: Option<Rollout>,
}

/// Reads the versions, and drives the active rollout if no other node does. Stages last `stage`; this node is
/// connected since `watched`.
pub(crate) async fn step(
    connection: &Connection,
    (node, boot): (Uuid, Boot),
    nodes: &[NodeStatus],
    (stage, watched): (Duration, Duration),
) -> Result<Progress, DatabaseError> {
    let (versions, counts) = current(connection, nodes).await?;
    let unchanged = |versions| Ok(Progress { versions, failed: None });
    let Some(rollout) = versions.rollout.as_ref().filter(|rollout| rollout.is_active()) else {
        return unchanged(versions);
    };
    if is_left_to_others(rollout, node, nodes) {
        return unchanged(versions);
    }
    let Some(epoch) = task::claim(connection, TASK, node, boot).await? else {
        return unchanged(versions);
    };
    let step = verdict::judge(rollout, &counts, nodes, (stage, watched));
    if step == Step::Wait {
        return unchanged(versions);
    }
    let is_failure = matches!(step, Step::Fail(_));
    let is_written = Driver { connection, node, epoch }.write(rollout, step).await?;
    let (versions, _) = current(connection, nodes).await?;
    let failed = versions.rollout.clone().filter(|_| is_failure && is_written);
    Ok(Progress { versions, failed })
}

/// Whether another node drives: the only one that tries a version may end by it.
fn is_left_to_others(rollout: &Rollout, node: Uuid, nodes: &[NodeStatus]) -> bool {
    let id = node.to_string();
    let drives =
        |one: &NodeStatus| one.state == NodeState::Live && one.in_force.is_some() && one.id != id;
    rollout.stage == Stage::One && rollout.nodes.contains(&id) && nodes.iter().any(drives)
}

/// What this node is to try, if it does not have it and has not rejected it.
pub(crate) async fn offer(
    connection: &Connection,
    node: Uuid,
    versions: &FleetVersions,
    report: &NodeVersion,
) -> Result<Option<Offer>, DatabaseError> {
    let attempt = versions.target(node);
    let rejected = report.rejected.as_ref();
    let is_rejected = rejected
        .is_some_and(|one| (one.version, one.rollout) == (attempt.version, attempt.rollout));
    if attempt.version == report.version || is_rejected {
        return Ok(None);
    }
    let files = match attempt.version {
        Some(number) => files(connection, number).await?,
        None => Ok(Default::default()),
    };
    // What this node has may be what ended badly: it must not start with that again.
    let has_ended_badly = versions.rollout.as_ref().is_some_and(|rollout| {
        matches!(rollout.state, RolloutState::Failed | RolloutState::Aborted)
            && rollout.version == report.version
    });
    let is_rollback =
        attempt.rollout == versions.rollout_of_version && (versions.is_rollback || has_ended_badly);
    Ok(Some(Offer { attempt, files, is_rollback }))
}

impl Driver<'_> {
    /// Writes a step, unless the rollout has changed or another node has the task. Returns whether it is
    /// written.
    async fn write(&self, rollout: &Rollout, step: Step) -> Result<bool, DatabaseError> {
        let (id, stage) = (rollout.id, rollout.stage.to_string());
        let shared: [Parameter<'_>; 4] = [
            (&id, Type::INT8),
            (&stage, Type::TEXT),
            (&self.node, Type::UUID),
            (&self.epoch, Type::INT8),
        ];
        // A paused rollout goes on by no step; it can fail.
        let states = match step {
            Step::Fail(_) => "'running', 'paused'",
            _ => "'running'",
        };
        let sql = |change: &str| {
            format!(
                "UPDATE weir.rollout SET {change} WHERE id = $1 AND stage = $2
                 AND state IN ({states}) AND EXISTS (SELECT FROM weir.task
                     WHERE name = '{TASK}' AND owner = $3 AND epoch = $4 AND until > now())"
            )
        };
        let compared = Json(rollout.compared.clone().unwrap_or_default());
        let compared: Parameter<'_> = (&compared, Type::JSONB);
        let written = match step {
            Step::Wait => 0,
            Step::Next { stage, nodes, counts } => {
                let sql = sql("stage = $5, nodes = $6::text[]::uuid[], counts = $7, since = now()");
                let (stage, counts) = (stage.to_string(), Json(counts));
                let more: [Parameter<'_>; 3] =
                    [(&stage, Type::TEXT), (&nodes, Type::TEXT_ARRAY), (&counts, Type::JSONB)];
                let parameters: Vec<_> = shared.into_iter().chain(more).collect();
                self.connection.execute(&sql, &parameters).await?
            }
            Step::Succeed => {
                let sql = sql("state = 'succeeded', verdict = '', compared = $5");
                let sql = format!(
                    "WITH done AS ({sql} RETURNING id, version)
                     UPDATE weir.fleet SET version = done.version, rollout = done.id,
                         rolled_back = false FROM done"
                );
                let parameters: Vec<_> = shared.into_iter().chain([compared]).collect();
                self.connection.execute(&sql, &parameters).await?
            }
            Step::Fail(verdict) => {
                let sql = sql("state = 'failed', compared = $5, verdict = $6");
                let more = [compared, (&verdict, Type::TEXT)];
                let parameters: Vec<_> = shared.into_iter().chain(more).collect();
                self.connection.execute(&sql, &parameters).await?
            }
        };
        Ok(written > 0)
    }
}
