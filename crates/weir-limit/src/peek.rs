//! Decisions of limits about a request that is only explained: nothing is charged, nothing counted.

use super::{LimitRejection, LimitStatus};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The decision of one limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peek {
    /// Which limit.
    pub kind: LimitKind,
    /// Whether it would admit the request.
    pub outcome: Result<LimitStatus, LimitRejection>,
}

/// A limit of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// The rate of the consumer's plan.
    PlanRate,
    /// The next limit of API and route, in their order.
    Limit,
    /// The quota of the consumer's plan.
    Quota,
}

/// Counts a rejection; or reports the decision, for [`LimitPlan::peek`](crate::LimitPlan::peek).
pub(super) fn count_or_report(
    outcome: Result<LimitStatus, LimitRejection>,
    refused: &AtomicU64,
    kind: LimitKind,
    peeked: Option<&RefCell<Vec<Peek>>>,
) -> Result<LimitStatus, LimitRejection> {
    if let Some(peeked) = peeked {
        peeked.borrow_mut().push(Peek { kind, outcome });
    } else if outcome.is_err() {
        refused.fetch_add(1, Ordering::Relaxed);
    }
    outcome
}
