//! Whether a call is counted, and why. What the Tracker does not record leaves a small record to be
//! counted, and nothing else.

use crate::transaction::Transaction;
use weir_config::Plan;
use weir_journal::counted;

/// What a record says about counting, as far as it is known who calls.
fn reasons(of: &Transaction<'_>) -> u8 {
    let request = &of.request;
    if !request.config.monitor.enabled {
        return 0;
    }
    let Some(route) = request.route else { return 0 };
    let replay = of.resubmission_of.is_some() && route.resubmit.billed;
    let billed = if replay { counted::BILLED } else { 0 };
    let rule = if route.count.is_for(request.consumer()) { counted::RULE } else { 0 };
    let plan = if request.plan().is_some_and(Plan::is_counted) { counted::PLAN } else { 0 };
    match rule | plan {
        0 => 0,
        reasons => reasons | billed,
    }
}

/// Limits have let the call pass.
pub(super) fn admitted(of: &Transaction<'_>) -> u8 {
    let reasons = reasons(of);
    let quota = reasons != 0 && of.request.plan().is_some_and(|plan| plan.quota.is_some());
    if quota { reasons | counted::QUOTA } else { reasons }
}

/// The call is turned away: nothing was done about it. `before` is what admission said.
pub(super) fn rejected(before: u8, of: &Transaction<'_>) -> u8 {
    let reasons = if before == 0 { reasons(of) } else { before };
    let counts = of.request.config.monitor.counts.rejected;
    if reasons & counted::QUOTA == 0 && !counts { 0 } else { reasons | counted::REJECTED }
}
