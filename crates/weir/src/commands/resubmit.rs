//! `weir resubmit`: resubmits (replays) recorded transactions, by id or as a job over a query.

mod item;
mod job;

use super::server_args::ServerArgs;
use super::transactions::IdPrefix;
use crate::admin_client::AdminClient;
use crate::exit::Exit;
use crate::table::table;
use crate::{escape, output};
use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::HashSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use uuid::Uuid;
use weir_admin::resubmit::{HeaderEdits, HeaderLine, ResubmitBody};
use weir_store::ledger::{Attempt, AttemptState};

/// Arguments of `weir resubmit`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Transactions are sent again with their recorded principal; credentials are never replayed. See
docs/guide/resubmit.md for conditions and rejection reasons.

Exit codes:
  0  every attempt succeeded, or the action on the job did
  1  an attempt failed, was rejected, or has an unknown outcome

Examples:
  weir resubmit 019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55
  weir resubmit 019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55 --body fixed.json --header 'x-retry: 1'
  weir resubmit --query 'resolution:open api:orders since:1d' --preview
  weir resubmit --query 'resolution:open api:orders since:1d' --run --rate 100/s --wait
  weir resubmit --job 7 --pause
  weir resubmit --job 7 --items --state failed,unknown
  weir resubmit --job 7 --retry --run --wait")]
pub(crate) struct Args {
    /// Transaction ids, or their first digits
    ids: Vec<IdPrefix>,
    /// Resubmit the result of this query as a job
    #[arg(long, value_name = "QUERY", conflicts_with = "ids", allow_hyphen_values = true)]
    query: Option<String>,
    /// Number of the job
    #[arg(long, value_name = "N", conflicts_with_all = ["ids", "query"])]
    job: Option<i64>,
    /// List the jobs
    #[arg(long, conflicts_with_all = ["ids", "query", "job"])]
    jobs: bool,
    /// List the transactions of the job
    #[arg(long, requires = "job", conflicts_with = "retry")]
    items: bool,
    /// Create a job for the transactions of the job that failed
    #[arg(long, requires = "job")]
    retry: bool,
    /// States of the transactions, separated by commas: pending, sending, succeeded, failed, cannot,
    /// refused, unknown, cancelled; sent, rejected [default: all; with --retry failed]
    #[arg(long, value_name = "STATES", requires = "job", value_delimiter = ',')]
    state: Vec<String>,
    /// Code of the reason of the listed transactions
    #[arg(long, value_name = "CODE", requires = "items")]
    reason: Option<String>,
    /// List the transactions after this one
    #[arg(long, value_name = "ID", requires = "items")]
    after: Option<Uuid>,
    #[command(flatten)]
    action: job::Action,
    /// Rate of requests (`100/s`, `30/m`) [default: 10/s]
    #[arg(long, value_name = "RATE", value_parser = rate, conflicts_with = "ids")]
    rate: Option<f64>,
    /// Wait until the job has ended or is paused
    #[arg(long, conflicts_with = "ids")]
    wait: bool,
    /// Include settled transactions and those with an unknown outcome
    #[arg(long)]
    again: bool,
    /// Operation (`op`) of the same API that receives the requests, from `resubmit.targets`
    #[arg(long, value_name = "OP", conflicts_with_all = ["job", "jobs"])]
    to: Option<String>,
    /// Replace the query; empty for none
    #[arg(long, value_name = "QUERY", requires = "ids", conflicts_with_all = ["query", "job", "jobs"], allow_hyphen_values = true)]
    set_query: Option<String>,
    /// Set a header; may be repeated
    #[arg(long, value_name = "NAME: VALUE", requires = "ids", conflicts_with_all = ["query", "job", "jobs"], value_parser = header)]
    header: Vec<HeaderLine>,
    /// Remove a header; may be repeated
    #[arg(long, value_name = "NAME", requires = "ids", conflicts_with_all = ["query", "job", "jobs"])]
    without_header: Vec<String>,
    /// Replace the body by the content of a file; `-` is standard input
    #[arg(long, value_name = "FILE", requires = "ids", conflicts_with_all = ["query", "job", "jobs"])]
    body: Option<PathBuf>,
    /// Maximum number of listed jobs [default: 50] or transactions [default: 100]
    #[arg(long, value_name = "N", conflicts_with_all = ["ids", "query"])]
    limit: Option<usize>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let client = args.server.client()?;
    // All are known before the first is sent.
    let ids: Vec<_> = args.ids.iter().map(|id| id.find_on(&client)).collect::<Result<_, _>>()?;
    if args.jobs {
        return job::list(args, &client).map(Exit::from);
    }
    if let Some(number) = args.job.filter(|_| args.items) {
        return item::list(args, number, &client).map(Exit::from);
    }
    if args.query.is_some() || args.job.is_some() {
        return job::run(args, &client).map(Exit::from);
    }
    ensure!(!args.ids.is_empty(), "ids, --query or --job is required");
    ensure!(
        !args.action.is_any(),
        "--preview, --run, --pause, --resume and --cancel need --query or --job"
    );
    each(args, &ids, &client)
}

