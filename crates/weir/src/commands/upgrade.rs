//! `weir upgrade`: replaces the running weir without a lost request.

use super::control::ControlArgs;
use crate::exit::Exit;
use crate::output;
use crate::serve::control_socket::{Command, Response, path};
use anyhow::Context;
use std::path::PathBuf;

/// Arguments of `weir upgrade`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The running process starts the program that was installed at its own path, with its own arguments and the
current configuration file. The new process checks the configuration, then takes over the listening
sockets and the data folder; if anything fails before, the old process continues. The old process completes
its requests, for at most `drain.upgrade`. No connection is refused, and every call is recorded and metered
once.

Exit codes:
  0  the new process serves
  1  the upgrade failed; the reason is on standard error

Examples:
  weir upgrade
  weir upgrade --config /etc/weir/weir.yaml
  weir upgrade --data /var/lib/weir --program /opt/weir-0.2.0/weir")]
pub(crate) struct Args {
    #[command(flatten)]
    control: ControlArgs,
    /// Program to start [default: the path from which the running one was started]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let program = args.program.as_deref().map(std::path::absolute).transpose();
    let program = program.context("--program")?;
    let connection = args.control.connect()?.with_context(|| {
        let data = args.control.data().unwrap_or_default();
        let socket = path(&data);
        format!("no weir that can be upgraded uses {}: {}", data.display(), socket.display())
    })?;
    let response = connection.send(&Command::Upgrade { program })?;
    if args.json {
        output::json(&response)?;
    }
    match response {
        Response::Upgraded { pid, version, old_pid } => {
            if !args.json {
                output::line(&format!(
                    "process {pid} (weir {version}) serves; process {old_pid} completes its requests"
                ));
            }
            Ok(Exit::Success)
        }
        Response::Failed { reason } => {
            output::error(&format!("the upgrade failed: {reason}"));
            Ok(Exit::Failure)
        }
        Response::BackedUp { .. } => Ok(Exit::Failure),
    }
}
