//! `weir reload`: the running weir takes its changed configuration.

use super::server_args::ServerArgs;
use crate::exit::Exit;
use crate::{escape, findings, output};
use serde_json::json;
use weir_admin::configuration::{FindingInfo, Reload};

/// Arguments of `weir reload`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
weir reloads changed files by itself, and on SIGHUP; this command reports the result. The new configuration
replaces the old one completely, or not at all. Requires the role admin.

Exit codes:
  0  the configuration is in force
  1  it is valid but could not be applied, or weir was not reached
  2  it has errors, or needs a restart; the previous one stays in force

Examples:
  weir reload
  weir reload --config /etc/weir/weir.yaml
  weir reload --context production --json")]
pub(crate) struct Args {
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    // The address of the admin listener is in the configuration, which may have the errors.
    let config = args.server.config();
    if !args.server.is_selected()? && config.exists() {
        let source = weir_config::Source { path: config.to_owned(), ..Default::default() };
        if findings::accepted(weir_gateway::configuration::load(&source)).is_none() {
            output::error(&format!(
                "{} has errors; the previous configuration stays in force",
                config.display()
            ));
            return Ok(Exit::Findings);
        }
    }
    let reload: Reload = args.server.client()?.post("/v1/configuration/reload", &json!({}))?;
    if args.json {
        output::json(&reload)?;
    } else {
        reload.findings.iter().for_each(print);
    }
    match (&reload.error, reload.taken) {
        (Some(error), _) => output::error(&format!(
            "the configuration could not be applied: {}; the previous one stays in force",
            escape::line(error)
        )),
        (None, false) => output::error("the previous configuration stays in force"),
        (None, true) if !args.json => output::line("the configuration is in force"),
        (None, true) => {}
    }
    Ok(match (reload.error, reload.taken) {
        (Some(_), _) => Exit::Failure,
        (None, false) => Exit::Findings,
        (None, true) => Exit::Success,
    })
}

/// `error[code]: message`, its location and the remedy.
pub(super) fn print(finding: &FindingInfo) {
    let severity = if finding.error { "error" } else { "warning" };
    let FindingInfo { code, file, line, column, message, help, .. } = finding;
    output::note(&format!("{severity}[{code}]: {}", escape::line(message)));
    let place = if *line > 0 { format!("{file}:{line}:{column}") } else { file.clone() };
    output::note(&format!("  --> {}", escape::line(&place)));
    if let Some(help) = help {
        output::note(&format!("  help: {}", escape::line(help)));
    }
}
