//! The control thread takes versions of the fleet's configuration, as it takes changed files.

use super::super::fleet;
use super::super::versions::VersionEvent;
use super::Control;
use weir_config::VersionChoice;
use weir_config::versions::{Attempt, Files};
use weir_fleet::rollout::Offer;

/// Who reloads, in the history of reloads.
const BY: &str = "fleet";

impl Control {
    /// Handles what has become of a version, or takes another one.
    pub(super) async fn follow_version(&mut self, event: VersionEvent) {
        let result = match event {
            VersionEvent::Offered(Offer { attempt, files: Ok(files), is_rollback }) => {
                self.try_version(attempt, &files, is_rollback).await
            }
            VersionEvent::Offered(Offer { attempt, files: Err(reason), .. }) => {
                self.reloads.refused();
                Err((attempt, reason))
            }
            VersionEvent::Proven => {
                let proven = self.versions.as_mut().map(|versions| versions.proven());
                return self.note_failure(proven);
            }
        };
        let Some(versions) = &mut self.versions else { return };
        let stored = match result {
            Ok(()) => Ok(()),
            Err((attempt, reason)) => {
                let number = attempt.version.unwrap_or_default();
                self.events.note(&format!("version {number} of the fleet is rejected: {reason}"));
                versions.reject(attempt, reason)
            }
        };
        let finished = versions.finish();
        self.note_failure(Some(stored.and(finished)));
    }

    /// Puts a version in force, or leaves everything as it is and says why.
    async fn try_version(
        &mut self,
        attempt: Attempt,
        files: &Files,
        is_rollback: bool,
    ) -> Result<(), (Attempt, String)> {
        let Some(versions) = &mut self.versions else { return Ok(()) };
        // Before the first request that it handles could end the process.
        let started = versions.start(attempt, files, is_rollback);
        let choice = started.map_err(|error| (attempt, format!("it cannot be stored: {error}")))?;
        let folder = match &choice {
            VersionChoice::Folder(folder) => format!("{}/", folder.display()),
            _ => String::new(),
        };
        let (digest, reload) = self.load(BY, choice).await;
        if !reload.taken {
            let state = fleet::configuration_state(&reload);
            let first = state.messages.first().map_or("it is not valid", String::as_str);
            let reason =
                if folder.is_empty() { first.to_owned() } else { first.replace(&folder, "") };
            return Err((attempt, reason));
        }
        self.report_to_fleet(digest, reload);
        Ok(())
    }

    /// An operator reloads: a version that was rejected is tried again.
    pub(super) fn retry_version(&mut self) {
        let retried = self.versions.as_mut().map(|versions| versions.retry());
        self.note_failure(retried);
    }

    fn note_failure(&self, stored: Option<std::io::Result<()>>) {
        if let Some(Err(error)) = stored {
            self.events.note(&format!("the state of the versions cannot be stored: {error}"));
        }
    }
}
