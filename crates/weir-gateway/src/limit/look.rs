//! What limits say of a request that is only explained: nothing is taken, nothing counted.

use super::{Rejection, Standing};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};

/// What one limit says of a request that is not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Looked {
    pub(crate) which: Which,
    pub(crate) outcome: Result<Standing, Rejection>,
}

/// A limit of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// The rate of the consumer's plan.
    PlanRate,
    /// The next limit of API and route, in their order.
    Limit,
    /// The quota of the consumer's plan.
    Quota,
}

/// Counts a refusal; or tells the outcome, if nothing is to be counted.
pub(super) fn noted(
    outcome: Result<Standing, Rejection>,
    refused: &AtomicU64,
    which: Which,
    looked: Option<&RefCell<Vec<Looked>>>,
) -> Result<Standing, Rejection> {
    if let Some(looked) = looked {
        looked.borrow_mut().push(Looked { which, outcome });
    } else if outcome.is_err() {
        refused.fetch_add(1, Ordering::Relaxed);
    }
    outcome
}
