//! `weir limits`: throttled consumers and remaining requests.

use super::server_args::ServerArgs;
use crate::{escape, table};
use weir_limit::{LimitStatuses, PlanStatus, RateStatus};
use weir_model::duration_in_words;

/// Arguments of `weir limits`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Current rate limit and quota of every consumer with a plan. Rejections by the limits of APIs and \
routes
are in the admin API, /v1/limits.

Examples:
  weir limits
  weir limits --throttled --json")]
pub(crate) struct Args {
    /// Only throttled consumers: the next request would be rejected
    #[arg(long)]
    throttled: bool,
    /// Maximum number of consumers
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let limits: LimitStatuses = args.server.client()?.get("/v1/limits")?;
    let is_selected = |consumer: &&PlanStatus| !args.throttled || consumer.throttled.is_some();
    let consumers = limits.consumers.iter().filter(is_selected);
    let consumers: Vec<_> = consumers.take(args.limit.unwrap_or(usize::MAX)).collect();
    let header = ["CONSUMER", "PLAN", "RATE LEFT", "QUOTA LEFT", "FREE IN", "REFUSED", "THROTTLED"];
    table::print(&consumers, args.json, header, |consumer| row(consumer))
}

/// Remaining requests and burst of this node, with its share of the plan's rate.
fn rate_left(rate: &RateStatus) -> String {
    let RateStatus { burst, remaining, nodes, .. } = rate;
    match nodes {
        0 | 1 => format!("{remaining}/{burst}"),
        _ => format!("{remaining}/{burst} (1/{nodes} of the rate)"),
    }
}

fn row(consumer: &PlanStatus) -> [String; 7] {
    let of = |remaining: u64, all: u64| format!("{remaining}/{all}");
    let free_in = consumer.quota.as_ref().map(|quota| quota.free_in_seconds);
    [
        escape::line(&consumer.consumer),
        escape::line(&consumer.plan),
        consumer.rate.as_ref().map_or_else(String::new, rate_left),
        consumer.quota.as_ref().map_or_else(String::new, |quota| of(quota.remaining, quota.calls)),
        free_in.filter(|seconds| *seconds > 0).map_or_else(String::new, duration_in_words),
        (consumer.refused_by_rate + consumer.refused_by_quota).to_string(),
        escape::line(consumer.throttled.as_deref().unwrap_or_default()),
    ]
}
