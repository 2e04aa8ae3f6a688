//! `weir show`: a complete transaction.

use super::{IdPrefix, took};
use crate::admin_client::with_query;
use crate::commands::data_source::{DataSource, DataSourceArgs};
use crate::{escape, output};
use anyhow::Context;
use std::fmt::Write;
use weir_store::ledger::Attempt;
use weir_tracker::Side;
use weir_tracker::document::{Body, BodyMetadata, Field, Transaction, UpstreamAttempt};

mod body;

/// Arguments of `weir show`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  weir show 019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55\n  \
    weir show 019a9e3c-4c5e --json --data ./data\n  \
    weir show 019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55 --raw request > body")]
pub(crate) struct Args {
    /// Transaction id (`weir-transaction-id` of the response), or its first digits, at least four
    id: IdPrefix,
    /// Maximum number of lines of each body
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Write only the recorded bytes of one body, unchanged
    #[arg(long, value_name = "request|response", value_parser = ["request", "response"],
        conflicts_with_all = ["json", "limit"])]
    raw: Option<String>,
    /// Name or id of the node of the fleet that has the transaction, or `here` for the one that is
    /// asked [default: all nodes are asked]
    #[arg(long, value_name = "NODE", conflicts_with = "data")]
    node: Option<String>,
    #[command(flatten)]
    source: DataSourceArgs,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let source = args.source.open()?;
    let id = args.id.find(&source)?;
    let none = || format!("unknown transaction {id}");
    let target = |path: String| match &args.node {
        Some(node) => with_query(&path, &[("node", node)]),
        None => Ok(path),
    };
    if let Some(side) = &args.raw {
        let bytes = match source {
            DataSource::Server(client) => {
                client.raw(&target(format!("/v1/transactions/{id}/{side}-body"))?)?
            }
            DataSource::Folder(tracker) => {
                let side = if side == "request" { Side::Request } else { Side::Response };
                tracker.body(id.as_u128(), side)?.with_context(none)?
            }
        };
        output::bytes(&bytes);
        return Ok(());
    }
    let transaction: Transaction = match source {
        DataSource::Server(client) => client.get(&target(format!("/v1/transactions/{id}"))?)?,
        DataSource::Folder(tracker) => tracker.show(id.as_u128(), true)?.with_context(none)?,
    };
    if args.json {
        output::json(&transaction)?;
    } else {
        output::text(&text(&transaction, args.limit.unwrap_or(usize::MAX)));
    }
    Ok(())
}

fn text(transaction: &Transaction, lines: usize) -> String {
    let summary = &transaction.summary;
    let mut out = String::new();
    let (id, time) = (summary.id.to_string(), summary.time.to_string());
    let status = summary.status.to_string();
    let history: Vec<String> = (transaction.history.iter())
        .map(|change| {
            let when = change.time.map_or("when weir ended".to_owned(), |time| time.to_string());
            let who = if change.who.is_empty() { "" } else { " by " };
            let why = if change.comment.is_empty() { "" } else { ": " };
            format!("{} {when}{who}{}{why}{}", change.state, change.who, change.comment)
        })
        .collect();
    let stages: Vec<String> = (transaction.stages.iter())
        .map(|stage| format!("{} {}", stage.name, took(stage.took_us)))
        .collect();
    let tried: Vec<String> = transaction.upstream_attempts.iter().map(tried).collect();
    let flags = [
        (transaction.shortened, "only the outcome was recorded"),
        (transaction.damaged, "some records were lost"),
        (transaction.expired, "headers and bodies were deleted by retention"),
        (transaction.request.masked, "the request body was redacted"),
        (transaction.discarded, "headers and bodies were not kept: no error"),
    ];
    let flags: Vec<&str> =
        flags.iter().filter(|(applies, _)| *applies).map(|(_, note)| *note).collect();
    for (name, value) in [
        ("id", id.as_str()),
        ("node", &summary.node),
        ("time", &time),
        ("state", &summary.state),
        ("history", &history.join(", ")),
        ("resolution", &summary.resolution),
        ("status", &status),
        ("took", &stages.join(", ")),
        ("api", &summary.api),
        ("operation", &summary.operation),
        ("type", &summary.transaction_type),
        ("sender", &summary.sender),
        ("receiver", &summary.receiver),
        ("target", &summary.upstream_target),
        ("configuration", &summary.configuration),
        ("tried", &tried.join(", ")),
        ("consumer", &summary.consumer),
        ("plan", &summary.plan),
        ("principal", &summary.principal),
        ("problem", &summary.problem),
        ("detail", &summary.detail),
        ("note", &flags.join("; ")),
    ] {
        if !value.is_empty() {
            let _ = writeln!(out, "{name:<10} {}", escape::line(value));
        }
    }
    if let Some(original) = transaction.resubmission_of {
        let _ = writeln!(out, "{:<10} {original}", "attempt at");
    }
    for attempt in &transaction.attempts {
        let _ = writeln!(out, "{:<10} {}", "attempt", escape::line(&attempted(attempt)));
    }
    let Some(payload) = &transaction.payload else {
        let _ = writeln!(out, "\n{} {}", summary.method, escape::line(&summary.path));
        let _ = writeln!(out, "(headers and bodies need the role payload-viewer)");
        return out;
    };
    for (name, field) in [("key", &payload.keys), ("property", &payload.properties)] {
        for Field { name: key, value } in field {
            let _ = writeln!(out, "{name:<10} {}", escape::line(&format!("{key}: {value}")));
        }
    }
    for line in &payload.logs {
        let _ = writeln!(out, "{:<10} {}", "log", escape::line(line));
    }
    let _ = writeln!(out, "\n{} {}", summary.method, escape::line(&payload.target));
    half(&mut out, &payload.request_headers, &payload.request_body, &transaction.request, lines);
    let _ = writeln!(out, "\n{}", summary.status);
    half(&mut out, &payload.response_headers, &payload.response_body, &transaction.response, lines);
    out
}

