//! `weir fleet`: nodes of the fleet and its database.

use super::rollout;
use super::server_args::ServerArgs;
use super::sinks::sinks_of;
use crate::exit::Exit;
use crate::source::SourceArgs;
use crate::table::table;
use crate::{escape, findings, output};
use anyhow::{Context, bail};
use std::time::Duration;
use weir_admin::sinks::{BackfillBody, SinkView};
use weir_fleet::database::{Connect, Connection};
use weir_fleet::schema;
use weir_fleet::status::{FleetStatus, NodeStatus, RedisStatus};
use weir_fleet::versions::shown;
use weir_model::UnixMicros;
use weir_ship::{BackfillState, SinkKind};

/// Interval of checks of a backfill.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);

/// Commands on the fleet.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show the nodes of the fleet, their configurations, and problems
    #[command(after_help = "\
What the node that responds knows as of its last heartbeat.

Examples:
  weir fleet status
  weir fleet status --json")]
    Status(StatusArgs),
    /// Create or update the schema in the database of the fleet
    #[command(after_help = "\
Nodes do this themselves at their start. To create it beforehand, run the command with a configuration
of the same role: tables belong to the role that has created them, and only their owner can update
them and add partitions.

Examples:
  weir fleet migrate weir.yaml")]
    Migrate(MigrateArgs),
    /// Retire a node that has ended and does not come back
    #[command(after_help = "\
Until then others wait for what the node has counted. With --lost its data is gone: what it has not
reported is missing for ever.

Examples:
  weir fleet retire web-3
  weir fleet retire 0b9e8c1a-6c1f-4d57-8a4e-3f0d2b1c4e5f --lost")]
    Retire(RetireArgs),
    /// Send to a sink what it lacks and the journal still has
    #[command(after_help = "\
Of the node that responds, which may be a single one without a fleet. Transactions in recorded gaps are
sent beside the live ones, in at most every second request; those that the sink has stay as they are. With
--all everything that the journal has is sent: for an index that was lost. The command waits for the end;
it can be interrupted and repeated.

Examples:
  weir fleet backfill
  weir fleet backfill --sink search --all --from 2026-11-20T00:00:00Z")]
    Backfill(BackfillArgs),
}

/// Arguments of `weir fleet status`.
#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// Print the status as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Arguments of `weir fleet migrate`.
#[derive(Debug, clap::Args)]
pub(crate) struct MigrateArgs {
    #[command(flatten)]
    source: SourceArgs,
}

