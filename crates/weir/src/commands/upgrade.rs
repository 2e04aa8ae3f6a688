//! `weir upgrade`: replaces the running weir without a lost request.

use crate::exit::Exit;
use crate::output;
use crate::serve::control_socket::{self, Command, Response};
use anyhow::Context;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use weir_config::Source;

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
    /// Configuration with the data folder of the running weir
    #[arg(long, value_name = "PATH", default_value = "weir.yaml")]
    config: PathBuf,
    /// Data folder of the running weir [default: the configured one]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Program to start [default: the path from which the running one was started]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let data = match &args.data {
        Some(data) => data.clone(),
        None => configured_data(&args.config)?,
    };
    let program = args.program.as_deref().map(std::path::absolute).transpose();
    let program = program.context("--program")?;
    let response = send(&data, &Command::Upgrade { program })?;
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
    }
}

fn configured_data(config: &Path) -> anyhow::Result<PathBuf> {
    let source = Source { path: config.to_owned(), overrides: Vec::new() };
    let loaded = weir_gateway::configuration::load(&source).map_err(|_| {
        anyhow::anyhow!("{} has errors; see `weir check`, or use --data", config.display())
    })?;
    Ok(loaded.config.data)
}

/// Sends a command to the weir of a data folder. Waits for the response as long as weir runs.
fn send(data: &Path, command: &Command) -> anyhow::Result<Response> {
    let path = control_socket::path(data);
    let at = || format!("no weir that can be upgraded uses {}: {}", data.display(), path.display());
    let mut stream = UnixStream::connect(&path).with_context(at)?;
    let mut line = serde_json::to_string(command)?;
    line.push('\n');
    let lost = "weir has ended without a response; see its output";
    stream.write_all(line.as_bytes()).context(lost)?;
    let mut response = String::new();
    BufReader::new(stream).read_line(&mut response).context(lost)?;
    serde_json::from_str(&response).context(lost)
}
