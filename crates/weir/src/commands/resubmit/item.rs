//! Transactions of a job, with what became of them.

use super::Args;
use crate::admin_client::{AdminClient, with_query};
use crate::{escape, output, table};
use anyhow::ensure;
use weir_store::ledger::{JobTransaction, JobTransactions};

/// Default number of transactions, and that of a page of the admin API.
const ITEMS: usize = 100;
const PAGE: usize = 1000;

/// Lists the transactions of a job.
pub(super) fn list(args: &Args, number: i64, client: &AdminClient) -> anyhow::Result<()> {
    ensure!(
        !args.action.is_any(),
        "--items shows the job as it is: run, pause or cancel it without"
    );
    let limit = args.limit.unwrap_or(ITEMS);
    let mut after = args.after.map(|id| id.to_string());
    let (mut found, mut matching) = (Vec::new(), None);
    loop {
        let (limit, state) = ((limit - found.len()).clamp(1, PAGE), args.state.join(","));
        let parameters = [
            ("limit", Some(limit.to_string())),
            ("state", Some(state)),
            ("reason", args.reason.clone()),
            ("after", after),
        ];
        let page: JobTransactions =
            client.get(&with_query(&format!("/v1/jobs/{number}/items"), &parameters)?)?;
        found.extend(page.transactions);
        matching = matching.or(page.matching);
        after = page.next.map(|id| id.to_string());
        if after.is_none() || found.len() >= limit {
            break;
        }
    }
    let header = ["TRANSACTION", "STATE", "STATUS", "WHY", "TIME", "NODE", "ITSELF"];
    table::print(&found, args.json, header, row)?;
    if let Some(after) = after {
        let shown = found.len();
        let of = matching.map(|matching| format!(" of {matching}")).unwrap_or_default();
        output::note(&format!(
            "{shown}{of} transactions; there are more: --limit, or --after {after}"
        ));
    }
    Ok(())
}

fn row(one: &JobTransaction) -> [String; 7] {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        one.transaction.to_string(),
        one.state.to_string(),
        if one.status == 0 { "-".to_owned() } else { one.status.to_string() },
        escape::line(&one.reason),
        or_none(one.started.map(|time| time.to_string())),
        escape::line(&one.node),
        or_none(one.attempt.map(|id| id.to_string())),
    ]
}