/// `10.0.0.7:8080 503 after 12 ms`, or `10.0.0.7:8080 connect after 3 s`.
fn tried(attempt: &UpstreamAttempt) -> String {
    let UpstreamAttempt { target, took_us, status, error, .. } = attempt;
    let status = Some(*status).filter(|status| *status > 0).map(|status| status.to_string());
    let outcome = [status.as_deref().unwrap_or_default(), error];
    let outcome: Vec<&str> = outcome.into_iter().filter(|text| !text.is_empty()).collect();
    format!("{target} {} after {}", outcome.join(" "), took((*took_us).into()))
}

/// `2 succeeded 200 by ops at 2026-11-21T10:00:00Z: 019a…`.
fn attempted(attempt: &Attempt) -> String {
    let Attempt { number, state, who, started, id, .. } = attempt;
    let mut out = format!("{number} {state}");
    if attempt.status > 0 {
        let _ = write!(out, " {}", attempt.status);
    }
    if !attempt.reason.is_empty() {
        let _ = write!(out, " ({})", attempt.reason);
    }
    if !attempt.destination.is_empty() {
        let _ = write!(out, " to {}", attempt.destination);
    }
    let _ = write!(out, " by {who} at {started}: {id}");
    if let Some(difference) = &attempt.difference {
        let _ = write!(out, ", edited {difference}");
    }
    out
}

fn half(out: &mut String, headers: &[Field], body: &Body, metadata: &BodyMetadata, lines: usize) {
    for Field { name, value } in headers {
        let _ = writeln!(out, "{}", escape::line(&format!("{name}: {value}")));
    }
    let shown = body::readable(headers, body);
    if !shown.is_empty() {
        let some: Vec<&str> = shown.lines().take(lines).collect();
        let _ = writeln!(out, "\n{}", some.join("\n"));
    }
    let notes = body::notes(body, metadata);
    if !notes.is_empty() {
        let (stored, length) = (metadata.stored, metadata.length);
        let notes = escape::line(&notes.join(", "));
        let _ = writeln!(out, "({stored} of {length} bytes recorded: {notes})");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_tracker::document::Payload;

    #[test]
    fn payloads_are_shown_as_data() {
        let evil = "\u{1b}]0;owned\u{7}\0\u{202e}";
        let field = || vec![Field { name: evil.to_owned(), value: evil.to_owned() }];
        let body = || Body { text: Some(format!("{evil}\nsecond")), ..Body::default() };
        let transaction = Transaction {
            payload: Some(Payload {
                target: evil.to_owned(),
                request_headers: field(),
                request_body: body(),
                response_headers: field(),
                response_body: body(),
                keys: field(),
                properties: field(),
                logs: vec![evil.to_owned()],
            }),
            ..Transaction::default()
        };
        let shown = text(&transaction, 1);
        assert!(shown.matches("owned").count() >= 9, "{shown}");
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\0', '\u{202e}']), "{shown:?}");
        assert!(!shown.contains("second"), "{shown}");
    }
}
