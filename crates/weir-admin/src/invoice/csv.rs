//! Invoices as CSV (RFC 4180).

use crate::csv::field;
use weir_monitor::billing::{Invoice, Unbilled, totals};

const HEADER: &str = "kind,consumer,period,from,to,provisional,plan,api,operation,first_call,\
                      last_call,calls,bytes,price,currency,amount,rounded,status";

/// The fields of a row that differ by its kind; empty ones do not apply.
#[derive(Default)]
struct Row {
    names: [String; 3],
    first: String,
    last: String,
    calls: String,
    bytes: String,
    price: String,
    currency: String,
    amount: String,
    rounded: String,
    status: String,
}

/// Invoices as one table: a row for each line, tier and total, and for calls that are not billed; for
/// several invoices also their totals. A field that a spreadsheet would interpret as a formula is prefixed
/// with an apostrophe.
#[must_use]
pub fn csv(invoices: &[Invoice]) -> String {
    let mut out = format!("{HEADER}\r\n");
    for invoice in invoices {
        for line in &invoice.lines {
            let fields = Row {
                names: [line.plan.clone(), line.api.clone(), line.operation.clone()],
                calls: line.calls.to_string(),
                bytes: line.bytes.to_string(),
                ..money(&line.currency, line.amount, &line.rounded)
            };
            row(&mut out, "calls", invoice, fields);
        }
        for tier in &invoice.tiers {
            let fields = Row {
                names: [tier.plan.clone(), String::new(), String::new()],
                first: tier.first.to_string(),
                last: tier.last.to_string(),
                calls: (tier.last + 1).saturating_sub(tier.first).to_string(),
                price: tier.per_call.to_string(),
                ..money(&tier.currency, tier.amount, &tier.rounded)
            };
            row(&mut out, "tier", invoice, fields);
        }
        for total in &invoice.totals {
            row(&mut out, "exact", invoice, money(&total.currency, total.exact, &total.due));
            row(&mut out, "due", invoice, money(&total.currency, &total.due, &total.due));
        }
        unbilled(&mut out, invoice);
    }
    if let [first, _, ..] = invoices {
        let provisional = invoices.iter().any(|invoice| invoice.provisional);
        let all = Invoice { consumer: String::new(), provisional, ..first.clone() };
        for total in totals(invoices) {
            row(&mut out, "all", &all, money(&total.currency, total.exact, &total.due));
        }
    }
    out
}

fn unbilled(out: &mut String, invoice: &Invoice) {
    let Unbilled { lines, tiers, totals } = &invoice.unbilled;
    for line in lines {
        let fields = Row {
            names: [line.plan.clone(), line.api.clone(), line.operation.clone()],
            calls: line.calls.to_string(),
            status: line.status.to_string(),
            ..money(&line.currency, line.amount, &line.rounded)
        };
        row(out, "unbilled", invoice, fields);
    }
    for tier in tiers {
        let fields = Row {
            names: [tier.plan.clone(), String::new(), String::new()],
            calls: tier.calls.to_string(),
            ..money(&tier.currency, tier.amount, &tier.rounded)
        };
        row(out, "unbilled_tiers", invoice, fields);
    }
    for total in totals {
        let fields = money(&total.currency, total.exact, &total.rounded);
        row(out, "unbilled_total", invoice, fields);
    }
}

fn money(currency: &str, amount: impl ToString, rounded: &str) -> Row {
    let (currency, rounded) = (currency.to_owned(), rounded.to_owned());
    Row { currency, amount: amount.to_string(), rounded, ..Row::default() }
}

fn row(out: &mut String, kind: &str, invoice: &Invoice, fields: Row) {
    let provisional = if invoice.provisional { "yes" } else { "no" };
    let Invoice { consumer, period, from, to, .. } = invoice;
    let (from, to) = (from.to_string(), to.to_string());
    let head = [kind, consumer, period, &from, &to, provisional];
    let Row { names, first, last, calls, bytes, price, currency, amount, rounded, status } = fields;
    let rest = [first, last, calls, bytes, price, currency, amount, rounded, status];
    let head = head.into_iter().map(str::to_owned);
    let fields: Vec<String> = head.chain(names).chain(rest).map(|text| field(&text)).collect();
    out.push_str(&fields.join(","));
    out.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_monitor::Money;
    use weir_monitor::billing::{Line, TierLine, Total, UnbilledLine, UnbilledTiers};

    #[test]
    fn each_line_tier_and_total_is_a_row() {
        let invoice = Invoice {
            consumer: "acme".to_owned(),
            period: "2026-11".to_owned(),
            lines: vec![Line {
                operation: "=cmd(\"x\"), y".to_owned(),
                calls: 7,
                amount: "0.5".parse().unwrap(),
                rounded: "0.50".to_owned(),
                ..Line::default()
            }],
            tiers: vec![TierLine { first: 11, last: 15, ..TierLine::default() }],
            totals: vec![Total { due: "0.50".to_owned(), ..Total::default() }],
            unbilled: Unbilled {
                lines: vec![UnbilledLine { status: 429, calls: 3, ..UnbilledLine::default() }],
                tiers: vec![UnbilledTiers { calls: 3, ..UnbilledTiers::default() }],
                totals: vec![Money { rounded: "0.25".to_owned(), ..Money::default() }],
            },
            ..Invoice::default()
        };
        let text = csv(&[invoice.clone(), invoice]);
        let rows: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(
            rows[1],
            "calls,acme,2026-11,1970-01-01T00:00:00Z,1970-01-01T00:00:00Z,no,,,\"'=cmd(\"\"x\"\"), y\",,,7,0,,,0.5,0.50,"
        );
        assert_eq!(
            rows[2],
            "tier,acme,2026-11,1970-01-01T00:00:00Z,1970-01-01T00:00:00Z,no,,,,11,15,5,,0,,0,,"
        );
        assert_eq!(
            rows[4],
            "due,acme,2026-11,1970-01-01T00:00:00Z,1970-01-01T00:00:00Z,no,,,,,,,,,,0.50,0.50,"
        );
        let head = |kind: &str, who: &str| {
            format!("{kind},{who},2026-11,1970-01-01T00:00:00Z,1970-01-01T00:00:00Z,no,")
        };
        assert_eq!(rows[5], head("unbilled", "acme") + ",,,,,3,,,,0,,429");
        assert_eq!(rows[6], head("unbilled_tiers", "acme") + ",,,,,3,,,,0,,");
        assert_eq!(rows[7], head("unbilled_total", "acme") + ",,,,,,,,,0,0.25,");
        assert_eq!(rows[15], head("all", "") + ",,,,,,,,,0,1.00,");
        let columns = |row: &str| row.matches(',').count();
        assert!(rows[..16].iter().all(|row| columns(row) - usize::from(row.contains("cmd")) == 17));
    }
}
