//! Invoices of a data folder: metered usage with prices.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use weir_admin::invoice::{Billing, Invoice, InvoiceFailure, Line, Tier, Total, Wanted};
use weir_config::Config;
use weir_monitor::billing::{self, BillingError, period};
use weir_monitor::{Monitor, Settings, UsageError};
use weir_store::gaps::Gaps;

/// Time that a call may exceed its limit.
const MARGIN: Duration = Duration::from_secs(5);

/// Prices of calls, independent of the current Config, and the number of calls without a price.
#[derive(Clone, Debug, Default)]
pub(crate) struct Prices(Arc<AtomicU64>);

impl Prices {
    /// Metering rules of a Config.
    pub(crate) fn settings(&self, config: &Config) -> Settings {
        let price = billing::pricing(config, &self.0);
        let routes = config.apis.iter().flat_map(|api| &api.routes);
        // One without a limit may last for ever, and no invoice waits for that.
        let longest = routes.filter_map(|route| route.timeout).max().unwrap_or_default();
        let max_call_time = longest.saturating_add(MARGIN);
        Settings { price, max_call_time, ..Settings::new(&config.monitor) }
    }

    /// Calls without a price because the expression of their plan failed.
    pub(crate) fn unpriced(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Access for the admin API.
pub(crate) fn doors(monitor: Monitor, gaps: Gaps) -> Billing {
    Billing { invoices: Box::new(move |wanted| invoices(&monitor, &gaps, wanted)) }
}

/// The invoices of a data folder that is not in use by a server.
///
/// # Errors
/// The invoices cannot be read; the message has the reason.
pub(crate) fn read(data: &Path, wanted: &Wanted) -> anyhow::Result<Vec<Invoice>> {
    anyhow::ensure!(weir_store::exists(data), "{} has no metering data", data.display());
    Ok(invoices(&Monitor::read(data), &Gaps::new(data), wanted)?)
}

fn invoices(
    monitor: &Monitor,
    gaps: &Gaps,
    wanted: &Wanted,
) -> Result<Vec<Invoice>, InvoiceFailure> {
    let Wanted { consumer, period: text, zone } = wanted;
    let asked = period(text, zone).map_err(|error| InvoiceFailure::Wanted(error.to_string()))?;
    let made = billing::invoices(monitor, consumer.as_deref(), &asked);
    let made = made.map_err(|error| match error {
        BillingError::Usage(error @ UsageError::Monitor(_)) => {
            InvoiceFailure::Unreadable(error.to_string())
        }
        error => InvoiceFailure::Wanted(error.to_string()),
    })?;
    let missing = gaps.between(asked.start, asked.end);
    let missing = missing.map_err(|error| InvoiceFailure::Unreadable(error.to_string()))?;
    Ok(made.into_iter().map(|invoice| shown(invoice, wanted, missing.uncounted)).collect())
}

fn shown(invoice: billing::Invoice, wanted: &Wanted, uncounted: u64) -> Invoice {
    let time = |second: u64| {
        let second = i64::try_from(second).unwrap_or(0);
        jiff::Timestamp::from_second(second).unwrap_or_default().to_string()
    };
    Invoice {
        consumer: invoice.consumer,
        period: wanted.period.clone(),
        zone: wanted.zone.clone(),
        from: time(invoice.period.start),
        to: time(invoice.period.end),
        provisional: invoice.provisional,
        uncounted,
        lines: invoice.lines.into_iter().map(line).collect(),
        tiers: invoice.tiers.into_iter().map(tier).collect(),
        totals: invoice.totals.iter().map(total).collect(),
    }
}

fn line(line: billing::Line) -> Line {
    let billing::Line { plan, api, operation, calls, bytes, currency, amount } = line;
    Line { plan, api, operation, calls, bytes, currency, amount: amount.to_string() }
}

fn tier(tier: billing::TierLine) -> Tier {
    let billing::TierLine { plan, first, last, per_call, currency, amount } = tier;
    let (per_call, amount) = (per_call.to_string(), amount.to_string());
    Tier { plan, first, last, per_call, currency, amount }
}

fn total(total: &billing::Total) -> Total {
    Total {
        currency: total.currency.clone(),
        exact: total.exact.to_string(),
        due: total.due().fixed(total.decimals),
    }
}
