//! `weir rollout`, `weir rollback`: versions of the configuration of a fleet.

use super::server_args::ServerArgs;
use crate::admin_client::AdminClient;
use crate::table::table;
use crate::{escape, output};
use serde_json::json;
use weir_fleet::status::{FleetStatus, NodeStatus};
use weir_fleet::versions::{
    Calls, FleetVersions, NodeVersion, Rejected, Rollout, Stage, Version, shown,
};

/// Commands on rollouts.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Start the rollout of a version: to one node, 10 %, all
    #[command(after_help = "\
Each stage lasts `fleet.config.stage`. All nodes return to the version before if a node rejects the version, ends
while it tries the version, is not ready, or responds with 5xx to more calls than the other nodes (by 1 % of at
least 200 calls). Requires the role admin.

Examples:
  weir rollout start 7
  weir push --rollout")]
    Start(StartArgs),
    /// Show the version of the fleet and the latest rollout
    #[command(after_help = "Examples:\n  weir rollout status\n  weir rollout status --json")]
    Status(ShowArgs),
    /// List the versions, the latest first
    #[command(after_help = "Example:\n  weir rollout versions")]
    Versions(ShowArgs),
    /// Stay in the stage; a node that fails still ends the rollout
    #[command(after_help = "Example:\n  weir rollout pause")]
    Pause(ServerOnly),
    /// Go on after a pause; the stage begins again
    #[command(after_help = "Example:\n  weir rollout resume")]
    Resume(ServerOnly),
    /// End the rollout: all nodes return to the version before
    #[command(after_help = "Example:\n  weir rollout abort")]
    Abort(ServerOnly),
}

/// Arguments of `weir rollout start`.
#[derive(Debug, clap::Args)]
pub(crate) struct StartArgs {
    /// Number of the version
    #[arg(value_name = "VERSION")]
    version: i64,
    #[command(flatten)]
    server: ServerArgs,
}

/// Arguments of commands that show something.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// A server.
#[derive(Debug, clap::Args)]
pub(crate) struct ServerOnly {
    #[command(flatten)]
    server: ServerArgs,
}

/// Arguments of `weir rollback`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
All nodes take the version at once. An active rollout is aborted; without a version, that is all. Requires the
role operator.

Examples:
  weir rollback
  weir rollback 6")]
pub(crate) struct RollbackArgs {
    /// Number of the version [default: the one before]
    #[arg(value_name = "VERSION")]
    version: Option<i64>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs it.
pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Start(args) => start(&args.server.client()?, args.version),
        Command::Status(args) => status(args),
        Command::Versions(args) => versions(args),
        Command::Pause(args) => act(args, "pause"),
        Command::Resume(args) => act(args, "resume"),
        Command::Abort(args) => act(args, "abort"),
    }
}

/// Starts a rollout.
pub(super) fn start(client: &AdminClient, version: i64) -> anyhow::Result<()> {
    let versions: FleetVersions = client.post("/v1/fleet/rollout", &json!({"version": version}))?;
    versions.rollout.iter().for_each(|rollout| output::line(&line(rollout, &[])));
    Ok(())
}

/// Runs `weir rollback`.
pub(crate) fn roll_back(args: &RollbackArgs) -> anyhow::Result<()> {
    let body = json!({"version": args.version});
    let versions: FleetVersions = args.server.client()?.post("/v1/fleet/rollback", &body)?;
    output::line(&format!("all nodes take version {}", shown(versions.version)));
    Ok(())
}

fn act(args: &ServerOnly, action: &str) -> anyhow::Result<()> {
    let path = format!("/v1/fleet/rollout/{action}");
    let versions: FleetVersions = args.server.client()?.post(&path, &json!({}))?;
    versions.rollout.iter().for_each(|rollout| output::line(&line(rollout, &[])));
    Ok(())
}

fn status(args: &ShowArgs) -> anyhow::Result<()> {
    let client = args.server.client()?;
    let versions: FleetVersions = client.get("/v1/fleet/rollout")?;
    if args.json {
        return output::json(&versions);
    }
    let fleet: FleetStatus = client.get("/v1/fleet")?;
    let names: Vec<(String, String)> =
        fleet.nodes.iter().map(|node| (node.id.clone(), node.name.clone())).collect();
    print(&versions, &names);
    print_nodes(versions.rollout.as_ref(), &fleet.nodes);
    Ok(())
}

