//! `weir invoice`: invoices of consumers for a period.

use super::data_source::DataSourceArgs;
use crate::admin_client::with_query;
use crate::exit::Exit;
use crate::table::table;
use crate::{data_folder, escape, output};
use weir_admin::{FleetVerification, invoice};
use weir_fleet::verify::{UsageDifference, UsageVerification};
use weir_monitor::Money;
use weir_monitor::billing::{Invoice, InvoiceQuery, Total, Unbilled, find_invoices, totals};
use weir_store::gaps::Gaps;
use weir_tracker::document::MissingNode;

/// Arguments of `weir invoice`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Amounts are rounded to the decimals of the currency, half away from zero, and exact beside that. The
total due is the exact sum, rounded once. Calls that weir itself has rejected (429) or failed (5xx) are
listed, and not billed unless the plan says so.
The invoice of a period that has not ended, or is not fully metered, is provisional.

Examples:
  weir invoice --period 2026-11
  weir invoice --period 2026-11 --zone Europe/Berlin --consumer acme --format html > acme.html
  weir invoice --period 2026 --json --data ./data")]
pub(crate) struct Args {
    /// A month (2026-11), a year (2026) or a day (2026-11-21)
    #[arg(long, value_name = "PERIOD")]
    period: String,
    /// Time zone of the period
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    zone: String,
    /// Consumer [default: all consumers with a price]
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Only what this node of the fleet has counted: its name or id, or `here` for the one that responds
    #[arg(long, value_name = "NODE", conflicts_with = "data")]
    node: Option<String>,
    /// Maximum number of invoices
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Compare what each node has counted with the database of the fleet, in place of invoices; exit
    /// code 1 if they differ, or if a node does not respond
    #[arg(long, conflicts_with_all = ["data", "consumer", "node", "format", "limit"])]
    verify: bool,
    /// Output format
    #[arg(long, value_name = "FORMAT", default_value = "table", conflicts_with = "json")]
    format: Format,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: DataSourceArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Text
    Table,
    /// One JSON object per line
    Json,
    /// CSV (RFC 4180)
    Csv,
    /// Printable page
    Html,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    if args.verify {
        return verify(args);
    }
    let mut invoices = invoices(args)?;
    invoices.truncate(args.limit.unwrap_or(usize::MAX));
    match args.format {
        format if args.json || format == Format::Json => output::json_lines(&invoices)?,
        Format::Csv => output::text(&invoice::csv(&invoices)),
        Format::Html => output::text(&invoice::html(&invoices)),
        Format::Table | Format::Json => show_all(&invoices),
    }
    Ok(Exit::Success)
}

fn verify(args: &Args) -> anyhow::Result<Exit> {
    let query = [("period", &args.period)];
    let verified: FleetVerification =
        args.source.server.client()?.get(&with_query("/v1/fleet/usage", &query)?)?;
    let FleetVerification { nodes, unverified } = &verified;
    if args.json {
        output::json(&verified)?;
    } else {
        nodes.iter().for_each(show_verification);
        for MissingNode { name, reason, .. } in unverified {
            output::line(&escape::line(&format!("node {name}: not verified: {reason}")));
        }
    }
    let differs = nodes.iter().any(|node| !node.differences.is_empty());
    Ok(if differs || !unverified.is_empty() { Exit::Failure } else { Exit::Success })
}

fn show_verification(verified: &UsageVerification) {
    let UsageVerification { name, waiting, calls, differences, .. } = verified;
    if differences.is_empty() {
        let equal = format!("node {name}: {calls} calls, equal in the database");
        return output::line(&escape::line(&equal));
    }
    let row = |day: &UsageDifference| {
        let (counted, replicated) = (day.counted.to_string(), day.replicated.to_string());
        [day.day.to_string(), format!("{} s", day.step), counted, replicated]
    };
    let rows: Vec<[String; 4]> = differences.iter().map(row).collect();
    let waits = format!("node {name} differs; {waiting} counts wait to be replicated");
    output::line(&escape::line(&waits));
    output::text(&table(["TIME", "STEP", "COUNTED", "REPLICATED"], &rows));
}

