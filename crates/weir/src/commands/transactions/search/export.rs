//! `weir search --export`: exports the result of a query.

use super::Args;
use crate::admin_client::with_query;
use crate::commands::data_source::DataSource;
use crate::exit::Exit;
use crate::{escape, output};
use anyhow::{Context, bail};
use http::Method;
use std::ops::ControlFlow;
use weir_tracker::document::{ExportEnd, ExportFailure, Exported, FailedExport, Nodes};
use weir_tracker::{ExportStep, Search};

/// Default number of transactions.
const EXPORT: usize = 10_000;

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let limit = args.limit.unwrap_or(EXPORT);
    let end = match args.source.open()? {
        DataSource::Server(client) => {
            let limit = limit.to_string();
            let parameters = [
                ("q", Some(&args.query)),
                ("limit", Some(&limit)),
                ("cursor", args.cursor.as_ref()),
                ("node", args.node.as_ref()),
            ];
            let path = with_query("/v1/transactions/export", &parameters)?;
            let mut end = None;
            client.lines(Method::GET, &path, |line| {
                match last(line) {
                    None => output::line(&escape::json(line)),
                    Some(Last::End(last)) => end = Some(last),
                    Some(Last::Failed(failed)) => bail!(ended_early(&failed)),
                }
                Ok(ControlFlow::Continue(()))
            })?;
            end.context("the export ended early and is incomplete")?
        }
        DataSource::Folder(tracker) => {
            let (query, cursor) = (args.query.clone(), args.cursor.clone());
            let search = Search {
                query,
                limit,
                cursor,
                payload: true,
                keys: false,
                apis: Vec::new(),
                timeout: tracker.search_timeout(),
            };
            let mut export = tracker.export(search)?;
            loop {
                match export.step()? {
                    Some(ExportStep::Found(transaction)) => output::json(&*transaction)?,
                    Some(ExportStep::Pending) => {}
                    Some(ExportStep::End(end)) => break end,
                    None => bail!("the export ended early and is incomplete"),
                }
            }
        }
    };
    print_notes(&end);
    Ok(if has_all_nodes(&end) { Exit::Success } else { Exit::Failure })
}

/// The last line of an export.
enum Last {
    End(Exported),
    Failed(FailedExport),
}

fn last(line: &str) -> Option<Last> {
    let end = serde_json::from_str(line).ok().map(|ExportEnd { end }| Last::End(end));
    end.or_else(|| {
        serde_json::from_str(line).ok().map(|ExportFailure { failed }| Last::Failed(failed))
    })
}

fn ended_early(failed: &FailedExport) -> String {
    let FailedExport { transactions, node } = failed;
    let (name, reason) = (escape::line(&node.name), escape::line(&node.reason));
    format!(
        "the export ended early and is incomplete: node {name} failed after {transactions} \
         transactions: {reason}"
    )
}

/// Whether no node is without a response.
fn has_all_nodes(end: &Exported) -> bool {
    end.nodes.as_ref().is_none_or(|nodes| nodes.missing.is_empty())
}

/// Prints notes about missing transactions.
fn print_notes(end: &Exported) {
    if let Some(missing) = end.missing.record_note() {
        output::note(&missing);
    }
    if let Some(note) = end.nodes.as_ref().and_then(Nodes::note) {
        output::note(&format!("the export is incomplete: {}", escape::line(&note)));
    } else if end.incomplete {
        output::note("the index is incomplete: transactions may be missing");
    }
    if let (true, Some(next)) = (end.cut, &end.next) {
        let (count, next) = (end.transactions, escape::line(next));
        output::note(&format!("cut after {count} transactions; continue with --cursor {next}"));
    }
}
