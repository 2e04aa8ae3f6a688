//! `weir search --export`: exports the result of a query.

use super::Args;
use crate::admin_client::with_query;
use crate::commands::data_source::DataSource;
use crate::{escape, output};
use anyhow::{Context, bail};
use http::Method;
use std::ops::ControlFlow;
use weir_tracker::document::{ExportEnd, Exported};
use weir_tracker::{ExportStep, Search};

/// Default number of transactions.
const EXPORT: usize = 10_000;

pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let limit = args.limit.unwrap_or(EXPORT);
    let end = match args.source.open()? {
        DataSource::Server(client) => {
            let limit = limit.to_string();
            let parameters = [
                ("q", Some(&args.query)),
                ("limit", Some(&limit)),
                ("cursor", args.cursor.as_ref()),
            ];
            let path = with_query("/v1/transactions/export", &parameters)?;
            let mut end = None;
            client.lines(Method::GET, &path, |line| {
                match serde_json::from_str::<ExportEnd>(line) {
                    Ok(last) => end = Some(last.end),
                    Err(_) => output::line(&escape::json(line)),
                }
                Ok(ControlFlow::Continue(()))
            })?;
            end.context("the export ended early and is incomplete")?
        }
        DataSource::Folder(tracker) => {
            let (query, cursor) = (args.query.clone(), args.cursor.clone());
            let search =
                Search { query, limit, cursor, payload: true, timeout: tracker.search_timeout() };
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
    Ok(())
}

/// Prints notes about missing transactions.
fn print_notes(end: &Exported) {
    if let Some(missing) = end.missing.record_note() {
        output::note(&missing);
    }
    if end.incomplete {
        output::note("the index is incomplete: transactions may be missing");
    }
    if let (true, Some(next)) = (end.cut, &end.next) {
        let (count, next) = (end.transactions, escape::line(next));
        output::note(&format!("cut after {count} transactions; continue with --cursor {next}"));
    }
}
