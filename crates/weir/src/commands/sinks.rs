//! `weir sinks`: sinks of transactions, what they have rejected, and gaps.

use super::server_args::ServerArgs;
use crate::{escape, output, table};
use weir_admin::sinks::{NodeSinks, SinkLists, SinkView};
use weir_ship::{BackfillState, RejectedDocument, ShipGap, SinkKind};

/// Commands on sinks.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Show sinks of transactions with their lag
    #[command(after_help = "\
In a fleet whose nodes query each other: of all nodes.

Examples:
  weir sinks list
  weir sinks list --node here --json")]
    List(ListArgs),
    /// Show transactions whose documents a sink has rejected
    #[command(after_help = "\
Of the node that responds, newest first.

Examples:
  weir sinks rejected
  weir sinks rejected --limit 1000 --json")]
    Rejected(EntryArgs),
    /// Show transactions that were not sent to a sink, or without headers and bodies
    #[command(after_help = "\
Of the node that responds. `weir fleet backfill` sends what the journal still has.

Examples:
  weir sinks gaps
  weir sinks gaps --json")]
    Gaps(EntryArgs),
}

/// Arguments of `weir sinks list`.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    /// Name or id of a node of the fleet, or `here` [default: all]
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Print one JSON object per node
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Arguments of `weir sinks rejected` and `weir sinks gaps`.
#[derive(Debug, clap::Args)]
pub(crate) struct EntryArgs {
    /// Maximum number of entries, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs it.
pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::List(args) => list(args),
        Command::Rejected(args) => rejected(args),
        Command::Gaps(args) => gaps(args),
    }
}

/// The sinks of nodes.
pub(crate) fn sinks_of(server: &ServerArgs, node: Option<&str>) -> anyhow::Result<SinkLists> {
    let parameters: Vec<(&str, &str)> = node.iter().map(|node| ("node", *node)).collect();
    let path = crate::admin_client::with_query("/v1/sinks", &parameters)?;
    server.client()?.get(&path)
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
    let SinkLists { nodes, missing } = sinks_of(&args.server, args.node.as_deref())?;
    for node in &missing {
        let (name, reason) = (escape::line(&node.name), escape::line(&node.reason));
        output::note(&format!("no response of {name}: {reason}"));
    }
    if args.json {
        return output::json_lines(&nodes);
    }
    let all: Vec<(&NodeSinks, &SinkView)> =
        nodes.iter().flat_map(|node| node.sinks.iter().map(move |sink| (node, sink))).collect();
    let header =
        ["NODE", "SINK", "KIND", "CONTENT", "LAG", "RECORDS", "DOCS", "REJECTED", "GAPS", "STATE"];
    table::print(&all, false, header, |(node, sink)| {
        [
            escape::line(&node.node),
            escape::line(&sink.name),
            kind(sink.kind).to_owned(),
            sink.content.clone(),
            format!("{:.1} s", sink.lag.seconds),
            sink.lag.records.to_string(),
            sink.docs.to_string(),
            sink.rejected.to_string(),
            sink.gap_records.to_string(),
            state(sink),
        ]
    })
}

fn kind(kind: SinkKind) -> &'static str {
    match kind {
        SinkKind::OpenSearch => "opensearch",
        SinkKind::Kafka => "kafka",
    }
}

fn state(sink: &SinkView) -> String {
    match (&sink.paused, &sink.backfill) {
        (Some(reason), _) => format!("paused: {}", escape::line(reason)),
        (None, Some(backfill)) if backfill.state == BackfillState::Running => {
            format!("backfill: {} of {} ranges", backfill.done, backfill.ranges)
        }
        _ => "sending".to_owned(),
    }
}

fn rejected(args: &EntryArgs) -> anyhow::Result<()> {
    let path = format!("/v1/sinks/rejected?limit={}", args.limit);
    let found: Vec<RejectedDocument> = args.server.client()?.get(&path)?;
    table::print(&found, args.json, ["TIME", "SINK", "TRANSACTION", "STATUS", "REASON"], |one| {
        [
            one.at.to_string(),
            escape::line(&one.sink),
            one.id.to_string(),
            one.status.to_string(),
            escape::line(&one.reason),
        ]
    })
}

fn gaps(args: &EntryArgs) -> anyhow::Result<()> {
    let path = format!("/v1/sinks/gaps?limit={}", args.limit);
    let found: Vec<ShipGap> = args.server.client()?.get(&path)?;
    let header = ["TIME", "SINK", "LANE", "MISSING", "RECORDS", "RECOVERED", "GONE"];
    table::print(&found, args.json, header, |gap| {
        let filled = |number: Option<u64>| number.map_or_else(|| "?".to_owned(), |n| n.to_string());
        let bound = if gap.at_most { "at most " } else { "" };
        [
            gap.at.to_string(),
            escape::line(&gap.sink),
            gap.lane.to_string(),
            gap.why.clone(),
            format!("{bound}{}", gap.records),
            filled(gap.filled.map(|filled| filled.recovered)),
            filled(gap.filled.and_then(|filled| filled.gone)),
        ]
    })
}
