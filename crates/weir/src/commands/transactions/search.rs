//! `weir search`: finds recorded transactions.

use super::{print_json, print_table};
use crate::commands::place::{Place, PlaceArgs};
use crate::exit::Exit;
use crate::{neutral, output};
use anyhow::anyhow;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use weir_admin::tracker::{Hit, LONGEST_PAGE, Page, Search, SearchFailure, Summary};

/// Arguments of `weir search`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Newest first. The language of queries is in docs/guide/search.md.\n\n\
    Examples:\n  weir search 'status:>=500 api:orders'\n  \
    weir search 'key.order:A-17' --json\n  weir search refund --data /var/lib/weir --limit 10")]
pub(crate) struct Args {
    /// The query; an empty one finds everything
    #[arg(default_value = "", allow_hyphen_values = true)]
    query: String,
    /// Most transactions
    #[arg(long, value_name = "N", default_value = "50")]
    limit: usize,
    /// Print one JSON object for each, one a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let place = args.place.open()?;
    let (mut left, mut cursor) = (args.limit, None);
    let mut summaries = Vec::new();
    while left > 0 {
        let found = page(&place, &args.query, left.min(LONGEST_PAGE), cursor)?;
        left = left.saturating_sub(found.transactions.len());
        for hit in found.transactions {
            if args.json { print_json(&hit)? } else { summaries.push(hit) }
        }
        if found.incomplete {
            output::note("the index is being made again: transactions may be missing");
        }
        cursor = found.next;
        if cursor.is_none() {
            break;
        }
    }
    if !args.json {
        print(summaries);
    }
    Ok(Exit::Success)
}

fn print(hits: Vec<Hit>) {
    let (summaries, highlights): (Vec<Summary>, Vec<_>) =
        hits.into_iter().map(|hit| (hit.summary, hit.highlights)).unzip();
    print_table(&summaries);
    for (summary, highlights) in summaries.iter().zip(highlights) {
        for highlight in highlights {
            let text = format!("{} {}: {}", summary.id, highlight.place, highlight.text);
            output::line(&neutral::line(&text));
        }
    }
}

/// A page of what a query finds.
pub(super) fn page(
    place: &Place,
    query: &str,
    limit: usize,
    cursor: Option<String>,
) -> anyhow::Result<Page> {
    match place {
        Place::Server(client) => {
            let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
            let after = cursor.map(|c| format!("&cursor={}", encode(&c))).unwrap_or_default();
            client.get(&format!("/v1/transactions?q={}&limit={limit}{after}", encode(query)))
        }
        Place::Folder(tracker) => {
            let search = Search { query: query.to_owned(), limit, cursor, payload: true };
            tracker.search(&search).map_err(|failure| match failure {
                SearchFailure::Query { at, message } => {
                    anyhow!("the query is not understood: at {}: {message}", at + 1)
                }
                SearchFailure::Failed(failure) => failure.into(),
                SearchFailure::Cursor => anyhow!("the cursor is not one of a page"),
                SearchFailure::NeedsPayload => anyhow!("the query asks for payloads"),
            })
        }
    }
}
