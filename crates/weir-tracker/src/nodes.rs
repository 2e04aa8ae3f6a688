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
    /// The search in a sink in place of these nodes, and of those that have left the fleet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink: Option<SinkSearch>,
}

/// A search in a sink for what nodes without a response have shipped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SinkSearch {
    /// Name of the sink.
    pub name: String,
    /// Display names of the nodes.
    pub nodes: Vec<String>,
    /// Terms of the query that its documents cannot answer: hits match the rest of the query, and
    /// whether they match these is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untranslated: Vec<String>,
    /// Why there is no result: the transactions of these nodes are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl SinkSearch {
    /// A sentence about the search.
    fn note(&self) -> String {
        let Self { name, nodes, untranslated, error } = self;
        let nodes = nodes.join(", ");
        match error {
            Some(error) => format!("sink {name} was not searched for {nodes}: {error}"),
            None if untranslated.is_empty() => {
                format!("what {nodes} shipped was searched in sink {name}")
            }
            None => {
                let terms = untranslated.join(", ");
                format!("what {nodes} shipped was searched in sink {name}, without {terms}")
            }
        }
    }
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
    /// A sentence about nodes without a response, and the search in their place; `None` without any.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let missing = self.missing.iter().map(|node| format!("{}: {}", node.name, node.reason));
        let missing = missing.collect::<Vec<_>>().join("; ");
        let responded = self.queried.saturating_sub(self.missing.len());
        let queried = self.queried;
        let missing = (!missing.is_empty())
            .then(|| format!("{responded} of {queried} nodes responded ({missing})"));
        let notes: Vec<String> =
            missing.into_iter().chain(self.sink.as_ref().map(SinkSearch::note)).collect();
        (!notes.is_empty()).then(|| notes.join("; "))
    }
}
