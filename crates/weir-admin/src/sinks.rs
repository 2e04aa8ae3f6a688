//! Sinks of transactions as documents of the admin API.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_model::UnixMicros;
use weir_model::search_sink::Content;
use weir_ship::{BackfillProgress, SinkKind, SinkLag, SinkState};
use weir_tracker::document::MissingNode;

/// The sinks of several nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SinkLists {
    /// Nodes that have responded.
    pub nodes: Vec<NodeSinks>,
    /// Nodes that have not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<MissingNode>,
}

/// The sinks of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeSinks {
    /// Name of the node; empty without a fleet.
    #[serde(default)]
    pub node: String,
    /// Its sinks by name.
    pub sinks: Vec<SinkView>,
}

/// A sink of transactions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SinkView {
    /// Name.
    pub name: String,
    /// What it is.
    pub kind: SinkKind,
    /// What it receives: `keys` or `payload`.
    pub content: String,
    /// What it has not acknowledged.
    pub lag: SinkLag,
    /// Documents that it has acknowledged since the start.
    pub docs: u64,
    /// Documents that it has rejected since the start.
    pub rejected: u64,
    /// Rejected documents that are not listed any more.
    pub rejected_dropped: u64,
    /// Records in gaps that were found since the start.
    pub gap_records: u64,
    /// Requests that failed and were repeated.
    pub retries: u64,
    /// Why nothing is sent until an operator has changed something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<String>,
    /// The last backfill since the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backfill: Option<BackfillProgress>,
}

impl SinkView {
    pub(crate) fn new(name: String, state: SinkState, lag: SinkLag) -> Self {
        let SinkState { kind, content, statistics, backfill } = state;
        let content = match content {
            Content::Keys => "keys",
            Content::Payload => "payload",
        };
        Self {
            name,
            kind,
            content: content.to_owned(),
            lag,
            docs: statistics.docs,
            rejected: statistics.rejected,
            rejected_dropped: statistics.rejected_dropped,
            gap_records: statistics.gap_records,
            retries: statistics.retries,
            paused: statistics.paused,
            backfill,
        }
    }
}

/// What a backfill sends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BackfillBody {
    /// Transactions received from this time on (RFC 3339).
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<UnixMicros>,
    /// Transactions received before this time.
    #[schema(value_type = Option<String>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<UnixMicros>,
    /// Everything that the journal has, not only what is in gaps: for an index that was lost.
    pub all: bool,
}
