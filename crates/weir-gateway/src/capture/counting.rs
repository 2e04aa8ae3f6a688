//! Whether a call is counted, and why. What the Tracker does not record leaves a small record to be
//! counted, and nothing else.

use crate::exchange::Exchange;
use weir_config::{ConsumerId, Plan};
use weir_journal::counted;

/// What a record says about counting, as far as it is known who calls.
fn asked(exchange: &Exchange) -> u8 {
    if !exchange.live().site.config.monitor.enabled {
        return 0;
    }
    let Some((_, route)) = exchange.matched() else { return 0 };
    let again = exchange.resubmission.is_some() && route.resubmit.billed;
    let billed = if again { counted::BILLED } else { 0 };
    let rule = if route.count.is_for(consumer(exchange)) { counted::RULE } else { 0 };
    let plan = if plan(exchange).is_some_and(Plan::is_counted) { counted::PLAN } else { 0 };
    match rule | plan {
        0 => 0,
        asked => asked | billed,
    }
}

fn consumer(exchange: &Exchange) -> Option<ConsumerId> {
    exchange.consumer()
}

/// The plan of who calls.
pub(super) fn plan(exchange: &Exchange) -> Option<&Plan> {
    let config = &exchange.live().site.config;
    config.consumers[consumer(exchange)?.0].plan.map(|plan| &config.plans[plan.0])
}

/// Limits have let the call pass.
pub(crate) fn admitted(exchange: &mut Exchange) {
    let asked = asked(exchange);
    let quota = asked != 0 && plan(exchange).is_some_and(|plan| plan.quota.is_some());
    exchange.recording.counted = if quota { asked | counted::QUOTA } else { asked };
}

/// The call is turned away: nothing was done about it.
pub(super) fn rejected(exchange: &Exchange) -> u8 {
    let before = exchange.recording.counted;
    let asked = if before == 0 { asked(exchange) } else { before };
    let counts = exchange.live().site.config.monitor.counts.rejected;
    if asked & counted::QUOTA == 0 && !counts { 0 } else { asked | counted::REJECTED }
}
