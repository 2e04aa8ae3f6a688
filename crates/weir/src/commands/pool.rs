//! `weir pool`: status and commands of agent pools.

use super::server_args::ServerArgs;
use crate::table::table;
use crate::{escape, output};
use anyhow::bail;
use weir_admin::pools::Pools;
use weir_broker::{DurationSummary, PoolSnapshot};

/// Commands on pools.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show state and statistics of pools
    #[command(after_help = "\
Agents by state, queued requests, and queue and service times: mean, 99th percentile and maximum.

Examples:
  weir pool status
  weir pool status php --json")]
    Status(StatusArgs),
    /// Replace all agents of a pool, each as soon as it is idle
    #[command(after_help = "\
Examples:
  weir pool recycle php")]
    Recycle(ActArgs),
    /// Stop idle agents of a pool, down to `min`
    #[command(after_help = "\
Examples:
  weir pool trim php")]
    Trim(ActArgs),
}

/// Arguments of `weir pool status`.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Only this pool
    #[arg(value_name = "POOL")]
    pool: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Arguments of a command on a pool.
#[derive(Debug, clap::Args)]
pub(crate) struct ActArgs {
    /// Name of the pool
    #[arg(value_name = "POOL")]
    pool: String,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs it.
pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Status(args) => status(args),
        Command::Recycle(args) => act(args, "recycle"),
        Command::Trim(args) => act(args, "trim"),
    }
}

fn status(args: &StatusArgs) -> anyhow::Result<()> {
    let Pools { pools } = args.server.client()?.get("/v1/pools")?;
    let is_selected =
        |pool: &&PoolSnapshot| args.pool.as_ref().is_none_or(|name| *name == pool.name);
    let pools: Vec<&PoolSnapshot> = pools.iter().filter(is_selected).collect();
    if let Some(name) = args.pool.as_ref().filter(|_| pools.is_empty()) {
        bail!("unknown pool `{name}`");
    }
    if args.json {
        return output::json_lines(pools);
    }
    let rows: Vec<[String; 10]> = pools.iter().map(|pool| row(pool)).collect();
    let header = [
        "POOL",
        "BUSY",
        "AVAILABLE",
        "STARTING",
        "LOCKED",
        "QUEUE",
        "SERVED",
        "REJECTED",
        "WAIT",
        "DURATION",
    ];
    output::text(&table(header, &rows));
    for pool in pools {
        if let Some(error) = &pool.last_error {
            let (name, error) = (escape::line(&pool.name), escape::line(error));
            output::line(&format!("{name}: {error}"));
        }
    }
    Ok(())
}

fn row(pool: &PoolSnapshot) -> [String; 10] {
    let agents = &pool.agents;
    let rejected = pool.rejected_full + pool.rejected_wait + pool.rejected_unavailable;
    [
        escape::line(&pool.name),
        format!("{}/{}", agents.busy, agents.max),
        agents.available.to_string(),
        agents.starting.to_string(),
        agents.locked.to_string(),
        format!("{}/{}", pool.queue.current, pool.queue.max),
        pool.served.to_string(),
        rejected.to_string(),
        times(&pool.request_wait),
        times(&pool.request_duration),
    ]
}

/// Mean, 99th percentile and maximum in milliseconds.
fn times(times: &DurationSummary) -> String {
    let millis = |seconds: f64| format!("{:.1}", seconds * 1e3);
    format!("{}/{}/{} ms", millis(times.mean), millis(times.p99), millis(times.max))
}

fn act(args: &ActArgs, action: &str) -> anyhow::Result<()> {
    let known = args.pool.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if !known || args.pool.is_empty() {
        bail!("unknown pool `{}`", args.pool);
    }
    let path = format!("/v1/pools/{}/{action}", args.pool);
    args.server.client()?.post_only(&path, &serde_json::Value::Null)
}
