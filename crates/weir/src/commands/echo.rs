//! `weir echo`: the echo backend.

use crate::echo::{self, Options};
use crate::exit::Exit;
use crate::{descriptors, duration, output};
use anyhow::Context;
use serde_json::json;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Arguments of `weir echo`.
#[derive(Debug, clap::Args)]
#[command(after_help = "HTTP/1.1 with keep-alive. Responses:\n  \
    POST, PUT, PATCH      body and content type of the request, up to 1 MiB (413 above)\n  \
    GET and others        a small JSON constant\n  \
    /status/503           this status\n  \
    /delay/200ms          response after this delay, at most one minute\n  \
    /headers              method, target and headers of the request, as JSON\n  \
    /documents            a JSON document of about 1 KiB, another one for each request\n  \
    /stream/N[/PAUSE]     N chunks of 1 KiB, with a pause after each\n  \
    WebSocket, any path   each message, up to 1 MiB\n\n\
    Examples:\n  weir echo\n  weir echo --delay 100ms --workers 1\n  \
    weir echo --listen 127.0.0.1:0 --json")]
pub(crate) struct Args {
    /// Address; port 0 selects a free port; may be repeated
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8688")]
    listen: Vec<SocketAddr>,
    /// Delay of every response
    #[arg(long, value_name = "DURATION", default_value = "0ms", value_parser = duration::parse)]
    delay: Duration,
    /// Threads [default: one per core]
    #[arg(long, value_name = "N")]
    workers: Option<NonZeroUsize>,
    /// Print one line {"event":"ready","listen":[…]} when all sockets are bound
    #[arg(long)]
    json: bool,
}

/// Runs it until SIGINT or SIGTERM.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    descriptors::raise_limit();
    let bound = echo::bind(&Options {
        listen: args.listen.clone(),
        workers: args.workers.map_or_else(cores, NonZeroUsize::get),
        delay: args.delay,
    })?;
    let addrs = bound.addrs()?;
    bound.start()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot create a runtime")?;
    runtime.block_on(async {
        // Before the ready event: its reader may stop the backend at once.
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        print_ready(&addrs, args.json);
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        Ok(Exit::Success)
    })
}

fn print_ready(addrs: &[SocketAddr], as_json: bool) {
    if as_json {
        return output::line(&json!({"event": "ready", "listen": addrs}).to_string());
    }
    for addr in addrs {
        output::line(&format!("echo on http://{addr}"));
    }
}
