//! `weir show`, `search`, `tail`: recorded transactions.

pub(super) mod search;
pub(super) mod show;
pub(super) mod tail;

use crate::table::table;
use crate::{escape, output};
use weir_tracker::document::Summary;

const COLUMNS: [&str; 8] = ["TIME", "ID", "STATE", "STATUS", "TOOK", "REQUEST", "API", "CONSUMER"];

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
    let rows: Vec<_> = summaries.iter().map(row).collect();
    output::text(&table(COLUMNS, &rows));
}

/// `12.3 ms`.
fn took(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.1} s", us as f64 / 1e6),
    }
}
