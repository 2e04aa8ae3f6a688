//! What the configuration in force was made of, and what became of those after it.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_admin::configuration::{
    ConfigurationFile, ConfigurationState, FindingInfo, MOST_RELOADS, Reload,
};
use weir_config::finding::Findings;

/// All that is remembered of it.
pub(super) struct Loaded {
    path: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    files: Vec<ConfigurationFile>,
    /// The newest first.
    reloads: VecDeque<Reload>,
}

impl Loaded {
    /// The first configuration, with the warnings about it.
    pub(super) fn first(path: &Path, found: &Findings) -> Self {
        let loaded = Self { path: path.display().to_string(), state: Mutex::default() };
        loaded.taken("start", found);
        loaded
    }

    /// Another one is in force.
    pub(super) fn taken(&self, by: &str, found: &Findings) -> Reload {
        self.state().files = ConfigurationFile::all(found);
        self.add(Reload { taken: true, findings: FindingInfo::all(found), ..begun(by) })
    }

    /// One was wrong.
    pub(super) fn refused(&self, by: &str, found: &Findings) -> Reload {
        self.add(Reload { findings: FindingInfo::all(found), ..begun(by) })
    }

    /// One was right, but could not be used.
    pub(super) fn failed(&self, by: &str, error: String) -> Reload {
        self.add(Reload { error: Some(error), ..begun(by) })
    }

    /// What is told of it.
    pub(super) fn tell(&self) -> ConfigurationState {
        let state = self.state();
        ConfigurationState {
            path: self.path.clone(),
            files: state.files.clone(),
            reloads: state.reloads.iter().cloned().collect(),
        }
    }

    fn add(&self, reload: Reload) -> Reload {
        let mut state = self.state();
        state.reloads.truncate(MOST_RELOADS - 1);
        state.reloads.push_front(reload.clone());
        reload
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn begun(by: &str) -> Reload {
    Reload { time: jiff::Timestamp::now().to_string(), by: by.to_owned(), ..Reload::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_remembered_and_texts_have_no_secrets() {
        let text = "apis: {a: {base: /, resubmit: {headers: {set: {authorization: \"Bearer hush\"}}}, \
            routes: [{get: /, reply: {text: x}}]}}\n";
        let found = match weir_config::load_text("weir.yaml", text) {
            Ok((_, found)) | Err(found) => found,
        };
        let loaded = Loaded::first(Path::new("weir.yaml"), &found);
        let told = loaded.tell();
        assert!(told.files[0].text.contains("authorization"), "{told:?}");
        assert!(!told.files[0].text.contains("hush"), "{told:?}");
        for number in 0..2 * MOST_RELOADS {
            loaded.failed(&number.to_string(), "no".to_owned());
        }
        let told = loaded.tell();
        assert_eq!(told.reloads.len(), MOST_RELOADS);
        assert_eq!(told.reloads[0].by, (2 * MOST_RELOADS - 1).to_string());
    }
}
