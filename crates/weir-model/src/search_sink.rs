//! Sinks of transactions: OpenSearch, where they are searched.

use crate::UpstreamId;
use std::time::Duration;
use strum::{EnumString, VariantNames};

/// What a sink receives of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "lowercase")]
pub enum Content {
    /// Metadata and business keys.
    #[default]
    Keys,
    /// Also headers and bodies, and their words.
    Payload,
}

/// A sink of transactions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchSink {
    /// Name, a part of the names of its indexes and of its follower of the journal: 1 to 32
    /// lower-case letters, digits and hyphens.
    pub name: String,
    /// The upstream; its targets are nodes of OpenSearch.
    pub upstream: UpstreamId,
    /// What it receives.
    pub content: Content,
    /// Share of the disk of the journal that may hold transactions for this sink, in hundredths of a
    /// percent.
    pub max_backlog: u32,
    /// Retention of indexes of completed transactions.
    pub keep_completed: Duration,
    /// Retention of indexes of failed and interrupted transactions.
    pub keep_failed: Duration,
}
