//! Whether a call is counted, and why. A call that the Tracker does not record leaves a small
//! count-only record.

use crate::client_request::ClientRequest;
use crate::transaction::Transaction;
use weir_config::Plan;
use weir_journal::counted;

/// The reasons in the record, as far as the consumer is known.
fn reasons(request: &ClientRequest<'_>, is_replay: bool) -> u8 {
    if !request.config.monitor.enabled {
        return 0;
    }
    let Some(route) = request.route else { return 0 };
    let billed = if is_replay && route.resubmit.billed { counted::BILLED } else { 0 };
    let rule = if route.count.is_for(request.consumer()) { counted::RULE } else { 0 };
    let plan = if request.plan().is_some_and(Plan::is_counted) { counted::PLAN } else { 0 };
    match rule | plan {
        0 => 0,
        reasons => reasons | billed,
    }
}

/// The reasons for a call that the limits have admitted.
pub(super) fn admitted(request: &ClientRequest<'_>, is_replay: bool) -> u8 {
    let reasons = reasons(request, is_replay);
    let quota = reasons != 0 && request.plan().is_some_and(|plan| plan.quota.is_some());
    if quota { reasons | counted::QUOTA } else { reasons }
}

/// The call is rejected before its handler runs. `before` are the reasons at admission.
pub(super) fn rejected(before: u8, of: &Transaction<'_>) -> u8 {
    let reasons = match before {
        0 => reasons(&of.request, of.resubmission_of.is_some()),
        before => before,
    };
    let counts = of.request.config.monitor.counts.rejected;
    if reasons & counted::QUOTA == 0 && !counts { 0 } else { reasons | counted::REJECTED }
}
