//! The history of the configuration: which one was in force since when.

use super::messages::Messages;
use std::path::Path;
use std::sync::Arc;
use weir_admin::configuration::kept;
use weir_document::finding::Findings;
use weir_gateway::digest::ConfigurationDigest;
use weir_store::configurations::Configurations;

/// The history, and messages about what could not be written.
#[derive(Clone)]
pub(super) struct History {
    pub(super) kept: Arc<Configurations>,
    messages: Messages,
}

/// Who has put a configuration in force: the trigger, and the version of the fleet.
pub(super) type Origin<'a> = (&'a str, Option<i64>);

impl History {
    /// Opens the history of a data folder. If this fails, there is none.
    pub(super) fn open(data: &Path, messages: &Messages) -> Option<Self> {
        let failed =
            |error: &_| messages.err(format!("weir: no history of the configuration: {error}"));
        let kept = Arc::new(Configurations::open(data).inspect_err(failed).ok()?);
        Some(Self { kept, messages: messages.clone() })
    }

    /// Adds a configuration that is in force now. Blocks.
    pub(super) fn add(
        &self,
        (by, version): Origin<'_>,
        digest: &ConfigurationDigest,
        found: &Findings,
    ) {
        let (entry, files) = kept(by, version, digest, found);
        if let Err(error) = self.kept.add(&entry, files) {
            let text = format!("weir: the configuration is not in its history: {error}");
            self.messages.err(text);
        }
    }
}
