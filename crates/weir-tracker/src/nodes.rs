//! The nodes of a query over nodes.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The nodes of a fleet that a query was about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Nodes {
    /// Number of nodes that may have transactions.
    pub queried: usize,
    /// Those without a response within the deadline: their transactions are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingNode>,
}

/// A node without a response.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MissingNode {
    /// Id of the node.
    pub id: String,
    /// Display name.
    pub name: String,
    /// Why there is no response.
    pub reason: String,
}

impl Nodes {
    /// A sentence about nodes without a response; `None` without any.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let missing = self.missing.iter().map(|node| format!("{}: {}", node.name, node.reason));
        let missing = missing.collect::<Vec<_>>().join("; ");
        let responded = self.queried.saturating_sub(self.missing.len());
        let queried = self.queried;
        (!missing.is_empty())
            .then(|| format!("{responded} of {queried} nodes responded ({missing})"))
    }
}
