//! Billing: prices of calls, and invoices.
//!
//! The [counter](crate::Counter) computes the price of each call with [`Prices`]. [`record_prices`]
//! stores which prices are in force from when on. [`invoices`] combines both.

mod invoice;
mod period;

pub use crate::price_list::{Rule, record_prices};
pub use invoice::{Invoice, Line, TierLine, Total, Unbilled, UnbilledLine, UnbilledTiers, totals};
pub use period::{PeriodError, period};

use crate::{Charge, Group, Monitor, Usage, UsageError, price_list};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_expr::CallFacts;
use weir_expr::price::Price;
use weir_journal::CallRecord;
use weir_model::UnixSeconds;
use weir_store::StoreError;

/// Most lines of all invoices of a period together: combinations of a month, and not of a report for people.
const MAX_LINES: usize = 500_000;
use weir_store::gaps::Gaps;

/// Selects invoices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvoiceQuery {
    /// Consumer; `None`: all.
    pub consumer: Option<String>,
    /// Month (`2026-11`), year or day.
    pub period: String,
    /// Time zone of the period.
    pub zone: String,
}

/// Why an invoice cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum BillingError {
    /// The period is invalid.
    #[error(transparent)]
    Period(#[from] PeriodError),
    /// The gaps cannot be read.
    #[error(transparent)]
    Gaps(#[from] StoreError),
    /// The counts cannot be read, or are too many.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// Minutes are purged, and the period does not start and end with an hour.
    #[error(
        "minutes of that time are not kept any more, and it does not begin and end with an hour of UTC"
    )]
    NotKept,
    /// The period starts before the counts that are left.
    #[error(
        "what was counted before {until} is not kept any more, and that time begins earlier; ask \
         for one that begins then or later, and have `monitor.keep` say how long counts are needed"
    )]
    Dropped {
        /// Counts before this time may be purged.
        until: String,
    },
    /// The currency of a plan was changed within the period.
    #[error(
        "the plan `{plan}` was in {before} and in {after} within that time; ask for the times before and after the change"
    )]
    Currency {
        /// The plan.
        plan: String,
        /// The currency before.
        before: String,
        /// The currency at the end.
        after: String,
    },
}

/// Prices of calls, independent of the current Config, and the number of calls without a price.
#[derive(Clone, Debug, Default)]
pub struct Prices(Arc<AtomicU64>);

