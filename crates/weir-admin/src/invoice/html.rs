//! Invoices as a page to be printed: without scripts and external resources.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use weir_monitor::billing::{Invoice, Total, Unbilled, totals};

const STYLE: &str = "@page{size:A4;margin:20mm 18mm}\
body{font:10.5pt/1.4 system-ui,sans-serif;max-width:52em;margin:2em auto;padding:0 1em;color:#111}\
section{break-after:page;margin-bottom:4em}section:last-child{break-after:auto}\
header{display:flex;justify-content:space-between;gap:2em;border-bottom:2px solid #111;padding-bottom:.5em}\
h1{font-size:1.6em;margin:0}h2{font-size:1.05em;margin:1.5em 0 .25em;break-after:avoid}\
header p{margin:0;text-align:right}table{border-collapse:collapse;width:100%;margin:.5em 0}\
thead{display:table-header-group}tr{break-inside:avoid}\
th,td{text-align:left;vertical-align:top;padding:.25em .5em;border-bottom:1px solid #ccc;\
overflow-wrap:anywhere}th{border-bottom:1px solid #111}\
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
tr.due td{font-weight:bold;border-bottom:2px solid #111}.note,small{color:#555}\
@media print{body{margin:0;padding:0;max-width:none}section{margin:0}}";

/// A page with a sheet for each invoice, and one with the totals of several.
#[must_use]
pub fn html(invoices: &[Invoice]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { "Invoices" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                @for invoice in invoices { (section(invoice)) }
                @if let [first, _, ..] = invoices { (all(first, invoices)) }
                @if invoices.is_empty() { p { "No amounts due." } }
            }
        }
    };
    page.into_string()
}

fn section(invoice: &Invoice) -> Markup {
    let lines = invoice.lines.iter().map(|line| {
        let names = [line.plan.clone(), line.api.clone(), line.operation.clone()];
        let numbers = [line.calls.to_string(), line.bytes.to_string()];
        let money = [line.amount.to_string(), format!("{} {}", line.rounded, line.currency)];
        names.into_iter().chain(numbers).chain(money).collect()
    });
    let tiers = invoice.tiers.iter().map(|tier| {
        let calls = format!("{} to {}", tier.first, tier.last);
        let rounded = format!("{} {}", tier.rounded, tier.currency);
        let price = tier.per_call.to_string();
        vec![tier.plan.clone(), calls, price, tier.amount.to_string(), rounded]
    });
    html! {
        section {
            (head("Invoice", invoice, Some(&invoice.consumer)))
            @if invoice.provisional { p.note { "Provisional: calls may still be added." } }
            @for node in &invoice.unreported {
                p { (node.to_string()) "." }
            }
            @if invoice.uncounted > 0 {
                p.note {
                    (invoice.uncounted) " calls of all consumers in the period could not be metered "
                    "and are in no invoice."
                }
            }
            (table(&["Plan", "API", "Operation", "Calls", "Bytes", "Exact", "Amount"], 3, lines))
            @if !invoice.tiers.is_empty() {
                h2 { "Prices by volume" }
                (table(&["Plan", "Calls of the period", "Price per call", "Exact", "Amount"], 1, tiers))
            }
            (due(&invoice.totals))
            p.note {
                "The amount due is the exact sum, rounded once to the decimals of the currency, half away "
                "from zero. Rounded lines need not add up to it."
            }
            (unbilled(&invoice.unbilled))
        }
    }
}

fn head(title: &str, invoice: &Invoice, consumer: Option<&str>) -> Markup {
    html! {
        header {
            div {
                h1 { (title) }
                @if let Some(consumer) = consumer { strong { (consumer) } }
            }
            p {
                (invoice.period) " (" (invoice.zone) ")" br;
                small { "from " (invoice.from) br; "until before " (invoice.to) }
            }
        }
    }
}

fn due(totals: &[Total]) -> Markup {
    html! {
        table {
            @for total in totals {
                tr { td { "Exact sum" } td.n { (total.exact) " " (total.currency) } }
                tr.due { td { "Amount due" } td.n { (total.due) " " (total.currency) } }
            }
        }
    }
}

/// What is excluded, and what it would have cost.
fn unbilled(unbilled: &Unbilled) -> Markup {
    let Unbilled { lines, tiers, totals } = unbilled;
    if lines.is_empty() {
        return html! {};
    }
    let lines = lines.iter().map(|line| {
        let names = [line.plan.clone(), line.api.clone(), line.operation.clone()];
        let numbers = [line.status.to_string(), line.calls.to_string(), line.amount.to_string()];
        let rounded = format!("{} {}", line.rounded, line.currency);
        names.into_iter().chain(numbers).chain([rounded]).collect()
    });
    html! {
        h2 { "Not billed" }
        p.note { "Calls that the gateway itself has rejected (429) or failed (500 and above), and their price." }
        (table(&["Plan", "API", "Operation", "Status", "Calls", "Exact", "Amount"], 3, lines))
        table {
            @for tier in tiers {
                tr {
                    td { "Prices by volume of " (tier.plan) ", for " (tier.calls) " calls" }
                    td.n { (tier.rounded) " " (tier.currency) }
                }
            }
            @for total in totals {
                tr { td { "Not billed in all" } td.n { (total.rounded) " " (total.currency) } }
            }
        }
    }
}

/// The totals of several invoices.
fn all(first: &Invoice, invoices: &[Invoice]) -> Markup {
    html! {
        section {
            (head("All invoices", first, None))
            p.note { (invoices.len()) " invoices. The amount due is the sum of their amounts due." }
            (due(&totals(invoices)))
        }
    }
}

/// A table whose columns from `numbers` on are numeric.
fn table(header: &[&str], numbers: usize, rows: impl Iterator<Item = Vec<String>>) -> Markup {
    let class = |column: usize| (column >= numbers).then_some("n");
    html! {
        table {
            thead {
                tr {
                    @for (column, name) in header.iter().enumerate() {
                        th class=[class(column)] { (name) }
                    }
                }
            }
            tbody {
                @for row in rows {
                    tr {
                        @for (column, cell) in row.iter().enumerate() {
                            td class=[class(column)] { (cell) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_monitor::Money;
    use weir_monitor::billing::{Line, TierLine, UnbilledLine, UnbilledTiers};

    #[test]
    fn texts_are_escaped() {
        let evil = || "<script>\"'&".to_owned();
        let invoice = Invoice {
            consumer: evil(),
            period: evil(),
            zone: evil(),
            provisional: true,
            uncounted: 1,
            lines: vec![Line {
                plan: evil(),
                api: evil(),
                operation: evil(),
                currency: evil(),
                ..Line::default()
            }],
            tiers: vec![TierLine { plan: evil(), currency: evil(), ..TierLine::default() }],
            totals: vec![Total { currency: evil(), due: evil(), ..Total::default() }],
            unbilled: Unbilled {
                lines: vec![UnbilledLine {
                    plan: evil(),
                    api: evil(),
                    operation: evil(),
                    currency: evil(),
                    rounded: evil(),
                    ..UnbilledLine::default()
                }],
                tiers: vec![UnbilledTiers { plan: evil(), ..UnbilledTiers::default() }],
                totals: vec![Money { currency: evil(), ..Money::default() }],
            },
            ..Invoice::default()
        };
        let page = html(&[invoice]);
        assert!(!page.contains("<script") && !page.contains("\"'&"), "{page}");
        assert_eq!(page.matches("&lt;script&gt;&quot;'&amp;").count(), 19);
    }
}