/// Prints the version of each node, the calls that are compared, and why nodes have rejected the version of
/// the rollout.
fn print_nodes(rollout: Option<&Rollout>, nodes: &[NodeStatus]) {
    let compared = rollout.and_then(|rollout| rollout.compared.as_ref());
    let figures =
        |calls: &Calls| [calls.calls.to_string(), format!("{:.1} %", calls.share() * 100.0)];
    let with_version = nodes.iter().filter_map(|node| Some((node, node.in_force.as_ref()?)));
    let row = |(node, report): (&NodeStatus, &NodeVersion)| {
        let calls = compared.and_then(|compared| compared.nodes.get(&node.id));
        let [calls, errors] = calls.map(figures).unwrap_or_default();
        let ready = if report.ready { "yes" } else { "no" };
        let (name, state) = (escape::line(&node.name), node.state.to_string());
        [name, state, shown(report.version), ready.to_owned(), calls, errors]
    };
    let mut rows: Vec<[String; 6]> = with_version.clone().map(row).collect();
    if let Some(compared) = compared {
        let [calls, errors] = figures(&compared.others);
        let empty = String::new;
        rows.push(["compared with".to_owned(), empty(), empty(), empty(), calls, errors]);
    }
    output::text(&table(["NODE", "STATE", "VERSION", "READY", "CALLS", "5XX"], &rows));
    for (node, report) in with_version {
        let of_rollout =
            |rejected: &&Rejected| rollout.is_some_and(|rollout| rollout.id == rejected.rollout);
        if let Some(rejected) = report.rejected.as_ref().filter(of_rollout) {
            let (name, reason) = (escape::line(&node.name), escape::line(&rejected.reason));
            output::line(&format!("{name} rejected it: {reason}"));
        }
    }
}

/// Prints the version of the fleet and the latest rollout, with names of nodes by id.
pub(super) fn print(versions: &FleetVersions, names: &[(String, String)]) {
    output::line(&format!("version {}", shown(versions.version)));
    versions.rollout.iter().for_each(|rollout| output::line(&line(rollout, names)));
}

/// A rollout in one line.
fn line(rollout: &Rollout, names: &[(String, String)]) -> String {
    let Rollout { id, version, state, stage, nodes, stage_seconds, verdict, by, .. } = rollout;
    let mut text =
        format!("rollout {id} of version {} by {}: {state}", shown(*version), escape::line(by));
    if rollout.is_active() {
        let stage = match stage {
            Stage::One => "one node",
            Stage::Tenth => "10 %",
            Stage::All => "all nodes",
        };
        text = format!("{text}, {stage} for {stage_seconds:.0} s");
        let name = |id: &String| names.iter().find(|(one, _)| one == id).map(|(_, name)| name);
        let names: Vec<String> =
            nodes.iter().filter_map(name).map(|one| escape::line(one)).collect();
        if stage != "all nodes" && !names.is_empty() {
            text = format!("{text} ({})", names.join(", "));
        }
    }
    match verdict.is_empty() {
        true => text,
        false => format!("{text}: {}", escape::line(verdict)),
    }
}

fn versions(args: &ShowArgs) -> anyhow::Result<()> {
    let versions: Vec<Version> = args.server.client()?.get("/v1/fleet/versions")?;
    if args.json {
        return output::json(&versions);
    }
    let row = |version: &Version| {
        [
            version.number.to_string(),
            escape::line(version.digest.get(..12).unwrap_or(&version.digest)),
            version.time.to_string(),
            escape::line(&version.by),
            escape::line(&version.min_weir),
            escape::line(&version.comment),
        ]
    };
    let rows: Vec<[String; 6]> = versions.iter().map(row).collect();
    output::text(&table(["VERSION", "DIGEST", "PUSHED", "BY", "MIN WEIR", "COMMENT"], &rows));
    Ok(())
}
