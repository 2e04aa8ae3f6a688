//! The state of the fleet, as the admin API, the commands and the console show it.

use crate::versions::{FleetVersions, NodeVersion, RolloutState, shown};
use serde::{Deserialize, Serialize};
use strum::{Display, EnumString};
use utoipa::ToSchema;
use weir_model::UnixSeconds;

/// Most findings of a configuration that a node reports.
pub const MAX_FINDINGS: usize = 20;

/// The state of the fleet as one node knows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FleetStatus {
    /// Name of the fleet.
    pub fleet: String,
    /// Id of the node that reports.
    pub node: String,
    /// The shared database.
    pub postgres: PostgresStatus,
    /// Redis, while tokens of rates are leased from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redis: Option<RedisStatus>,
    /// Time of the last successful heartbeat of this node (RFC 3339, UTC); the nodes are as of then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub heartbeat: Option<UnixSeconds>,
    /// Nodes by name.
    pub nodes: Vec<NodeStatus>,
    /// Versions of the configuration, with `source: fleet`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<FleetVersions>,
    /// Problems of the fleet.
    pub findings: Vec<FleetFinding>,
}

/// The shared database as one node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PostgresStatus {
    /// The node is connected and registered.
    pub up: bool,
    /// Role, servers and database.
    pub at: String,
    /// Version of the server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Why the database is not in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Redis as one node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RedisStatus {
    /// Tokens are leased from it; otherwise `fleet.rates.on_outage` decides.
    pub up: bool,
    /// Server and database.
    pub at: String,
    /// Why it is not in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A node of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeStatus {
    /// Id of the node, from its data folder.
    pub id: String,
    /// Display name.
    pub name: String,
    /// State.
    pub state: NodeState,
    /// Number of its starts as a member.
    pub boot: i64,
    /// Version of weir.
    pub version: String,
    /// Digest of the configuration in force.
    pub digest: String,
    /// The last load of the configuration.
    pub configuration: ConfigurationState,
    /// Clock of the node minus clock of the database, in milliseconds.
    pub offset_ms: i64,
    /// Time of its last heartbeat (RFC 3339, UTC).
    #[schema(value_type = String)]
    pub seen: UnixSeconds,
    /// Seconds since its last heartbeat.
    pub silent_seconds: f64,
    /// URL of its admin listener for other nodes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub advertise: String,
    /// Its version of the configuration; absent with `source: files`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_force: Option<NodeVersion>,
}

/// State of a node.
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
pub enum NodeState {
    /// Serves.
    Live,
    /// Ends: requests in flight complete.
    Draining,
    /// Has not renewed its lease.
    #[default]
    Down,
    /// Has left the fleet, and has reported everything.
    Retired,
    /// Has left the fleet without its data.
    Lost,
}

/// The last load of a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = NodeConfiguration)]
pub struct ConfigurationState {
    /// Time of the load (RFC 3339, UTC).
    pub time: String,
    /// The configuration was put in force; otherwise the previous one stayed in force.
    pub taken: bool,
    /// Number of findings.
    pub findings: usize,
    /// The first findings, each in one line, at most 20.
    pub messages: Vec<String>,
}

/// A problem of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FleetFinding {
    /// Stable code.
    pub code: String,
    /// The message.
    pub message: String,
}

/// The time for which a difference of configurations is no finding: a rollout takes a while.
pub(crate) const DRIFT_SECONDS: u64 = 60;
/// The offset of a clock from which on it is a finding, in milliseconds.
const MAX_OFFSET_MS: u64 = 1000;

/// Whether nodes that serve differ in their configuration.
pub(crate) fn differs(nodes: &[NodeStatus]) -> bool {
    let mut digests = nodes.iter().filter(|node| node.state == NodeState::Live).map(|n| &n.digest);
    digests.next().is_some_and(|first| digests.any(|other| other != first))
}

/// The findings about nodes; `drift` if their configurations have differed for too long.
pub(crate) fn findings(nodes: &[NodeStatus], drift: bool) -> Vec<FleetFinding> {
    let mut found = Vec::new();
    let mut add = |code: &str, message: String| {
        found.push(FleetFinding { code: code.to_owned(), message });
    };
    if drift {
        add("configuration-drift", drift_message(nodes));
    }
    for node in nodes {
        let NodeStatus { name, state, offset_ms, silent_seconds, configuration, .. } = node;
        if *state == NodeState::Down {
            let message = format!(
                "{name} has sent no heartbeat for {silent_seconds:.0} s; if it does not come back: \
                 weir fleet retire {}",
                node.id
            );
            add("node-down", message);
        }
        if !matches!(state, NodeState::Live | NodeState::Draining) {
            continue;
        }
        if offset_ms.unsigned_abs() > MAX_OFFSET_MS {
            let message = format!(
                "the clock of {name} is {offset_ms} ms from that of the database: synchronize both"
            );
            add("clock-offset", message);
        }
        if !configuration.taken && !configuration.time.is_empty() {
            let first = configuration.messages.first().map_or("", String::as_str);
            add(
                "configuration-rejected",
                format!("{name} has rejected its configuration: {first}"),
            );
        }
    }
    found
}

