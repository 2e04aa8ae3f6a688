//! What a rollout does next, from what the nodes report.

use crate::status::{NodeState, NodeStatus};
use crate::versions::{Calls, Comparison, NodeVersion, Rollout, RolloutState, Stage};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Calls below which a share of errors says nothing.
const MIN_CALLS: u64 = 200;
/// By how much the share of errors of a node may exceed that of the others.
const MAX_EXCESS: f64 = 0.01;
/// Time after the end of a stage, or of a lease, in which a node may still come back, in seconds.
const GRACE: f64 = 10.0;

/// The counts of a node at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeCounts {
    /// Counts begin at 0 with each boot.
    boot: i64,
    calls: Calls,
}

/// The counts of the nodes at the begin of a stage, by their ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    #[serde(default)]
    nodes: BTreeMap<String, NodeCounts>,
    /// Of nodes without the version, when there are no such nodes any more.
    #[serde(default)]
    before: Calls,
}

/// What a rollout does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Wait,
    Next { stage: Stage, nodes: Vec<String>, counts: Counts },
    Succeed,
    Fail(String),
}

impl Counts {
    /// The counts at the start of a rollout: before it, all nodes are without the version.
    pub(crate) fn at_start(nodes: &[NodeStatus]) -> Self {
        let before =
            live(nodes).map(|(_, report)| calls(report)).fold(Calls::default(), Calls::plus);
        Self { before, ..Self::now(nodes) }
    }

    fn now(nodes: &[NodeStatus]) -> Self {
        let counts = |(node, report): (&NodeStatus, &NodeVersion)| {
            (node.id.clone(), NodeCounts { boot: node.boot, calls: calls(report) })
        };
        Self { nodes: live(nodes).map(counts).collect(), ..Self::default() }
    }

    /// The calls of a node since then.
    fn since(&self, node: &NodeStatus, report: &NodeVersion) -> Calls {
        let then = self.nodes.get(&node.id).filter(|then| then.boot == node.boot);
        then.map_or(calls(report), |then| calls(report).minus(then.calls))
    }

    /// The calls of nodes that are not in the stage, or of those before it.
    fn reference(&self, rollout: &Rollout, nodes: &[NodeStatus]) -> Calls {
        let others = live(nodes).filter(|(node, _)| !rollout.nodes.contains(&node.id));
        let others = others.map(|(node, report)| self.since(node, report));
        let others = others.fold(Calls::default(), Calls::plus);
        if others.calls == 0 { self.before } else { others }
    }
}

fn calls(report: &NodeVersion) -> Calls {
    Calls { calls: report.calls, errors: report.errors }
}

/// Live nodes that take versions, by name.
fn live(nodes: &[NodeStatus]) -> impl Iterator<Item = (&NodeStatus, &NodeVersion)> {
    let is_live = |node: &&NodeStatus| node.state == NodeState::Live;
    nodes.iter().filter(is_live).filter_map(|node| Some((node, node.in_force.as_ref()?)))
}

/// The id of the first node of a rollout: not the one that drives it, if there is another one, so that a
/// crash is noticed at once.
pub(crate) fn first(nodes: &[NodeStatus], driver: &str) -> Option<String> {
    let other = live(nodes).find(|(node, _)| node.id != driver);
    other.or_else(|| live(nodes).next()).map(|(node, _)| node.id.clone())
}

/// The calls that [`judge`] compares.
pub(crate) fn compare(rollout: &Rollout, counts: &Counts, nodes: &[NodeStatus]) -> Comparison {
    let own = live(nodes).filter(|(node, _)| rollout.nodes.contains(&node.id));
    let own = own.map(|(node, report)| (node.id.clone(), counts.since(node, report)));
    Comparison { nodes: own.collect(), others: counts.reference(rollout, nodes) }
}

/// Judges a rollout whose stages last `stage`. The node that judges is connected to the database since
/// `watched`: what was before says nothing about other nodes, the database may have been down.
pub(crate) fn judge(
    rollout: &Rollout,
    counts: &Counts,
    nodes: &[NodeStatus],
    (stage, watched): (Duration, Duration),
) -> Step {
    let watched = watched.as_secs_f64();
    let reference = counts.reference(rollout, nodes);
    let over = (rollout.stage_seconds - stage.as_secs_f64()).min(watched);
    let mut is_complete = over >= 0.0;
    for id in &rollout.nodes {
        let Some(node) = nodes.iter().find(|node| node.id == *id) else {
            return Step::Fail(format!("node {id} is not a member any more"));
        };
        let silent = node.silent_seconds.min(watched);
        if let Some(reason) = failure(rollout, (node, silent), counts, reference) {
            return Step::Fail(format!("{} {reason}", node.name));
        }
        match missing(rollout, node) {
            Some(reason) if over >= GRACE => {
                return Step::Fail(format!("{} {reason}", node.name));
            }
            // The state after the end of the stage, not the last one before.
            None if node.silent_seconds < over => {}
            _ => is_complete = false,
        }
    }
    if !is_complete || rollout.state == RolloutState::Paused {
        return Step::Wait;
    }
    next(rollout, Counts { before: reference, ..Counts::now(nodes) }, nodes)
}

/// Why a node ends the rollout at once.
fn failure(
    rollout: &Rollout,
    (node, silent): (&NodeStatus, f64),
    counts: &Counts,
    reference: Calls,
) -> Option<String> {
    match node.state {
        NodeState::Retired | NodeState::Lost => return Some("was retired".to_owned()),
        NodeState::Down if silent >= GRACE => {
            return Some(format!("has sent no heartbeat for {silent:.0} s"));
        }
        NodeState::Live | NodeState::Draining | NodeState::Down => {}
    }
    let report = node.in_force.as_ref()?;
    if let Some(rejected) = report.rejected.as_ref().filter(|one| one.rollout == rollout.id) {
        return Some(format!("rejected it: {}", rejected.reason));
    }
    let own = counts.since(node, report);
    (own.calls >= MIN_CALLS && own.share() > reference.share() + MAX_EXCESS).then(|| {
        format!(
            "responded with 5xx to {} of {} calls ({:.1} %), the other nodes to {:.1} %",
            own.errors,
            own.calls,
            own.share() * 100.0,
            reference.share() * 100.0
        )
    })
}

/// What a node lacks at the end of a stage.
fn missing(rollout: &Rollout, node: &NodeStatus) -> Option<&'static str> {
    match &node.in_force {
        None => Some("does not take versions"),
        Some(report) if report.version != rollout.version => Some("has not taken it in time"),
        Some(report) if !report.ready => Some("is not ready"),
        Some(_) => (node.state != NodeState::Live).then_some("is not live"),
    }
}

fn next(rollout: &Rollout, counts: Counts, nodes: &[NodeStatus]) -> Step {
    let mut chosen = rollout.nodes.clone();
    let others: Vec<String> =
        live(nodes).map(|(node, _)| node.id.clone()).filter(|id| !chosen.contains(id)).collect();
    let tenth = (chosen.len() + others.len()).div_ceil(10);
    match rollout.stage {
        Stage::All => return Step::Succeed,
        _ if others.is_empty() => return Step::Succeed,
        Stage::One if tenth > chosen.len() => {
            let count = tenth - chosen.len();
            chosen.extend(others.into_iter().take(count));
            return Step::Next { stage: Stage::Tenth, nodes: chosen, counts };
        }
        Stage::One | Stage::Tenth => chosen.extend(others),
    }
    Step::Next { stage: Stage::All, nodes: chosen, counts }
}

#[cfg(test)]
mod tests;
