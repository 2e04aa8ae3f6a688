//! `weir show`, `search`, `tail`: recorded transactions.

mod id;
pub(super) mod search;
pub(super) mod show;
pub(super) mod tail;

pub(super) use id::IdPrefix;

use crate::table::{Stream, table};
use crate::{escape, output};
use weir_tracker::document::Summary;

const COLUMNS: [&str; 8] = ["TIME", "ID", "STATE", "STATUS", "TOOK", "REQUEST", "API", "CONSUMER"];

/// For transactions that arrive one after the other: times of microseconds, ids, long states.
const STREAM: Stream<{ COLUMNS.len() }> = Stream::new(COLUMNS, [27, 36, 11, 6, 8, 24, 12, 0]);

const NODE_COLUMNS: [&str; 9] =
    ["TIME", "ID", "NODE", "STATE", "STATUS", "TOOK", "REQUEST", "API", "CONSUMER"];

/// The same for transactions of several nodes.
const NODE_STREAM: Stream<{ NODE_COLUMNS.len() }> =
    Stream::new(NODE_COLUMNS, [27, 36, 12, 11, 6, 8, 24, 12, 0]);

fn row(summary: &Summary) -> [String; COLUMNS.len()] {
    [
        summary.time.to_string(),
        summary.id.to_string(),
        escape::line(&summary.state),
        if summary.status == 0 { "-".to_owned() } else { summary.status.to_string() },
        took(summary.took_us),
        escape::line(&format!("{} {}", summary.method, summary.path)),
        escape::line(&summary.api),
        escape::line(&summary.consumer),
    ]
}

/// As a table, with its header.
fn print_table(summaries: &[Summary]) {
    output::text(&as_table(summaries));
}

/// On standard error: the transactions of which one is to be selected.
fn print_candidates(summaries: &[Summary]) {
    output::note(as_table(summaries).trim_end());
}

/// With a column for the node, if a query over nodes found them.
fn as_table(summaries: &[Summary]) -> String {
    if summaries.iter().all(|summary| summary.node.is_empty()) {
        return table(COLUMNS, &summaries.iter().map(row).collect::<Vec<_>>());
    }
    table(NODE_COLUMNS, &summaries.iter().map(row_with_node).collect::<Vec<_>>())
}

fn row_with_node(summary: &Summary) -> [String; NODE_COLUMNS.len()] {
    let [time, id, state, status, took, request, api, consumer] = row(summary);
    [time, id, escape::line(&summary.node), state, status, took, request, api, consumer]
}

/// `12.3 ms`.
fn took(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}
