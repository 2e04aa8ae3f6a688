//! Invoices as a page to be printed: no script, nothing from elsewhere.

use super::Invoice;
use std::fmt::Write as _;

const STYLE: &str = "body{font:11pt/1.4 system-ui,sans-serif;max-width:60em;margin:2em auto;color:#111}\
section{break-after:page}table{border-collapse:collapse;width:100%;margin:1em 0}\
th,td{text-align:left;padding:.25em .5em;border-bottom:1px solid #ccc}\
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}\
tr.due td{font-weight:bold;border-bottom:2px solid #111}.note{color:#555}\
@media print{body{margin:0;max-width:none}}";

/// One page with each invoice on a sheet of its own.
#[must_use]
pub fn html(invoices: &[Invoice]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <title>Invoices</title><style>{STYLE}</style></head><body>\n"
    );
    for invoice in invoices {
        section(&mut page, invoice);
    }
    if invoices.is_empty() {
        page.push_str("<p>Nobody has to pay anything.</p>\n");
    }
    page.push_str("</body></html>\n");
    page
}

fn section(page: &mut String, invoice: &Invoice) {
    let Invoice { consumer, period, zone, from, to, .. } = invoice;
    let [consumer, period, zone, from, to] = [consumer, period, zone, from, to].map(|t| escaped(t));
    // Writing to a String cannot fail.
    let _ = writeln!(
        page,
        "<section><h1>Invoice</h1><p><strong>{consumer}</strong><br>{period} ({zone})<br>\
         <span class=\"note\">from {from} until before {to}</span></p>"
    );
    if invoice.provisional {
        page.push_str("<p class=\"note\">Provisional: calls may still be added.</p>\n");
    }
    if invoice.uncounted > 0 {
        let calls = invoice.uncounted;
        let _ = writeln!(
            page,
            "<p class=\"note\">{calls} calls of the period, of whomever, could not be counted and \
             are in no invoice.</p>"
        );
    }
    let header = ["Plan", "API", "Operation", "Calls", "Bytes", "Amount"];
    table(
        page,
        &header,
        3,
        invoice.lines.iter().map(|line| {
            let amount = format!("{} {}", line.amount, line.currency);
            let names = [line.plan.clone(), line.api.clone(), line.operation.clone()];
            let numbers = [line.calls.to_string(), line.bytes.to_string(), amount];
            names.into_iter().chain(numbers).collect()
        }),
    );
    if !invoice.tiers.is_empty() {
        let header = ["Plan", "Calls of the period", "Price of each", "Amount"];
        table(
            page,
            &header,
            1,
            invoice.tiers.iter().map(|tier| {
                let calls = format!("{} to {}", tier.first, tier.last);
                let amount = format!("{} {}", tier.amount, tier.currency);
                vec![tier.plan.clone(), calls, tier.per_call.clone(), amount]
            }),
        );
    }
    page.push_str("<table>\n");
    for total in &invoice.totals {
        let [currency, exact, due] =
            [&total.currency, &total.exact, &total.due].map(|t| escaped(t));
        let _ = writeln!(
            page,
            "<tr><td>Sum</td><td class=\"n\">{exact} {currency}</td></tr>\n\
             <tr class=\"due\"><td>To be paid</td><td class=\"n\">{due} {currency}</td></tr>"
        );
    }
    page.push_str(
        "</table><p class=\"note\">Lines are exact; only what is to be paid is rounded, a half \
         upwards.</p></section>\n",
    );
}

/// A table whose columns from `numbers` on are numbers.
fn table(
    page: &mut String,
    header: &[&str],
    numbers: usize,
    rows: impl Iterator<Item = Vec<String>>,
) {
    let class = |column: usize| if column < numbers { "" } else { " class=\"n\"" };
    page.push_str("<table><thead><tr>");
    for (column, name) in header.iter().enumerate() {
        let _ = write!(page, "<th{}>{}</th>", class(column), escaped(name));
    }
    page.push_str("</tr></thead><tbody>\n");
    for row in rows {
        page.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let _ = write!(page, "<td{}>{}</td>", class(column), escaped(cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table>\n");
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::invoice::{Line, Tier, Total};

    #[test]
    fn nothing_in_it_is_markup() {
        let evil = || "<script>\"'&".to_owned();
        let invoice = Invoice {
            consumer: evil(),
            period: evil(),
            zone: evil(),
            from: evil(),
            to: evil(),
            provisional: true,
            uncounted: 1,
            lines: vec![Line {
                plan: evil(),
                api: evil(),
                operation: evil(),
                currency: evil(),
                amount: evil(),
                ..Line::default()
            }],
            tiers: vec![Tier {
                plan: evil(),
                per_call: evil(),
                currency: evil(),
                amount: evil(),
                ..Tier::default()
            }],
            totals: vec![Total { currency: evil(), exact: evil(), due: evil() }],
        };
        let page = html(&[invoice]);
        assert!(!page.contains("<script") && !page.contains("\"'&"), "{page}");
        assert_eq!(page.matches("&lt;script&gt;&quot;&#39;&amp;").count(), 18);
    }
}
