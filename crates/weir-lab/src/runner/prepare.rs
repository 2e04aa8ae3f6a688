//! Runs the commands of `prepare`.

use super::placeholders::{Placeholders, absolute};
use super::process::run_to_end;
use crate::engine::Control;
use crate::scenario::Preparation;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of all servers of a run: `${shared}`. It exists once something is prepared, and is
/// deleted on drop.
#[derive(Debug)]
pub(super) struct SharedFolder(PathBuf);

impl SharedFolder {
    /// A folder within `folder`.
    pub(super) fn new(folder: &Path) -> Self {
        Self(absolute(folder).join("shared"))
    }

    /// Fills the folder by these commands, which run in the folder of the scenario.
    pub(super) fn prepare(
        &self,
        preparations: &[Preparation],
        scenario: &Path,
        control: &Control,
    ) -> Result<(), String> {
        if preparations.is_empty() {
            return Ok(());
        }
        let wrong = |error| format!("{}: {error}", self.0.display());
        std::fs::create_dir_all(&self.0).map_err(wrong)?;
        let scenario = absolute(scenario);
        let names = Placeholders {
            shared: Some(self.path()),
            folder: Some(&scenario),
            ..Placeholders::default()
        };
        run(preparations, &names, &scenario, control)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for SharedFolder {
    fn drop(&mut self) {
        // It exists only if there is something to prepare.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs commands in `folder`, one after the other.
pub(super) fn run(
    preparations: &[Preparation],
    names: &Placeholders<'_>,
    folder: &Path,
    control: &Control,
) -> Result<(), String> {
    for Preparation { command, timeout } in preparations {
        let mut words = command.iter().map(|word| names.fill(word));
        let program = words.next().ok_or_else(|| "its command is empty".to_owned())?;
        let mut command = Command::new(program);
        command.args(words).current_dir(folder);
        run_to_end(command, *timeout, control).map_err(|why| format!("`prepare`: {why}"))?;
    }
    Ok(())
}
