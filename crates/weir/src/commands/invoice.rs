//! `weir invoice`: what consumers have to pay for a period.

use super::place::PlaceArgs;
use crate::exit::Exit;
use crate::table::table;
use crate::{billing, neutral, output};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use weir_admin::invoice::{self, Invoice, Wanted};

/// Arguments of `weir invoice`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Lines are exact decimals; only what is to be paid is rounded, once, a half upwards, to the decimals
of the currency. An invoice of a period that is not over, or not all counted, is provisional.

Examples:
  weir invoice --period 2026-11
  weir invoice --period 2026-11 --zone Europe/Berlin --consumer acme --format html > acme.html
  weir invoice --period 2026 --json --data ./data")]
pub(crate) struct Args {
    /// A month (2026-11), a year (2026) or a day (2026-11-21)
    #[arg(long, value_name = "PERIOD")]
    period: String,
    /// The zone in which that is
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    zone: String,
    /// Of this consumer [default: of all that have to pay]
    #[arg(long, value_name = "NAME")]
    consumer: Option<String>,
    /// Most invoices
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// How they are printed
    #[arg(long, value_name = "FORMAT", default_value = "table", conflicts_with = "json")]
    format: Format,
    /// Print one JSON object for each, one a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    Table,
    /// One JSON object a line
    Json,
    /// One table (RFC 4180)
    Csv,
    /// A page to be printed
    Html,
}

/// Runs it.
pub(crate) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut invoices = made(args)?;
    invoices.truncate(args.limit.unwrap_or(usize::MAX));
    match args.format {
        _ if args.json => json(&invoices)?,
        Format::Json => json(&invoices)?,
        Format::Csv => output::text(&invoice::csv(&invoices)),
        Format::Html => output::text(&invoice::html(&invoices)),
        Format::Table => invoices.iter().for_each(show),
    }
    Ok(Exit::Success)
}

fn made(args: &Args) -> anyhow::Result<Vec<Invoice>> {
    let Args { period, zone, consumer, .. } = args;
    if let Some(data) = args.place.data() {
        let (period, zone, consumer) = (period.clone(), zone.clone(), consumer.clone());
        return billing::read(data, &Wanted { consumer, period, zone });
    }
    let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let mut path = format!("/v1/invoices?period={}&zone={}", encoded(period), encoded(zone));
    if let Some(consumer) = consumer {
        path.push_str(&format!("&consumer={}", encoded(consumer)));
    }
    args.place.server()?.get(&path)
}

fn json(invoices: &[Invoice]) -> anyhow::Result<()> {
    for invoice in invoices {
        output::line(&neutral::json(&serde_json::to_string(invoice)?));
    }
    Ok(())
}

fn show(invoice: &Invoice) {
    let provisional = if invoice.provisional { ", provisional" } else { "" };
    let Invoice { consumer, period, zone, .. } = invoice;
    let title = format!("{consumer}, {period} ({zone}){provisional}");
    output::line(&neutral::line(&title));
    if invoice.uncounted > 0 {
        let calls = invoice.uncounted;
        output::line(&format!("{calls} calls of the period, of whomever, could not be counted"));
    }
    let lines = invoice.lines.iter().map(|line| {
        let amount = format!("{} {}", line.amount, line.currency);
        let (calls, bytes) = (line.calls.to_string(), line.bytes.to_string());
        [&line.plan, &line.api, &line.operation, &calls, &bytes, &amount].map(|t| neutral::line(t))
    });
    let tiers = invoice.tiers.iter().map(|tier| {
        let calls = format!("{} to {}", tier.first, tier.last);
        let what = format!("each {}", tier.per_call);
        let amount = format!("{} {}", tier.amount, tier.currency);
        [tier.plan.as_str(), "", &what, &calls, "", &amount].map(neutral::line)
    });
    let rows: Vec<[String; 6]> = lines.chain(tiers).collect();
    output::text(&table(["PLAN", "API", "OPERATION", "CALLS", "BYTES", "AMOUNT"], &rows));
    for total in &invoice.totals {
        let due = format!("to be paid: {} {} (exactly {})", total.due, total.currency, total.exact);
        output::line(&neutral::line(&due));
    }
}
