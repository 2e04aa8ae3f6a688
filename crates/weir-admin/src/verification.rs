//! Verification of replicated usage by all nodes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_fleet::verify::UsageVerification;
use weir_tracker::document::MissingNode;

/// Usage of all nodes, compared with the database of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FleetVerification {
    /// Nodes that have compared their counts, by name.
    pub nodes: Vec<UsageVerification>,
    /// Nodes that have not: they are down, or have not responded.
    pub unverified: Vec<MissingNode>,
}
