//! `weir check`: findings of a configuration.

use crate::exit::Exit;
use crate::source::SourceArgs;
use crate::{findings, output};
use serde_json::json;

/// Arguments of `weir check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Reads files and environment like `serve`; opens no socket.\n\n\
    Exit codes:\n  0  valid (warnings are printed)\n  2  errors found\n\n\
    Examples:\n  weir check\n  weir check /etc/weir --json\n  weir check --set workers=1 weir.yaml")]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// Print one JSON object: {"ok": …, "findings": […]}
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let loaded = weir_gateway::configuration::load(&args.source.source());
    let (config, found) = match &loaded {
        Ok(loaded) => (Some(&loaded.config), &loaded.findings),
        Err(found) => (None, found),
    };
    if args.json {
        output::line(
            &json!({"ok": config.is_some(), "findings": findings::to_json(found)}).to_string(),
        );
    } else {
        findings::print(found);
        let path = args.source.path.display();
        match config {
            Some(config) => {
                let routes = config.apis.iter().map(|api| api.routes.len()).sum();
                let (apis, routes) =
                    (findings::count(config.apis.len(), "API"), findings::count(routes, "route"));
                output::line(&format!("{path}: valid, {apis}, {routes}"));
            }
            None => output::note(&format!("{path}: {}", findings::summary(found))),
        }
    }
    Ok(if config.is_some() { Exit::Success } else { Exit::Findings })
}
