//! Results of searches and exports.

use super::{Field, Summary};
use crate::nodes::{MissingNode, Nodes};
use crate::search::{Cursor, Highlight};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_store::gaps::Gap;

/// The last line of an export.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ExportEnd {
    /// Result of the export.
    pub end: Exported,
}

/// The last line of an export over nodes that has failed: what precedes it is not complete.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ExportFailure {
    /// Where and why.
    pub failed: FailedExport,
}

/// Why an export over nodes has failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailedExport {
    /// Number of transactions up to then.
    pub transactions: u64,
    /// The node whose transactions are missing from there on.
    pub node: MissingNode,
}

/// A line of a tail over nodes that is no transaction: the nodes that respond have changed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TailNodes {
    /// The nodes, and those without a response.
    pub nodes: Nodes,
}

/// A line of a tail that is no transaction: where another tail can continue.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TailPosition {
    /// The cursor.
    pub cursor: String,
}

/// Result of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Exported {
    /// Number of transactions.
    pub transactions: u64,
    /// There are more than the limit.
    pub cut: bool,
    /// The cursor to continue with, if the limit was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// As in [`Page`].
    pub incomplete: bool,
    /// As in [`Page`].
    #[serde(default, skip_serializing_if = "Gap::is_empty")]
    pub missing: Gap,
    /// The nodes that the export is from, in an export over nodes. Transactions of nodes without a response
    /// are missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
}

/// A page of the result of a query, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Page {
    /// The transactions.
    pub transactions: Vec<Hit>,
    /// The cursor of the next page, if there may be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The timeout of the search was reached: continue with the cursor.
    pub cut: bool,
    /// Transactions may be missing: the timeout was reached, parts of the index are being rebuilt,
    /// the index lag is too large to read the rest from the journal, or the query contains a
    /// business key that a part of the index was built without; or a node did not respond.
    pub incomplete: bool,
    /// The query searched payloads.
    pub payload: bool,
    /// Gaps of the period of the query, independent of its other conditions.
    #[serde(default)]
    pub missing: Gap,
    /// The nodes that the page is from, in a query over nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Nodes>,
}

/// A transaction of the result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hit {
    /// The summary.
    #[serde(flatten)]
    pub summary: Summary,
    /// The transaction cannot be read: its file is damaged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub damaged: bool,
    /// The transaction is missing: its file was deleted, but not by weir.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub missing: bool,
    /// Matches of the words of the query.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub highlights: Vec<Highlight>,
    /// Business keys, if they were requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<Field>,
}

impl Hit {
    /// Its position in the order of a page: the cursor of those after it.
    #[must_use]
    pub fn cursor(&self) -> Cursor {
        Cursor::new(self.summary.time.0, self.summary.id.0)
    }
}
