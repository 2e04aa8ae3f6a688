//! Versions of the configuration and their rollouts, as the admin API, the commands and the console show
//! them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use strum::{Display, EnumString};
use utoipa::ToSchema;
use uuid::Uuid;
use weir_config::versions::Attempt;
use weir_model::UnixSeconds;

/// A version of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ConfigurationVersion)]
pub struct Version {
    /// Number, from 1.
    pub number: i64,
    /// SHA-256 of its files.
    pub digest: String,
    /// The lowest version of weir that may try it.
    pub min_weir: String,
    /// Name of the token that pushed it.
    pub by: String,
    /// Comment.
    pub comment: String,
    /// Time of the push (RFC 3339, UTC).
    #[schema(value_type = String)]
    pub time: UnixSeconds,
}

/// The versions of a fleet as one node knows them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FleetVersions {
    /// The version of nodes that no rollout concerns; absent: the own files alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// The rollout that has set it.
    #[serde(skip)]
    pub(crate) rollout_of_version: i64,
    /// An operator has rolled back to it.
    #[serde(skip)]
    pub(crate) is_rollback: bool,
    /// The latest rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
}

/// A rollout of a version.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rollout {
    /// Number of the rollout.
    pub id: i64,
    /// The version; absent: the own files alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// The version before, which a rollback restores; absent: the own files alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<i64>,
    /// Stage.
    pub stage: Stage,
    /// State.
    pub state: RolloutState,
    /// Ids of the nodes that try the version; in the stage `all` every node does.
    pub nodes: Vec<String>,
    /// Seconds since the begin of the stage.
    pub stage_seconds: f64,
    /// What the verdict compares: since the begin of the stage, or at the end of the rollout. Absent after an
    /// abort or a rollback by an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<Comparison>,
    /// Why it has ended; names the node that failed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub verdict: String,
    /// Name of the token that started it.
    pub by: String,
    /// Time of the start (RFC 3339, UTC).
    #[schema(value_type = String)]
    pub time: UnixSeconds,
}

/// Calls of the nodes of a rollout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RolloutComparison)]
pub struct Comparison {
    /// Those of each node that tries the version, by its id.
    pub nodes: BTreeMap<String, Calls>,
    /// Those of all other nodes, or of all nodes before if there is no other one.
    pub others: Calls,
}

/// Calls and those of them with a response of 500 and above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ComparedCalls)]
pub struct Calls {
    /// Calls.
    pub calls: u64,
    /// Those with a response of 500 and above.
    pub errors: u64,
}

/// Stage of a rollout.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    ToSchema,
    Display,
    EnumString,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
#[schema(as = RolloutStage)]
pub enum Stage {
    /// One node.
    #[default]
    One,
    /// A tenth of the nodes.
    Tenth,
    /// All nodes.
    All,
}

/// State of a rollout.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    ToSchema,
    Display,
    EnumString,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum RolloutState {
    /// Goes on.
    #[default]
    Running,
    /// Stays in its stage.
    Paused,
    /// All nodes have the version.
    Succeeded,
    /// A node has failed: all nodes have the version before.
    Failed,
    /// Ended by an operator: all nodes have the version before.
    Aborted,
}

/// What a node says about its version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeVersion {
    /// The version in force; absent: the own files alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// The last version that it did not take, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Rejected>,
    /// The node is ready for traffic.
    pub ready: bool,
    /// Responses since its start.
    pub calls: u64,
    /// Responses with a status of 500 and above since its start.
    pub errors: u64,
}

/// A version that a node did not take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = RejectedVersion)]
pub struct Rejected {
    /// The version.
    pub version: Option<i64>,
    /// The rollout that demanded it.
    pub rollout: i64,
    /// Why.
    pub reason: String,
}

/// A version; `none` for the own files alone.
#[must_use]
pub fn shown(version: Option<i64>) -> String {
    version.map_or_else(|| "none".to_owned(), |version| version.to_string())
}

impl Calls {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { calls: self.calls + other.calls, errors: self.errors + other.errors }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self {
            calls: self.calls.saturating_sub(other.calls),
            errors: self.errors.saturating_sub(other.errors),
        }
    }

    /// The share of errors, from 0 to 1.
    #[must_use]
    pub fn share(self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.errors as f64 / self.calls as f64 }
    }
}

impl Rollout {
    /// Whether it has not ended.
    #[must_use]
    pub fn is_active(&self) -> bool {
        matches!(self.state, RolloutState::Running | RolloutState::Paused)
    }
}

impl FleetVersions {
    /// Whether a rollout is active.
    pub(crate) fn is_rolling(&self) -> bool {
        self.rollout.as_ref().is_some_and(Rollout::is_active)
    }

    /// The version that a node is to have.
    pub(crate) fn target(&self, node: Uuid) -> Attempt {
        let active = self.rollout.as_ref().filter(|rollout| rollout.is_active());
        let concerns =
            |one: &&Rollout| one.stage == Stage::All || one.nodes.contains(&node.to_string());
        match active.filter(concerns) {
            Some(rollout) => Attempt { version: rollout.version, rollout: rollout.id },
            None => Attempt { version: self.version, rollout: self.rollout_of_version },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_the_version_of_the_rollout_in_whose_stage_it_is() {
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let rollout =
            Rollout { id: 9, version: Some(4), nodes: vec![one.to_string()], ..Rollout::default() };
        let mut versions = FleetVersions {
            version: Some(3),
            rollout_of_version: 8,
            is_rollback: false,
            rollout: Some(rollout),
        };
        assert_eq!(versions.target(one), Attempt { version: Some(4), rollout: 9 });
        assert_eq!(versions.target(two), Attempt { version: Some(3), rollout: 8 });
        versions.rollout.as_mut().unwrap().stage = Stage::All;
        assert_eq!(versions.target(two).version, Some(4));
        versions.rollout.as_mut().unwrap().state = RolloutState::Failed;
        assert_eq!(versions.target(one), Attempt { version: Some(3), rollout: 8 });
    }
}
