//! `weir health`: whether the running weir is ready, for health checks of containers and scripts.

use super::server_args::ServerArgs;
use crate::exit::Exit;
use crate::{duration, output};
use std::time::Duration;

/// Arguments of `weir health`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Requests GET /readyz from the admin listener. No token is needed.

Exit codes:
  0  weir is ready
  1  weir is not ready, or does not respond; the reason is on standard error

Examples:
  weir health
  weir health --admin http://127.0.0.1:9080 --timeout 2s
  weir health --config /etc/weir/weir.yaml --quiet")]
pub(crate) struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// Time limit
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration::parse)]
    timeout: Duration,
    /// Print nothing if weir is ready
    #[arg(long, short)]
    quiet: bool,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let client = args.server.client_without_token()?.with_timeout(args.timeout);
    let ready = client.raw("/readyz")?;
    if !args.quiet {
        output::line(String::from_utf8_lossy(&ready).trim_end());
    }
    Ok(Exit::Success)
}
