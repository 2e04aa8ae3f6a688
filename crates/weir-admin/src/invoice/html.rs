//! Invoices as a page to be printed: without scripts and external resources.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use weir_monitor::billing::Invoice;

const STYLE: &str = "body{font:11pt/1.4 system-ui,sans-serif;max-width:60em;margin:2em auto;color:#111}\
section{break-after:page}table{border-collapse:collapse;width:100%;margin:1em 0}\
th,td{text-align:left;padding:.25em .5em;border-bottom:1px solid #ccc}\
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\
tr.due td{font-weight:bold;border-bottom:2px solid #111}.note{color:#555}\
@media print{body{margin:0;max-width:none}}";

/// A page with a sheet for each invoice.
#[must_use]
pub fn html(invoices: &[Invoice]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { "Invoices" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                @for invoice in invoices { (section(invoice)) }
                @if invoices.is_empty() { p { "No amounts due." } }
            }
        }
    };
    page.into_string()
}

fn section(invoice: &Invoice) -> Markup {
    let lines = invoice.lines.iter().map(|line| {
        let amount = format!("{} {}", line.amount, line.currency);
        let names = [line.plan.clone(), line.api.clone(), line.operation.clone()];
        let numbers = [line.calls.to_string(), line.bytes.to_string(), amount];
        names.into_iter().chain(numbers).collect()
    });
    let tiers = invoice.tiers.iter().map(|tier| {
        let calls = format!("{} to {}", tier.first, tier.last);
        let amount = format!("{} {}", tier.amount, tier.currency);
        vec![tier.plan.clone(), calls, tier.per_call.to_string(), amount]
    });
    html! {
        section {
            h1 { "Invoice" }
            p {
                strong { (invoice.consumer) } br;
                (invoice.period) " (" (invoice.zone) ")" br;
                span.note { "from " (invoice.from) " until before " (invoice.to) }
            }
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
            (table(&["Plan", "API", "Operation", "Calls", "Bytes", "Amount"], 3, lines))
            @if !invoice.tiers.is_empty() {
                (table(&["Plan", "Calls of the period", "Price per call", "Amount"], 1, tiers))
            }
            table {
                @for total in &invoice.totals {
                    tr { td { "Total" } td.n { (total.exact) " " (total.currency) } }
                    tr.due { td { "Amount due" } td.n { (total.due) " " (total.currency) } }
                }
            }
            p.note { "Lines are exact. Only the amount due is rounded, half up." }
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
    use weir_monitor::billing::{Line, TierLine, Total};

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
            ..Invoice::default()
        };
        let page = html(&[invoice]);
        assert!(!page.contains("<script") && !page.contains("\"'&"), "{page}");
        assert_eq!(page.matches("&lt;script&gt;&quot;'&amp;").count(), 12);
    }
}
