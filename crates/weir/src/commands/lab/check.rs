//! `weir lab check`: findings of a scenario.

use crate::exit::Exit;
use crate::{findings, output};
use serde_json::json;
use std::path::PathBuf;
use weir_lab::scenario;

/// Arguments of `weir lab check`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Reads the files of the scenario and creates its tokens; opens no socket.\n\n\
    Exit codes:\n  0  valid (warnings are printed)\n  2  errors found\n\n\
    Examples:\n  weir lab check scenario.yaml\n  weir lab check --json scenario.yaml"
)]
pub(crate) struct Args {
    /// Scenario file
    file: PathBuf,
    /// Print one JSON object: {"ok": …, "findings": […]}
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let loaded = scenario::load(&args.file, &scenario::Overrides::default());
    let (scenario, found) = match &loaded {
        Ok((scenario, found)) => (Some(scenario), found),
        Err(found) => (None, found),
    };
    if args.json {
        let ok = scenario.is_some();
        output::line(&json!({"ok": ok, "findings": findings::to_json(found)}).to_string());
    } else {
        findings::print(found);
        let path = args.file.display();
        match scenario {
            Some(scenario) => {
                output::line(&format!(
                    "{path}: valid, {}",
                    findings::count(scenario.cells.len(), "cell")
                ));
                for name in scenario.cells.iter().map(scenario::Cell::name) {
                    if !name.is_empty() {
                        output::line(&format!("  {name}"));
                    }
                }
            }
            None => output::note(&format!("{path}: {}", findings::summary(found))),
        }
    }
    Ok(if scenario.is_some() { Exit::Success } else { Exit::Findings })
}
