//! `weir usage`: metered usage.

use super::data_source::DataSourceArgs;
use crate::admin_client::with_query;
use crate::table::{Column, render};
use crate::{data_folder, escape, output};
use weir_monitor::{Money, Report, Row, UsageQuery};
use weir_store::gaps::Gaps;

/// Arguments of `weir usage`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
With --data, the figures are the last ones written: up to 1 s old while a weir runs.

Examples:
  weir usage
  weir usage --from 2026-11-01 --by consumer,api
  weir usage --from 24h --step hour --consumer acme --json
  weir usage --status 5xx --by operation --data /var/lib/weir")]
pub(crate) struct Args {
    /// Start: time (RFC 3339), day (UTC) or age (30d) [default: the oldest data]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// End, in the same formats [default: now]
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Group by: consumer, api, operation, plan, status, unbilled (status of what is not billed)
    #[arg(long, value_name = "WHAT,…", default_value = "consumer")]
    by: String,
    /// Interval of the rows: minute, hour or day (UTC)
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// Only this consumer; '' is no consumer
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Only this API
    #[arg(long, value_name = "NAME")]
    api: Option<String>,
    /// Only this operation
    #[arg(long, value_name = "NAME")]
    operation: Option<String>,
    /// Only this plan; '' is no plan
    #[arg(long, value_name = "NAME")]
    plan: Option<String>,
    /// Only this status class: 1xx to 5xx, or none
    #[arg(long, value_name = "CLASS")]
    status: Option<String>,
    /// Only what this node of the fleet has counted: its name or id, or `here` for the one that responds
    #[arg(long, value_name = "NODE", conflicts_with = "data")]
    node: Option<String>,
    /// Maximum number of rows
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Print one JSON object per row
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: DataSourceArgs,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let query = UsageQuery {
        from: args.from.clone(),
        to: args.to.clone(),
        by: Some(args.by.clone()),
        step: args.step.clone(),
        consumer: args.consumer.clone(),
        api: args.api.clone(),
        operation: args.operation.clone(),
        plan: args.plan.clone(),
        status: args.status.clone(),
        node: args.node.clone(),
        apis: Vec::new(),
    };
    let report = match &args.source.data {
        Some(data) => data_folder::monitor(data)?.report(&query, &Gaps::new(data))?,
        None => args.source.server.client()?.get::<Report>(&with_query("/v1/usage", &query)?)?,
    };
    let rows: Vec<&Row> = report.rows.iter().take(args.limit.unwrap_or(usize::MAX)).collect();
    if args.json {
        for row in rows {
            output::line(&serde_json::to_string(row)?);
        }
    } else {
        output::text(&table(&rows));
        for Money { currency, exact, rounded } in &report.costs {
            let total = format!("total: {rounded} {currency} (exact: {exact}), without tiers");
            output::line(&escape::line(&total));
        }
    }
    if let Some(missing) = report.missing.count_note() {
        output::note(&missing);
    }
    report.unreported.iter().for_each(|node| output::note(&escape::line(&node.to_string())));
    Ok(())
}

/// The result as a table.
fn table(rows: &[&Row]) -> String {
    type Cell = fn(&Row) -> Option<String>;
    type Figure = fn(&Row) -> String;
    let names: [(&str, Cell); 7] = [
        ("TIME", |row| row.time.map(|time| time.to_string())),
        ("CONSUMER", |row| row.consumer.clone()),
        ("API", |row| row.api.clone()),
        ("OPERATION", |row| row.operation.clone()),
        ("PLAN", |row| row.plan.clone()),
        ("STATUS", |row| row.status.map(|class| class.to_string())),
        ("UNBILLED", |row| row.unbilled.map(|status| status.to_string())),
    ];
    let numbers: [(&str, Figure); 6] = [
        ("CALLS", |row| row.calls.to_string()),
        ("REQUEST BYTES", |row| row.request_bytes.to_string()),
        ("RESPONSE BYTES", |row| row.response_bytes.to_string()),
        ("P50", |row| milliseconds(row.p50_us)),
        ("P90", |row| milliseconds(row.p90_us)),
        ("P99", |row| milliseconds(row.p99_us)),
    ];
    let column = |name: &str, cells: Vec<String>, numeric| Column {
        cells: std::iter::once(name.to_owned()).chain(cells).collect(),
        numeric,
    };
    let mut columns: Vec<Column> = Vec::new();
    for (name, cell) in names {
        let cells: Vec<Option<String>> = rows.iter().map(|row| cell(row)).collect();
        if cells.iter().any(Option::is_some) {
            let cells = cells.into_iter().map(|cell| match cell.unwrap_or_default() {
                empty if empty.is_empty() => "-".to_owned(),
                text => escape::line(&text),
            });
            columns.push(column(name, cells.collect(), false));
        }
    }
    let numbers =
        numbers.map(|(name, cell)| column(name, rows.iter().map(|row| cell(row)).collect(), true));
    columns.extend(numbers);
    let money: [(&str, Figure); 3] = [
        ("AMOUNT", |row| rounded(&row.costs)),
        ("CALLS NOT BILLED", |row| match row.unbilled_calls {
            0 => String::new(),
            calls => calls.to_string(),
        }),
        ("AMOUNT NOT BILLED", |row| rounded(&row.unbilled_costs)),
    ];
    for (name, cell) in money {
        let cells: Vec<String> = rows.iter().map(|row| cell(row)).collect();
        if cells.iter().any(|cell| !cell.is_empty()) {
            columns.push(column(name, cells, true));
        }
    }
    render(&columns)
}

fn rounded(costs: &[Money]) -> String {
    let cost = |Money { currency, rounded, .. }: &Money| format!("{rounded} {currency}");
    escape::line(&costs.iter().map(cost).collect::<Vec<_>>().join(", "))
}

fn milliseconds(micros: u64) -> String {
    format!("{}.{:03} ms", micros / 1000, micros % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_requested_columns_are_present() {
        let row = |consumer: &str, calls| Row {
            consumer: Some(consumer.to_owned()),
            calls,
            p50_us: 1500,
            ..Row::default()
        };
        let text = table(&[&row("acme", 12), &row("", 7)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("CONSUMER  CALLS  REQUEST BYTES"), "{text}");
        assert!(lines[2].starts_with("-             7"), "{text}");
        assert!(lines[1].contains("1.500 ms"), "{text}");
    }
}
