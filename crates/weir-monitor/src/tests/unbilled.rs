//! Gateway errors: responses of weir itself, which a plan bills only if it says so.

use super::*;
use crate::billing::{Invoice, Prices, invoices, record_prices};
use weir_expr::price::{self, Tier};

fn price(bill_gateway_errors: bool) -> price::Price {
    let amount = |text: &str| text.parse::<Amount>().unwrap();
    price::Price {
        per_call: amount("0.1"),
        per_kib: Amount::ZERO,
        cel: None,
        tiers: vec![
            Tier { up_to: Some(4), per_call: amount("1") },
            Tier { up_to: None, per_call: amount("0.5") },
        ],
        currency: "EUR".to_owned(),
        decimals: 2,
        bill_gateway_errors,
    }
}

/// A bench that counts all calls by the price of a plan.
fn bench(price: &price::Price) -> Bench {
    let mut bench = Bench::new();
    bench.settings.counts.rejected = true;
    bench.settings.price = Prices::default().of_calls([("gold", Some(price))].into_iter());
    let mut database = weir_store::open(bench.data.path()).unwrap();
    record_prices(&mut database, [("gold", Some(price))].into_iter(), midnight() - 60).unwrap();
    bench
}

/// Calls with their status, and the status of the problem if the response is weir's.
fn record(bench: &mut Bench, calls: &[(u16, u16)]) {
    for (status, problem_status) in calls {
        let (received, end) = call(midnight() + 60, "acme");
        let outcome = if *status >= 500 { Outcome::Failed } else { Outcome::Completed };
        let (status, problem_status) = (*status, *problem_status);
        bench.record((received, Completed { status, problem_status, outcome, ..end }));
    }
}

fn invoice(bench: &Bench) -> Invoice {
    let (monitor, mut counter) = bench.open();
    counter.catch_up().unwrap();
    let period = midnight()..midnight() + DAY;
    let mut found = invoices(&monitor, None, &period).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

fn unbilled(invoice: &Invoice) -> Vec<(u16, u64)> {
    invoice.unbilled.lines.iter().map(|line| (line.status, line.calls)).collect()
}

/// A response of the upstream with every status that weir has, too, and weir's own.
const CALLS: [(u16, u16); 16] = [
    (200, 0),
    (200, 0),
    (429, 0),
    (500, 0),
    (503, 0),
    (400, 400),
    (401, 401),
    (403, 403),
    (413, 413),
    (429, 429),
    (429, 429),
    (502, 502),
    (503, 503),
    (504, 504),
    (500, 500),
    (429, 429),
];

#[test]
fn what_weir_itself_rejects_or_fails_is_shown_and_not_billed() {
    let mut bench = bench(&price(false));
    record(&mut bench, &CALLS);
    let invoice = invoice(&bench);
    let [line] = &invoice.lines[..] else { panic!("{invoice:?}") };
    assert_eq!((line.calls, line.rounded.as_str()), (9, "0.90"));
    assert!(!line.gateway_errors);
    assert_eq!(invoice.tiers.last().unwrap().last, 9, "no tier is filled by the others");
    assert_eq!(invoice.totals[0].due, "7.40");
    assert_eq!(unbilled(&invoice), [(429, 3), (500, 1), (502, 1), (503, 1), (504, 1)]);
    assert_eq!(invoice.unbilled.tiers[0].amount.to_string(), "3.5");
    assert_eq!(invoice.unbilled.totals[0].exact.to_string(), "4.2");
    // Usage has all calls, and tells which are not billed.
    let (monitor, _counter) = bench.open();
    let report = monitor.usage(&Usage::default()).unwrap();
    assert_eq!((report.rows[0].calls, report.rows[0].unbilled_calls), (16, 7));
    assert_eq!(
        (report.costs[0].rounded.as_str(), report.unbilled_costs[0].rounded.as_str()),
        ("0.90", "0.70")
    );
    assert_eq!(report.rows[0].costs, report.costs);
    let by = Usage { by: vec![Group::Unbilled], ..Usage::default() };
    let rows: Vec<_> =
        monitor.usage(&by).unwrap().rows.iter().map(|row| (row.unbilled, row.calls)).collect();
    assert_eq!(rows[..2], [(Some(0), 9), (Some(429), 3)]);
}

#[test]
fn a_plan_may_bill_them() {
    let mut bench = bench(&price(true));
    record(&mut bench, &CALLS);
    let invoice = invoice(&bench);
    assert_eq!((invoice.lines[0].calls, invoice.totals[0].due.as_str()), (16, "11.60"));
    assert_eq!(invoice.unbilled, crate::billing::Unbilled::default());
    assert!(invoice.lines[0].gateway_errors);
}

#[test]
fn a_consumer_without_billed_calls_owes_nothing_and_sees_why() {
    let mut bench = bench(&price(false));
    record(&mut bench, &[(503, 503)]);
    let invoice = invoice(&bench);
    assert_eq!((invoice.lines.len(), invoice.totals[0].due.as_str()), (0, "0.00"));
    assert_eq!(unbilled(&invoice), [(503, 1)]);
}

#[test]
fn a_rebuild_comes_to_the_same_invoice() {
    let mut bench = bench(&price(false));
    record(&mut bench, &CALLS);
    let before = invoice(&bench);
    let (_monitor, mut counter) = bench.open();
    let rebuilt = counter.rebuild().unwrap();
    drop(counter);
    assert_eq!((rebuilt.before, rebuilt.after), (16, 16));
    assert_eq!(invoice(&bench), before);
}

#[test]
fn calls_that_are_not_billed_take_no_room_of_those_that_are() {
    let mut bench = bench(&price(false));
    bench.settings.cardinality = 1;
    record(&mut bench, &[(429, 429), (500, 500), (502, 502), (503, 503), (504, 504)]);
    bench.total();
    record(&mut bench, &[(200, 0)]);
    bench.total();
    let (monitor, _counter) = bench.open();
    let by = vec![Group::Operation, Group::Unbilled];
    let rows = monitor.usage(&Usage { by, ..Usage::default() }).unwrap().rows;
    let billed: Vec<_> = rows.iter().filter(|row| row.unbilled == Some(0)).collect();
    assert_eq!(billed.len(), 1, "{rows:?}");
    assert_ne!(billed[0].operation.as_deref(), Some(OTHER), "{rows:?}");
    assert_eq!(rows.iter().map(|row| row.calls).sum::<u64>(), 6);
}

#[test]
fn beyond_the_limit_of_combinations_nothing_more_is_billed() {
    let mut bench = bench(&price(false));
    bench.settings.cardinality = 1;
    record(&mut bench, &[(200, 0), (429, 429), (503, 503)]);
    let invoice = invoice(&bench);
    assert_eq!(invoice.lines.iter().map(|line| line.calls).sum::<u64>(), 1);
}