fn invoices(args: &Args) -> anyhow::Result<Vec<Invoice>> {
    let Args { period, zone, consumer, node, .. } = args;
    if let Some(data) = &args.source.data {
        let (period, zone, consumer) = (period.clone(), zone.clone(), consumer.clone());
        let query = InvoiceQuery { consumer, period, zone };
        return Ok(find_invoices(&data_folder::monitor(data)?, &Gaps::new(data), &query)?);
    }
    let parameters = [
        ("period", Some(period)),
        ("zone", Some(zone)),
        ("consumer", consumer.as_ref()),
        ("node", node.as_ref()),
    ];
    args.source.server.client()?.get(&with_query("/v1/invoices", &parameters)?)
}

fn show_all(invoices: &[Invoice]) {
    invoices.iter().for_each(show);
    if invoices.len() > 1 {
        output::line(&format!("{} invoices", invoices.len()));
        totals(invoices).iter().for_each(show_total);
    }
}

fn show_total(Total { currency, exact, due }: &Total) {
    output::line(&escape::line(&format!("due: {due} {currency} (exact: {exact})")));
}

fn show(invoice: &Invoice) {
    let provisional = if invoice.provisional { ", provisional" } else { "" };
    let Invoice { consumer, period, zone, .. } = invoice;
    let title = format!("{consumer}, {period} ({zone}){provisional}");
    output::line(&escape::line(&title));
    if invoice.uncounted > 0 {
        let calls = invoice.uncounted;
        output::line(&format!("{calls} calls of the period (of all consumers) were not metered"));
    }
    invoice.unreported.iter().for_each(|node| output::line(&escape::line(&node.to_string())));
    let lines = invoice.lines.iter().map(|line| {
        let rounded = format!("{} {}", line.rounded, line.currency);
        let (calls, bytes) = (line.calls.to_string(), line.bytes.to_string());
        let names = [&line.plan, &line.api, &line.operation];
        let numbers = [&calls, &bytes, &rounded, &line.amount.to_string()];
        row(names.map(String::as_str), numbers.map(String::as_str))
    });
    let tiers = invoice.tiers.iter().map(|tier| {
        let calls = format!("{} to {}", tier.first, tier.last);
        let what = format!("{} each", tier.per_call);
        let rounded = format!("{} {}", tier.rounded, tier.currency);
        row([&tier.plan, "", &what], [&calls, "", &rounded, &tier.amount.to_string()])
    });
    let rows: Vec<[String; 7]> = lines.chain(tiers).collect();
    output::text(&table(["PLAN", "API", "OPERATION", "CALLS", "BYTES", "AMOUNT", "EXACT"], &rows));
    invoice.totals.iter().for_each(show_total);
    show_unbilled(&invoice.unbilled);
}

fn row(names: [&str; 3], numbers: [&str; 4]) -> [String; 7] {
    let [plan, api, operation] = names;
    let [calls, bytes, rounded, exact] = numbers;
    [plan, api, operation, calls, bytes, rounded, exact].map(escape::line)
}

fn show_unbilled(Unbilled { lines, tiers, totals }: &Unbilled) {
    if lines.is_empty() {
        return;
    }
    let lines = lines.iter().map(|line| {
        let rounded = format!("{} {}", line.rounded, line.currency);
        let (calls, status) = (line.calls.to_string(), line.status.to_string());
        let names = [&line.plan, &line.api, &line.operation];
        let numbers = [&calls, &status, &rounded, &line.amount.to_string()];
        row(names.map(String::as_str), numbers.map(String::as_str))
    });
    let tiers = tiers.iter().map(|tier| {
        let rounded = format!("{} {}", tier.rounded, tier.currency);
        let calls = tier.calls.to_string();
        row([&tier.plan, "", "tiers"], [&calls, "", &rounded, &tier.amount.to_string()])
    });
    let rows: Vec<[String; 7]> = lines.chain(tiers).collect();
    output::line("not billed:");
    output::text(&table(["PLAN", "API", "OPERATION", "CALLS", "STATUS", "AMOUNT", "EXACT"], &rows));
    for Money { currency, exact, rounded } in totals {
        let all = format!("not billed: {rounded} {currency} (exact: {exact})");
        output::line(&escape::line(&all));
    }
}
