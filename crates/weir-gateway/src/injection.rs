//! Injection of requests without a socket: replays of recorded requests and test requests of operators
//! go to a worker over a bounded channel, and are served by [`flow`] like any other.
//!
//! A replay has its recorded principal instead of a credential; plan, limits, validation and scopes are
//! the current ones. It is journaled like any request, under an id that is chosen before it is sent.
//! Its sender gets the status of the response; the response itself is in the journal.

mod plan;
mod serve;
mod test_request;

pub(crate) use serve::receive;
pub(crate) use test_request::TestRequest;
pub use test_request::{TRIED_BY, TestOutcome};

use crate::problem::Problem;
use crate::site::Site;
use crate::worker::Shared;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Requests queued for one worker.
pub(crate) const MAX_QUEUED: usize = 64;
/// Injected requests that one worker serves concurrently.
pub(crate) const MAX_CONCURRENT: usize = 64;

/// A recorded request, to be made again. Text that is empty is absent.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Resubmission {
    /// The transaction id it gets: a UUIDv7 that was never used.
    pub id: [u8; 16],
    /// The transaction that is sent again.
    pub of: [u8; 16],
    /// Name of the API it came to; it goes to no other.
    pub api: String,
    /// Operation of a route that it goes to instead of its own.
    pub to: Option<String>,
    /// Method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Header lines. Credentials among them go no further.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The whole body.
    pub body: Vec<u8>,
    /// It is not as it was.
    pub edited: bool,
    /// Address of the client that sent it.
    pub client: Option<IpAddr>,
    /// The client used https.
    pub https: bool,
    /// Name of the auth that proved who sent it.
    pub auth: String,
    /// Subject of the credential.
    pub principal: String,
    /// Name of the consumer.
    pub consumer: String,
    /// Scopes that were granted, with spaces between.
    pub scopes: String,
}

impl std::fmt::Debug for Resubmission {
    /// Neither headers nor body nor query.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resubmission")
            .field("id", &uuid::Uuid::from_bytes(self.id))
            .field("of", &uuid::Uuid::from_bytes(self.of))
            .field("api", &self.api)
            .finish_non_exhaustive()
    }
}

/// Why a request is not made again: nothing was done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its consumer is none any more.
    ConsumerGone,
    /// The route asks for a scope that was not granted.
    ScopeMissing,
    /// Who sent it has no way into the route now.
    NotAdmitted,
    /// No route of its API takes it.
    RouteGone,
    /// The route does not list the other one.
    TargetNotListed,
    /// The other route takes another method, or its path has parameters that are not known.
    TargetUnfit,
    /// A rate limit or a quota is exhausted.
    LimitReached,
    /// weir does not take it for another reason.
    Rejected(Problem),
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// There was an answer.
    Answered {
        /// Its status.
        status: u16,
        /// If weir itself answered, why.
        problem: Option<Problem>,
    },
    /// The answer broke off.
    Broken {
        /// Its status.
        status: u16,
    },
    /// Nothing was done about it.
    Refused(Refused),
    /// It was not finished, as weir is stopping: nobody knows whether it was sent.
    Lost,
}

/// Called with the outcome, once.
pub type OnDone = Box<dyn FnOnce(Ended) + Send>;

/// An injected request.
pub(crate) enum Injected {
    /// A replay of a recorded request.
    Replay(PendingReplay),
    /// A test request of an operator.
    TestRequest(Box<TestRequest>),
}

/// A replay in progress. Its callback is always called, with `Lost` if it is dropped.
pub(crate) struct PendingReplay {
    pub(crate) request: Box<Resubmission>,
    /// `None` once called.
    on_done: Option<OnDone>,
    shared: Arc<Shared>,
}

impl PendingReplay {
    pub(crate) fn new(request: Box<Resubmission>, on_done: OnDone, shared: Arc<Shared>) -> Self {
        shared.resubmissions.fetch_add(1, Relaxed);
        Self { request, on_done: Some(on_done), shared }
    }

    fn ended(mut self, ended: Ended) {
        self.on_done(ended);
    }

    fn on_done(&mut self, ended: Ended) {
        if let Some(on_done) = self.on_done.take() {
            on_done(ended);
        }
    }
}

impl Drop for PendingReplay {
    fn drop(&mut self) {
        self.shared.resubmissions.fetch_sub(1, Relaxed);
        self.on_done(Ended::Lost);
    }
}

/// Checks whether this Config allows a replay; limits are not checked.
pub(crate) fn check(site: &Site, request: &Resubmission) -> Result<(), Refused> {
    plan::plan(site, request).map(|_| ())
}