/// The findings about versions: the last rollout has failed, or a node does not take the version of the
/// fleet.
pub(crate) fn version_findings(
    versions: &FleetVersions,
    nodes: &[NodeStatus],
) -> Vec<FleetFinding> {
    let mut found = Vec::new();
    let failed = versions.rollout.as_ref().filter(|one| one.state == RolloutState::Failed);
    if let Some(rollout) = failed {
        let (version, base) = (shown(rollout.version), shown(rollout.base));
        let message = format!(
            "the rollout of version {version} was rolled back to {base}: {}",
            rollout.verdict
        );
        found.push(FleetFinding { code: "rollout-failed".to_owned(), message });
    }
    for node in nodes.iter().filter(|node| node.state == NodeState::Live) {
        let rejected = node.in_force.as_ref().and_then(|report| report.rejected.as_ref());
        let is_of_fleet = |version| version == versions.version;
        if let Some(rejected) = rejected.filter(|one| is_of_fleet(one.version))
            && node.in_force.as_ref().is_some_and(|report| !is_of_fleet(report.version))
        {
            let (name, version) = (&node.name, shown(rejected.version));
            let message = format!("{name} has rejected version {version}: {}", rejected.reason);
            found.push(FleetFinding { code: "version-rejected".to_owned(), message });
        }
    }
    found
}

/// The digests of the nodes that serve, each with its nodes.
fn drift_message(nodes: &[NodeStatus]) -> String {
    let mut groups: std::collections::BTreeMap<&str, Vec<String>> = Default::default();
    for node in nodes.iter().filter(|node| node.state == NodeState::Live) {
        let version = node.in_force.as_ref().map(|report| format!(" ({})", shown(report.version)));
        let name = format!("{}{}", node.name, version.unwrap_or_default());
        groups.entry(&node.digest).or_default().push(name);
    }
    let groups = groups.iter().map(|(digest, names)| {
        let short = digest.get(..12).unwrap_or(digest);
        format!("{short} on {}", names.join(", "))
    });
    let groups = groups.collect::<Vec<_>>().join("; ");
    format!("nodes have different configurations: {groups}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::versions::{Rejected, Rollout};

    fn node(name: &str, state: NodeState, digest: &str) -> NodeStatus {
        let configuration = ConfigurationState {
            time: "2026-11-26T00:00:00Z".to_owned(),
            taken: true,
            ..ConfigurationState::default()
        };
        NodeStatus {
            id: format!("id-of-{name}"),
            name: name.to_owned(),
            state,
            digest: digest.to_owned(),
            configuration,
            ..NodeStatus::default()
        }
    }

    fn codes(nodes: &[NodeStatus], drift: bool) -> Vec<String> {
        findings(nodes, drift).into_iter().map(|finding| finding.code).collect()
    }

    #[test]
    fn only_nodes_that_serve_can_differ() {
        let mut nodes = vec![node("a", NodeState::Live, "1"), node("b", NodeState::Down, "2")];
        assert!(!differs(&nodes) && !differs(&[]));
        nodes.push(node("c", NodeState::Live, "2"));
        assert!(differs(&nodes));
        let found = findings(&nodes, true);
        assert!(found[0].message.contains("1 on a; 2 on c"), "{found:?}");
    }

    #[test]
    fn findings_name_the_nodes_that_do_not_have_the_version_of_the_fleet() {
        let mut nodes = vec![node("a", NodeState::Live, "1"), node("b", NodeState::Live, "2")];
        for (node, version) in nodes.iter_mut().zip([3, 2]) {
            node.in_force = Some(NodeVersion { version: Some(version), ..NodeVersion::default() });
        }
        assert!(findings(&nodes, true)[0].message.contains("1 on a (3); 2 on b (2)"));
        let rejected = Rejected { version: Some(3), rollout: 7, reason: "no a.pass".to_owned() };
        nodes[1].in_force.as_mut().unwrap().rejected = Some(rejected);
        let mut versions = FleetVersions { version: Some(3), ..FleetVersions::default() };
        let found = version_findings(&versions, &nodes);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].message, "b has rejected version 3: no a.pass");
        // One that it has rejected before is no problem any more.
        nodes[1].in_force.as_mut().unwrap().version = Some(3);
        assert!(version_findings(&versions, &nodes).is_empty());
        let failed = Rollout {
            version: Some(4),
            base: Some(3),
            state: RolloutState::Failed,
            verdict: "b is not ready".to_owned(),
            ..Rollout::default()
        };
        versions.rollout = Some(failed);
        let found = version_findings(&versions, &nodes);
        assert_eq!(found[0].code, "rollout-failed");
        assert!(found[0].message.contains("version 4 was rolled back to 3: b is not ready"));
    }

    #[test]
    fn nodes_that_are_down_wrong_in_time_or_rejected_their_configuration_are_findings() {
        let mut nodes = vec![
            node("a", NodeState::Down, "1"),
            node("b", NodeState::Live, "1"),
            node("c", NodeState::Retired, "1"),
            node("d", NodeState::Draining, "1"),
        ];
        nodes[1].offset_ms = -1001;
        nodes[2].offset_ms = 99_999;
        nodes[3].configuration.taken = false;
        let expected = ["node-down", "clock-offset", "configuration-rejected"];
        assert_eq!(codes(&nodes, false), expected);
        assert!(findings(&nodes, false)[0].message.contains("weir fleet retire id-of-a"));
    }
}
