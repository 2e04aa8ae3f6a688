//! Texts of the configuration in force, and past reloads.

use super::{ConfigurationFile, ConfigurationState, FindingInfo, MAX_RELOADS, Reload};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_document::finding::Findings;

/// The configuration in force and the last reloads.
pub struct ReloadHistory(Mutex<ConfigurationState>);

impl ReloadHistory {
    /// The configuration of the start, with its warnings.
    #[must_use]
    pub fn new(path: &Path, found: &Findings) -> Self {
        let path = path.display().to_string();
        let history = Self(Mutex::new(ConfigurationState { path, ..Default::default() }));
        history.applied("start", found);
        history
    }

    /// Another configuration is in force.
    pub fn applied(&self, by: &str, found: &Findings) -> Reload {
        self.lock().files = ConfigurationFile::all(found);
        self.add(Reload { taken: true, findings: FindingInfo::all(found), ..reload(by) })
    }

    /// A configuration with errors was rejected.
    pub fn rejected(&self, by: &str, found: &Findings) -> Reload {
        self.add(Reload { findings: FindingInfo::all(found), ..reload(by) })
    }

    /// A configuration without errors could not be applied.
    pub fn failed(&self, by: &str, error: String) -> Reload {
        self.add(Reload { error: Some(error), ..reload(by) })
    }

    pub(crate) fn state(&self) -> ConfigurationState {
        self.lock().clone()
    }

    /// Whether the last load changed nothing.
    pub(crate) fn is_rejected(&self) -> bool {
        self.lock().reloads.first().is_some_and(|reload| !reload.taken)
    }

    fn add(&self, reload: Reload) -> Reload {
        let reloads = &mut self.lock().reloads;
        reloads.truncate(MAX_RELOADS - 1);
        reloads.insert(0, reload.clone());
        reload
    }

    fn lock(&self) -> MutexGuard<'_, ConfigurationState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn reload(by: &str) -> Reload {
    Reload { time: jiff::Timestamp::now().to_string(), by: by.to_owned(), ..Reload::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_history_is_bounded_and_texts_have_no_secrets() {
        let text = "apis: {a: {base: /, resubmit: {headers: {set: {authorization: \"Bearer hush\"}}}, \
            routes: [{get: /, reply: {text: x}}]}}\n";
        let found = match weir_config::load_text("weir.yaml", text).finish() {
            Ok((_, found)) | Err(found) => found,
        };
        let history = ReloadHistory::new(Path::new("weir.yaml"), &found);
        let state = history.state();
        assert!(state.files[0].text.contains("authorization"), "{state:?}");
        assert!(!state.files[0].text.contains("hush"), "{state:?}");
        for number in 0..2 * MAX_RELOADS {
            history.failed(&number.to_string(), "no".to_owned());
        }
        let state = history.state();
        assert_eq!(state.reloads.len(), MAX_RELOADS);
        assert_eq!(state.reloads[0].by, (2 * MAX_RELOADS - 1).to_string());
    }
}
