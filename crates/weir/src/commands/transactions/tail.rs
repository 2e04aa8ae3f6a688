//! `weir tail`: transactions as they complete.

use super::search::{PageRequest, page};
use super::{STREAM, row};
use crate::admin_client::with_query;
use crate::commands::data_source::{DataSource, DataSourceArgs};
use crate::output;
use anyhow::Context;
use http::Method;
use std::ops::ControlFlow;

use weir_tracker::document::Summary;

/// Default number of transactions of a data folder.
const LAST: usize = 10;

/// Arguments of `weir tail`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "With a running weir: transactions as they complete, until interrupted. With a \
        data folder: the newest transactions. Query language: docs/guide/search.md.\n\n\
    Examples:\n  weir tail\n  weir tail 'status:>=500 api:orders'\n  weir tail --limit 1 --json\n  \
    weir tail --data /var/lib/weir"
)]
pub(crate) struct Args {
    /// Query; an empty query matches everything
    #[arg(default_value = "", allow_hyphen_values = true, value_parser = super::search::query)]
    query: String,
    /// Stop after this number of transactions
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: DataSourceArgs,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    follow(args).inspect_err(|error| super::search::note_place(&args.query, error))
}

fn follow(args: &Args) -> anyhow::Result<()> {
    let print = |summary: &Summary| -> anyhow::Result<()> {
        if args.json {
            return output::json(summary);
        }
        output::text(&STREAM.row(row(summary)));
        Ok(())
    };
    let source = args.source.open()?;
    if !args.json {
        output::text(&STREAM.header());
    }
    let DataSource::Server(client) = &source else {
        let limit = args.limit.unwrap_or(LAST);
        let found = page(&source, &PageRequest::first(&args.query, limit))?;
        let newest = found.transactions.iter().take(limit).rev();
        return newest.map(|hit| &hit.summary).try_for_each(print);
    };
    let mut left = args.limit;
    let path = with_query("/v1/transactions/tail", &[("q", &args.query)])?;
    while left != Some(0) {
        client.lines(Method::GET, &path, |line| {
            print(&serde_json::from_str(line).context("unexpected response")?)?;
            left = left.map(|left| left.saturating_sub(1));
            Ok(if left == Some(0) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if left != Some(0) {
            output::note("weir: reconnected; transactions completed in between are not shown");
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    }
    Ok(())
}