/// Resubmits the transactions in sequence, each once. A rejection does not stop the others.
fn each(args: &Args, ids: &[Uuid], client: &AdminClient) -> anyhow::Result<Exit> {
    let body = serde_json::to_value(request_body(args)?)?;
    let (mut attempts, mut all) = (Vec::new(), true);
    let mut seen = HashSet::new();
    for id in ids.iter().filter(|id| seen.insert(**id)) {
        match client.post::<Attempt>(&format!("/v1/transactions/{id}/resubmit"), &body) {
            Ok(attempt) => {
                all &= attempt.state == AttemptState::Succeeded;
                if !attempt.words.is_empty() {
                    output::error(&format!("{id}: {}", escape::line(&attempt.words)));
                }
                if args.json {
                    output::json(&attempt)?;
                } else {
                    attempts.push(row(&attempt));
                }
            }
            Err(error) => {
                all = false;
                output::error(&format!("{id}: {}", output::with_causes(&error)));
            }
        }
    }
    if !args.json && !attempts.is_empty() {
        let header = ["TRANSACTION", "ATTEMPT", "STATE", "STATUS", "WHY", "ITSELF"];
        output::text(&table(header, &attempts));
    }
    Ok(if all { Exit::Success } else { Exit::Failure })
}

fn row(attempt: &Attempt) -> [String; 6] {
    [
        attempt.original.to_string(),
        attempt.number.to_string(),
        attempt.state.to_string(),
        if attempt.status == 0 { "-".to_owned() } else { attempt.status.to_string() },
        escape::line(&attempt.reason),
        attempt.id.to_string(),
    ]
}

fn request_body(args: &Args) -> anyhow::Result<ResubmitBody> {
    let bytes = args.body.as_deref().map(read).transpose()?;
    let text = bytes.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
    let (body, body_base64) = match (text, &bytes) {
        (Some(text), _) => (Some(text.to_owned()), None),
        (None, Some(bytes)) => (None, Some(STANDARD.encode(bytes))),
        (None, None) => (None, None),
    };
    Ok(ResubmitBody {
        query: args.set_query.clone(),
        headers: HeaderEdits { set: args.header.clone(), remove: args.without_header.clone() },
        body,
        body_base64,
        to: args.to.clone(),
        again: args.again,
    })
}

/// Largest body of a request to the admin API.
const MAX_BODY_BYTES: u64 = 4 << 20;

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().take(MAX_BODY_BYTES + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path)
            .and_then(|file| file.take(MAX_BODY_BYTES + 1).read_to_end(&mut bytes))
    };
    read.with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(bytes.len() as u64 <= MAX_BODY_BYTES, "{} is longer than 4 MiB", path.display());
    Ok(bytes)
}

fn header(text: &str) -> Result<HeaderLine, String> {
    let (name, value) = text.split_once(':').ok_or("expected `name: value`")?;
    Ok(HeaderLine { name: name.trim().to_owned(), value: value.trim().to_owned() })
}

/// Parses a rate.
fn rate(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is not a rate, such as 100/s, 30/m or 500/h");
    let (count, unit) = text.split_once('/').ok_or_else(wrong)?;
    let count: f64 = count.trim().parse().map_err(|_| wrong())?;
    let seconds = match unit.trim() {
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let rate = count / seconds;
    if (0.001..=100_000.0).contains(&rate) { Ok(rate) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_a_unit() {
        assert_eq!(rate("100/s"), Ok(100.0));
        assert_eq!(rate("30/m"), Ok(0.5));
        for wrong in ["100", "0/s", "-1/s", "x/s", "1/d", "NaN/s", "1e9/s"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn headers_are_split_at_the_first_colon() {
        let line = header("X-A:  b:c ").unwrap();
        assert_eq!((line.name.as_str(), line.value.as_str()), ("X-A", "b:c"));
        assert!(header("nothing").is_err());
    }
}
