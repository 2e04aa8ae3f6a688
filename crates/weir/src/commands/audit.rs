//! `weir audit`: the audit log.

use super::server_args::ServerArgs;
use crate::admin_client::with_query;
use crate::{escape, table};
use anyhow::ensure;
use std::path::PathBuf;
use weir_model::UnixMicros;
use weir_store::audit::{AuditEvent, AuditLog, AuditQuery};

/// Maximum number of lines of a request.
const PAGE: usize = 1000;

/// Arguments of `weir audit`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Newest first.\n\nExamples:\n  weir audit --limit 20\n  \
    weir audit --action resubmit --who ann --from 30d\n  \
    weir audit --json --data /var/lib/weir")]
pub(crate) struct Args {
    /// Maximum number of lines
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Only actions of this actor: name or token id
    #[arg(long, value_name = "NAME")]
    who: Option<String>,
    /// Only this action, such as `resubmit`
    #[arg(long, value_name = "ACTION")]
    action: Option<String>,
    /// Only actions on this object, such as a transaction id
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    /// Only entries from this time on: RFC 3339, a day (UTC), or an age such as 30d
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only entries before this time, likewise
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Only entries with this text in actor, action, object or details
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
    /// Name or id of the node of the fleet, or `here` for the own log of the one that is asked
    /// [default: all nodes]
    #[arg(long, value_name = "NODE", conflicts_with = "data")]
    node: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// Read this data folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["admin", "context", "token_file"])]
    data: Option<PathBuf>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let entries = match &args.data {
        Some(data) => {
            ensure!(weir_store::exists(data), "{} has no database", data.display());
            let (who, action) = (args.who.clone(), args.action.clone());
            let query = AuditQuery {
                before: None,
                who,
                action,
                subject: args.subject.clone(),
                from: time(args.from.as_deref())?,
                to: time(args.to.as_deref())?,
                text: args.text.clone(),
            };
            AuditLog::open(data)?.latest(args.limit, &query)?
        }
        None => request(args)?,
    };
    let header = ["TIME", "WHO", "ROLE", "WHAT", "SUBJECT", "DETAILS"];
    if entries.iter().all(|entry| entry.node.is_empty()) {
        return table::print(&entries, args.json, header, row);
    }
    let [time, who, role, what, subject, details] = header;
    let header = [time, "NODE", who, role, what, subject, details];
    table::print(&entries, args.json, header, |entry| {
        let [time, who, role, what, subject, details] = row(entry);
        [time, escape::line(&entry.node), who, role, what, subject, details]
    })
}

fn time(text: Option<&str>) -> anyhow::Result<Option<UnixMicros>> {
    let seconds = text.map(|text| weir_monitor::time(text, jiff::Timestamp::now())).transpose();
    let seconds = seconds.map_err(anyhow::Error::msg)?;
    Ok(seconds.map(|seconds| UnixMicros(seconds.saturating_mul(1_000_000))))
}

fn row(entry: &AuditEvent) -> [String; 6] {
    let AuditEvent { time, name, role, action, subject, details, .. } = entry;
    [&time.to_string(), name, role, action, subject, details].map(|text| escape::line(text))
}

fn request(args: &Args) -> anyhow::Result<Vec<AuditEvent>> {
    let client = args.server.client()?;
    let (mut entries, mut before): (Vec<AuditEvent>, _) = (Vec::new(), None);
    while entries.len() < args.limit {
        let limit = (args.limit - entries.len()).min(PAGE);
        let parameters = [
            ("limit", Some(limit.to_string())),
            ("who", args.who.clone()),
            ("action", args.action.clone()),
            ("subject", args.subject.clone()),
            ("before", before),
            ("node", args.node.clone()),
            ("from", args.from.clone()),
            ("to", args.to.clone()),
            ("text", args.text.clone()),
        ];
        let page: Vec<AuditEvent> = client.get(&with_query("/v1/audit", &parameters)?)?;
        let Some(last) = page.last() else { break };
        before = Some(last.number.to_string());
        entries.extend(page);
    }
    Ok(entries)
}
