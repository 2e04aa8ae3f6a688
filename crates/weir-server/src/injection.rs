//! Injection of requests without a socket: replays of recorded requests and test requests of
//! operators are passed to a worker over a bounded channel, and are served by [`flow`] like any
//! other.
//!
//! A replay has its recorded principal instead of a credential; plan, limits, validation and scopes
//! are the current ones. It is journaled like any request, under an id that is chosen before it is
//! sent. Its sender receives the status of the response; the response itself is in the journal.

mod plan;
mod serve;
mod test_request;

pub(crate) use serve::receive;
pub(crate) use test_request::TestRequest;
pub use test_request::{TRIED_BY, TestOutcome};

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use weir_gateway::site::Site;
use weir_gateway::worker::Shared;
use weir_model::{OnDone, RejectionReason, ReplayOutcome, ReplayRequest};

/// Requests queued for one worker.
pub(crate) const MAX_QUEUED: usize = 64;
/// Injected requests that one worker serves concurrently.
pub(crate) const MAX_CONCURRENT: usize = 64;

/// An injected request.
pub(crate) enum Injected {
    /// A replay of a recorded request.
    Replay(PendingReplay),
    /// A test request of an operator.
    TestRequest(Box<TestRequest>),
}

/// A replay in progress. Its callback is always called, with `Unknown` if it is dropped.
pub(crate) struct PendingReplay {
    pub(crate) request: Box<ReplayRequest>,
    /// `None` once called.
    on_done: Option<OnDone>,
    shared: Arc<Shared>,
}

impl PendingReplay {
    pub(crate) fn new(request: Box<ReplayRequest>, on_done: OnDone, shared: Arc<Shared>) -> Self {
        shared.resubmissions.fetch_add(1, Relaxed);
        Self { request, on_done: Some(on_done), shared }
    }

    fn finish(mut self, outcome: ReplayOutcome) {
        self.on_done(outcome);
    }

    fn on_done(&mut self, outcome: ReplayOutcome) {
        if let Some(on_done) = self.on_done.take() {
            on_done(outcome);
        }
    }
}

impl Drop for PendingReplay {
    fn drop(&mut self) {
        self.shared.resubmissions.fetch_sub(1, Relaxed);
        self.on_done(ReplayOutcome::Unknown);
    }
}

/// Checks whether this Config allows a replay; limits are not checked.
pub(crate) fn check(site: &Site, request: &ReplayRequest) -> Result<(), RejectionReason> {
    plan::plan(site, request).map(|_| ())
}
