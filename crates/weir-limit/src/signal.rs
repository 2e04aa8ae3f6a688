//! Requests that wait for the answer to a demand.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use tokio::sync::Notify;

/// Ends the waits of all requests that need the same lease; for one answer.
#[derive(Debug, Default)]
pub(super) struct Signal {
    is_answered: AtomicBool,
    waiting: Notify,
}

impl Signal {
    pub(super) fn answer(&self) {
        self.is_answered.store(true, Release);
        self.waiting.notify_waiters();
    }
}

/// A request to the fleet for a lease. Once it is answered, the limits are tried again.
#[derive(Clone, Debug)]
pub struct Ask(Arc<Signal>);

impl Ask {
    pub(super) fn new(signal: &Arc<Signal>) -> Self {
        Self(Arc::clone(signal))
    }

    /// Waits until the fleet has answered, which may be never: the caller sets a deadline.
    pub async fn answered(&self) {
        // It receives every notification from here on.
        let notified = self.0.waiting.notified();
        if !self.0.is_answered.load(Acquire) {
            notified.await;
        }
    }
}