impl Prices {
    /// The price of a call by its plan, for the counter; `None` if no plan has one.
    pub fn of_calls<'a>(
        &self,
        plans: impl Iterator<Item = (&'a str, Option<&'a Price>)>,
    ) -> Option<Arc<crate::Price>> {
        let priced = plans.filter_map(|(plan, price)| Some((plan.to_owned(), price?.clone())));
        let prices: HashMap<String, Price> = priced.collect();
        if prices.is_empty() {
            return None;
        }
        let unpriced = Arc::clone(&self.0);
        Some(Arc::new(move |call: &CallRecord<'_>| {
            let Some(price) = prices.get(call.plan) else { return Charge::default() };
            let charge = price.of_call(&facts(call));
            if charge.unpriced {
                unpriced.fetch_add(1, Ordering::Relaxed);
            }
            let excluded = is_gateway_error(call.problem_status) && !price.bill_gateway_errors;
            let unbilled = if excluded { call.problem_status } else { 0 };
            Charge { units: charge.amount.units(), unbilled }
        }))
    }

    /// Calls without a price because the expression of their plan failed.
    #[must_use]
    pub fn unpriced(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Whether weir itself has rejected a call because of a limit, or failed, by the status of its problem; 0
/// without one. Other rejections are the fault of the request.
fn is_gateway_error(problem_status: u16) -> bool {
    problem_status == 429 || problem_status >= 500
}

fn facts(call: &CallRecord<'_>) -> CallFacts {
    CallFacts {
        api: call.api.to_owned(),
        operation: call.operation.to_owned(),
        consumer: call.consumer.to_owned(),
        status: call.status,
        request_bytes: call.request_bytes,
        response_bytes: call.response_bytes,
        duration_ms: u64::from(call.micros) / 1000,
    }
}

/// The invoices that a query selects, with the gaps of its period.
///
/// # Errors
/// [`BillingError`].
pub fn find_invoices(
    monitor: &Monitor,
    gaps: &Gaps,
    query: &InvoiceQuery,
) -> Result<Vec<Invoice>, BillingError> {
    let InvoiceQuery { consumer, period: text, zone } = query;
    let range = period(text, zone)?;
    let found = invoices(monitor, consumer.as_deref(), &range)?;
    let uncounted = gaps.between(range.start, range.end)?.uncounted;
    let complete =
        |invoice| Invoice { period: text.clone(), zone: zone.clone(), uncounted, ..invoice };
    Ok(found.into_iter().map(complete).collect())
}

/// The invoices of a period, in seconds since 1970: of one consumer, or of all with calls of a plan
/// that has a price. They are provisional while calls of the period may still be counted.
///
/// # Errors
/// [`BillingError`].
pub fn invoices(
    monitor: &Monitor,
    consumer: Option<&str>,
    period: &Range<u64>,
) -> Result<Vec<Invoice>, BillingError> {
    let rules = rules(monitor, period)?;
    // Before the counts are read, so that they include all calls before `complete`.
    let (complete, purged) = monitor.complete_and_purged().map_err(UsageError::Monitor)?;
    if period.start < purged {
        return Err(BillingError::Dropped { until: UnixSeconds(purged).to_string() });
    }
    let usage = Usage {
        from: period.start,
        to: Some(period.end),
        consumer: consumer.map(str::to_owned),
        by: vec![Group::Consumer, Group::Plan, Group::Operation, Group::Unbilled],
        max_rows: Some(MAX_LINES),
        ..Usage::default()
    };
    let report = monitor.usage(&usage)?;
    let fits = report.from.0 >= period.start && report.to.0 <= period.end;
    if !report.rows.is_empty() && !fits {
        return Err(BillingError::NotKept);
    }
    let mut counted: BTreeMap<String, Vec<(u16, Line)>> = BTreeMap::new();
    for row in report.rows {
        let consumer = row.consumer.unwrap_or_default();
        let plan = row.plan.unwrap_or_default();
        let unbilled = row.unbilled.unwrap_or_default();
        let amounts = if unbilled == 0 { row.amounts } else { row.unbilled_amounts };
        let amount = amounts.get(&plan).copied().unwrap_or_default();
        let line = Line {
            plan,
            api: row.api.unwrap_or_default(),
            operation: row.operation.unwrap_or_default(),
            calls: row.calls,
            bytes: row.request_bytes.saturating_add(row.response_bytes),
            amount,
            ..Line::default()
        };
        counted.entry(consumer).or_default().push((unbilled, line));
    }
    let invoices = counted.into_iter().map(|(consumer, lines)| Invoice {
        from: UnixSeconds(period.start),
        to: UnixSeconds(period.end),
        provisional: complete < period.end,
        ..invoice::invoice(&consumer, lines, &rules)
    });
    // Calls without a consumer are not billed.
    Ok(invoices
        .filter(|invoice| !invoice.totals.is_empty() && !invoice.consumer.is_empty())
        .collect())
}

/// The prices with which a period is billed.
fn rules(monitor: &Monitor, period: &Range<u64>) -> Result<BTreeMap<String, Rule>, BillingError> {
    let found =
        monitor.query(|database| Ok::<_, UsageError>(price_list::in_period(database, period)?))?;
    let one = |(plan, (rule, others)): (String, (Rule, Vec<String>))| match others
        .into_iter()
        .find(|other| *other != rule.currency)
    {
        Some(before) => Err(BillingError::Currency { plan, before, after: rule.currency }),
        None => Ok((plan, rule)),
    };
    found.into_iter().map(one).collect()
}
