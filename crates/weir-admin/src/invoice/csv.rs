//! Invoices as CSV (RFC 4180).

use crate::csv::field;
use weir_monitor::billing::Invoice;

const HEADER: &str = "kind,consumer,period,from,to,provisional,plan,api,operation,first_call,\
                      last_call,calls,bytes,price,currency,amount";

/// Invoices as one table: a row for each line, tier and total. A field that a spreadsheet would
/// interpret as a formula is prefixed with an apostrophe.
#[must_use]
pub fn csv(invoices: &[Invoice]) -> String {
    let mut out = format!("{HEADER}\r\n");
    for invoice in invoices {
        for line in &invoice.lines {
            let (calls, bytes) = (line.calls.to_string(), line.bytes.to_string());
            let numbers = ["", "", &calls, &bytes, ""];
            let names = [line.plan.as_str(), &line.api, &line.operation];
            let money = [line.currency.as_str(), &line.amount.to_string()];
            row(&mut out, "calls", invoice, names, numbers, money);
        }
        for tier in &invoice.tiers {
            let calls = (tier.last + 1).saturating_sub(tier.first).to_string();
            let (first, last) = (tier.first.to_string(), tier.last.to_string());
            let price = tier.per_call.to_string();
            let numbers = [first.as_str(), &last, &calls, "", &price];
            let money = [tier.currency.as_str(), &tier.amount.to_string()];
            row(&mut out, "tier", invoice, [&tier.plan, "", ""], numbers, money);
        }
        for total in &invoice.totals {
            for (kind, amount) in [("exact", &total.exact.to_string()), ("due", &total.due)] {
                row(&mut out, kind, invoice, [""; 3], [""; 5], [&total.currency, amount]);
            }
        }
    }
    out
}

fn row(
    out: &mut String,
    kind: &str,
    invoice: &Invoice,
    names: [&str; 3],
    numbers: [&str; 5],
    money: [&str; 2],
) {
    let provisional = if invoice.provisional { "yes" } else { "no" };
    let Invoice { consumer, period, from, to, .. } = invoice;
    let (from, to) = (from.to_string(), to.to_string());
    let head = [kind, consumer, period, &from, &to, provisional];
    let fields = head.into_iter().chain(names).chain(numbers).chain(money);
    let fields: Vec<String> = fields.map(field).collect();
    out.push_str(&fields.join(","));
    out.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_monitor::billing::{Line, TierLine, Total};

    #[test]
    fn each_line_tier_and_total_is_a_row() {
        let invoice = Invoice {
            consumer: "acme".to_owned(),
            period: "2026-11".to_owned(),
            lines: vec![Line {
                operation: "=cmd(\"x\"), y".to_owned(),
                calls: 7,
                amount: "0.5".parse().unwrap(),
                ..Line::default()
            }],
            tiers: vec![TierLine { first: 11, last: 15, ..TierLine::default() }],
            totals: vec![Total { due: "0.50".to_owned(), ..Total::default() }],
            ..Invoice::default()
        };
        let text = csv(&[invoice]);
        let rows: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(
            rows[1],
            "calls,acme,2026-11,1970-01-01T00:00:00Z,1970-01-01T00:00:00Z,no,,,\"'=cmd(\"\"x\"\"), y\",,,7,0,,,0.5"
        );
        assert_eq!(
            rows[2],
            "tier,acme,2026-11,1970-01-01T00:00:00Z,1970-01-01T00:00:00Z,no,,,,11,15,5,,0,,0"
        );
        assert_eq!(
            rows[4],
            "due,acme,2026-11,1970-01-01T00:00:00Z,1970-01-01T00:00:00Z,no,,,,,,,,,,0.50"
        );
        let columns = |row: &str| row.matches(',').count();
        assert_eq!(columns(rows[0]), columns(rows[4]));
    }
}
