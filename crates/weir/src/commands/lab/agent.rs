//! `weir lab agent`: generates a share of the load of a run on another machine.

use super::agents::SecurityArgs;
use crate::exit::Exit;
use crate::{descriptors, output};
use std::net::SocketAddr;
use weir_lab::agents::{Agent, AgentOptions};

/// Arguments of `weir lab agent`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The agent serves one run at a time: it gets the scenario or plan with its files \
        from `weir lab run --agents`,\nwhich must be the same version of weir, and sends figures \
        every second. It starts no servers and no commands.\nThe load ends within seconds when \
        the controller is gone.\n\nOther machines can reach the agent only with a key or \
        certificates.\n\n\
    Examples:\n  weir lab agent --listen 127.0.0.1:7070\n  \
    weir lab agent --listen 0.0.0.0:7070 --secret-file /etc/weir/lab-key\n  \
    weir lab agent --listen 0.0.0.0:7070 --cert agent.pem --key agent-key.pem --ca ca.pem"
)]
pub(crate) struct Args {
    /// Address to listen on
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7070")]
    listen: SocketAddr,
    /// Threads, and the share of the load in relation to other agents [default: all cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// End after one run
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    security: SecurityArgs,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    descriptors::raise_limit();
    let options = AgentOptions {
        loops: args.threads.unwrap_or(0),
        once: args.once,
        security: args.security.read()?,
    };
    let agent = Agent::listen(args.listen, options)?;
    output::line(&format!("listening on {}", agent.address()?));
    agent.run(output::note)?;
    Ok(Exit::Success)
}
