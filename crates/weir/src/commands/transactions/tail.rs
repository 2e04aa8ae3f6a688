//! `weir tail`: transactions as they complete.

use super::search::{PageRequest, page};
use super::{NODE_STREAM, STREAM, row, row_with_node};
use crate::admin_client::with_query;
use crate::commands::data_source::{DataSource, DataSourceArgs};
use crate::{escape, output};
use anyhow::Context;
use http::Method;
use std::ops::ControlFlow;
use weir_tracker::document::{Nodes, Summary, TailNodes};

/// Default number of transactions of a data folder.
const LAST: usize = 10;

/// Arguments of `weir tail`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "With a running weir: transactions as they complete, until interrupted. With a \
        data folder: the newest transactions. Query language: docs/guide/search.md.\n\n\
    Examples:\n  weir tail\n  weir tail 'status:>=500 api:orders'\n  weir tail --limit 1 --json\n  \
    weir tail --node web-2\n  \
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
    /// Name or id of the node of the fleet to follow, or `here` for the one that is asked
    /// [default: all nodes]
    #[arg(long, value_name = "NODE", conflicts_with = "data")]
    node: Option<String>,
    #[command(flatten)]
    source: DataSourceArgs,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    follow(args).inspect_err(|error| super::search::note_place(&args.query, error))
}

fn follow(args: &Args) -> anyhow::Result<()> {
    let source = args.source.open()?;
    let mut table = Table { json: args.json, with_node: None };
    let DataSource::Server(client) = &source else {
        let limit = args.limit.unwrap_or(LAST);
        let found = page(&source, &PageRequest::first(&args.query, limit))?;
        table.begin(false);
        let newest = found.transactions.iter().take(limit).rev();
        return newest.map(|hit| &hit.summary).try_for_each(|summary| table.row(summary));
    };
    let mut left = args.limit;
    let parameters = [("q", Some(&args.query)), ("node", args.node.as_ref())];
    let path = with_query("/v1/transactions/tail", &parameters)?;
    while left != Some(0) {
        let mut silent = false;
        client.all_lines(Method::GET, &path, |line| {
            if let Ok(TailNodes { nodes }) = serde_json::from_str(line) {
                table.begin(true);
                note(&nodes, &mut silent);
                return Ok(ControlFlow::Continue(()));
            }
            table.begin(false);
            if line.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            table.row(&serde_json::from_str(line).context("unexpected response")?)?;
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

/// What is printed of transactions.
struct Table {
    json: bool,
    /// Whether it has a column for the node; `None`: there is no header yet.
    with_node: Option<bool>,
}

impl Table {
    /// Prints the header, with a column for the node if several nodes are followed.
    fn begin(&mut self, with_node: bool) {
        if self.with_node.is_some() {
            return;
        }
        self.with_node = Some(with_node);
        match with_node {
            _ if self.json => {}
            true => output::text(&NODE_STREAM.header()),
            false => output::text(&STREAM.header()),
        }
    }

    fn row(&self, summary: &Summary) -> anyhow::Result<()> {
        match self.with_node {
            _ if self.json => return output::json(summary),
            Some(true) => output::text(&NODE_STREAM.row(row_with_node(summary))),
            _ => output::text(&STREAM.row(row(summary))),
        }
        Ok(())
    }
}

/// Says which nodes do not respond, and when all do again.
fn note(nodes: &Nodes, silent: &mut bool) {
    match nodes.note() {
        Some(note) => output::note(&escape::line(&note)),
        None if *silent => output::note(&format!("{0} of {0} nodes respond", nodes.queried)),
        None => {}
    }
    *silent = !nodes.missing.is_empty();
}