/// Arguments of `weir fleet retire`.
#[derive(Debug, clap::Args)]
pub(crate) struct RetireArgs {
    /// Id or name of the node
    #[arg(value_name = "NODE")]
    node: String,
    /// The data of the node is gone
    #[arg(long)]
    lost: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Arguments of `weir fleet backfill`.
#[derive(Debug, clap::Args)]
pub(crate) struct BackfillArgs {
    /// Name of the sink [default: the only OpenSearch]
    #[arg(long, value_name = "NAME")]
    sink: Option<String>,
    /// Transactions received from this time on (RFC 3339)
    #[arg(long, value_name = "TIME")]
    from: Option<jiff::Timestamp>,
    /// Transactions received before this time
    #[arg(long, value_name = "TIME")]
    to: Option<jiff::Timestamp>,
    /// Everything that the journal has, not only what is in gaps
    #[arg(long)]
    all: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs it.
pub(crate) fn run(command: &Command) -> anyhow::Result<Exit> {
    match command {
        Command::Status(args) => status(args).map(Exit::from),
        Command::Migrate(args) => migrate(args),
        Command::Retire(args) => retire(args).map(Exit::from),
        Command::Backfill(args) => backfill(args),
    }
}

fn status(args: &StatusArgs) -> anyhow::Result<()> {
    let status: FleetStatus = args.server.client()?.get("/v1/fleet")?;
    if args.json {
        return output::json(&status);
    }
    let FleetStatus { fleet, postgres, redis, nodes, findings, .. } = &status;
    let state = if postgres.up { "up" } else { "down" };
    let (fleet, at) = (escape::line(fleet), escape::line(&postgres.at));
    output::line(&format!("fleet {fleet}, PostgreSQL {} {state} at {at}", postgres.version));
    if let Some(RedisStatus { up, at, .. }) = redis {
        let state = if *up { "up" } else { "down" };
        output::line(&format!("Redis {state} at {}", escape::line(at)));
    }
    if let Some(versions) = &status.versions {
        let names: Vec<_> = nodes.iter().map(|node| (node.id.clone(), node.name.clone())).collect();
        rollout::print(versions, &names);
    }
    let header = ["NODE", "STATE", "BOOT", "VERSION", "CONFIGURATION", "SEEN", "CLOCK", "ID"];
    let rows: Vec<[String; 8]> = nodes.iter().map(|node| row(node, &status.node)).collect();
    output::text(&table(header, &rows));
    for finding in findings {
        let (code, message) = (escape::line(&finding.code), escape::line(&finding.message));
        output::line(&format!("{code}: {message}"));
    }
    Ok(())
}

fn row(node: &NodeStatus, reporting: &str) -> [String; 8] {
    let here = if node.id == reporting { " (this node)" } else { "" };
    [
        format!("{}{here}", escape::line(&node.name)),
        node.state.to_string(),
        node.boot.to_string(),
        escape::line(&node.version),
        configuration(node),
        format!("{:.0} s ago", node.silent_seconds),
        format!("{:+} ms", node.offset_ms),
        escape::line(&node.id),
    ]
}

/// The digest of the configuration, with the number of the version.
fn configuration(node: &NodeStatus) -> String {
    let digest = escape::line(node.digest.get(..12).unwrap_or(&node.digest));
    match &node.in_force {
        Some(report) => format!("{digest} ({})", shown(report.version)),
        None => digest,
    }
}

fn migrate(args: &MigrateArgs) -> anyhow::Result<Exit> {
    let loaded = weir_gateway::configuration::load(&args.source.source());
    let Some(loaded) = findings::accepted(loaded) else { return Ok(Exit::Findings) };
    let fleet = loaded.config.fleet.as_ref().context("the configuration has no `fleet`")?;
    let tls = loaded.compiled.upstream_clients.database().cloned();
    let connect = Connect { postgres: fleet.postgres.clone(), tls };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let migration = runtime.block_on(async {
        let mut connection = Connection::open(&connect).await?;
        schema::migrate(&mut connection, &fleet.name).await
    })?;
    let schema::Migration { before, after } = migration;
    output::line(&match before == after {
        true => format!("the schema is current (step {after})"),
        false => format!("the schema was brought from step {before} to step {after}"),
    });
    Ok(Exit::Success)
}

fn retire(args: &RetireArgs) -> anyhow::Result<()> {
    let client = args.server.client()?;
    let status: FleetStatus = client.get("/v1/fleet")?;
    let found: Vec<&NodeStatus> =
        status.nodes.iter().filter(|node| node.id == args.node || node.name == args.node).collect();
    let id = match found[..] {
        [node] => &node.id,
        [] => bail!("unknown node `{}`; `weir fleet status` lists the nodes", args.node),
        [..] => bail!("several nodes are called `{}`: give an id", args.node),
    };
    let lost = if args.lost { "?lost=true" } else { "" };
    client.post_only(&format!("/v1/fleet/nodes/{id}/retire{lost}"), &serde_json::Value::Null)
}

/// The only sink with this name, or the only OpenSearch.
fn sink(server: &ServerArgs, name: Option<&str>) -> anyhow::Result<SinkView> {
    let lists = sinks_of(server, Some("here"))?;
    let mut found: Vec<SinkView> = lists.nodes.into_iter().flat_map(|node| node.sinks).collect();
    found.retain(|sink| match name {
        Some(name) => sink.name == name,
        None => sink.kind == SinkKind::OpenSearch,
    });
    match (found.pop(), found.is_empty(), name) {
        (Some(sink), true, _) => Ok(sink),
        (None, _, Some(name)) => bail!("unknown sink `{name}`; `weir sinks list` lists the sinks"),
        (None, _, None) => bail!("there is no sink of OpenSearch: set `tracker.sinks`"),
        _ => bail!("there are several sinks of OpenSearch: name one with --sink"),
    }
}

fn backfill(args: &BackfillArgs) -> anyhow::Result<Exit> {
    let before = sink(&args.server, args.sink.as_deref())?;
    let micros = |time: Option<jiff::Timestamp>| -> anyhow::Result<Option<UnixMicros>> {
        let micros = time.map(|time| u64::try_from(time.as_microsecond())).transpose();
        Ok(micros.context("times before 1970 are not supported")?.map(UnixMicros))
    };
    let body = BackfillBody { from: micros(args.from)?, to: micros(args.to)?, all: args.all };
    let path = format!("/v1/sinks/{}/backfill", before.name);
    args.server.client()?.post_only(&path, &serde_json::to_value(&body)?)?;
    let started = before.backfill.map(|one| one.started);
    let mut shown = None;
    let end = loop {
        std::thread::sleep(PROGRESS_INTERVAL);
        let progress = sink(&args.server, Some(&before.name))?.backfill;
        // That of a previous one is still there for a moment.
        let Some(progress) = progress.filter(|one| Some(one.started) != started) else { continue };
        if !progress.is_running() {
            break progress;
        }
        let text =
            format!("{} of {} ranges, {} sent", progress.done, progress.ranges, progress.read);
        if shown.replace(text.clone()) != Some(text.clone()) && !args.json {
            output::note(&text);
        }
    };
    if args.json {
        output::json(&end)?;
    } else {
        output::line(&format!(
            "{} transactions are in sink {} now, {} were rejected, {} are not in the journal any more",
            end.recovered,
            escape::line(&before.name),
            end.rejected,
            end.gone,
        ));
    }
    match end.state {
        BackfillState::Interrupted => bail!("the backfill was interrupted; start it again"),
        _ => Ok(Exit::Success),
    }
}
