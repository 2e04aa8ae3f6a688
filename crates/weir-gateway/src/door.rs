//! The in-process door: requests that weir itself makes again are handed to a worker over a bounded
//! channel, and served by [`flow`] like any other.
//!
//! Who was verified then stands in for a credential; plan, limits, validation and scopes are those
//! of now. They are journaled like any request, under an id that is chosen before they are sent. Of
//! the answer only the status comes back; the rest of it is in the journal.

mod plan;
mod serve;
mod trial;

pub(crate) use serve::receive;
pub(crate) use trial::Trial;
pub use trial::{TRIED_BY, Tried};

use crate::problem::Problem;
use crate::site::Site;
use crate::worker::Shared;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Requests that wait for one worker.
pub(crate) const WAITING: usize = 64;
/// Requests that one worker serves at once.
pub(crate) const AT_ONCE: usize = 64;

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

/// Whom to tell how it ended.
pub type Tell = Box<dyn FnOnce(Ended) + Send>;

/// What comes through the door.
pub(crate) enum Entry {
    /// A recorded request, again.
    Again(Order),
    /// A new one, by an operator.
    Trial(Box<Trial>),
}

/// A recorded request on its way through the door. It always says how it ended.
pub(crate) struct Order {
    pub(crate) request: Box<Resubmission>,
    /// There until that was told.
    tell: Option<Tell>,
    shared: Arc<Shared>,
}

impl Order {
    pub(crate) fn new(request: Box<Resubmission>, tell: Tell, shared: Arc<Shared>) -> Self {
        shared.resubmissions.fetch_add(1, Relaxed);
        Self { request, tell: Some(tell), shared }
    }

    fn ended(mut self, ended: Ended) {
        self.tell(ended);
    }

    fn tell(&mut self, ended: Ended) {
        if let Some(tell) = self.tell.take() {
            tell(ended);
        }
    }
}

impl Drop for Order {
    fn drop(&mut self) {
        self.shared.resubmissions.fetch_sub(1, Relaxed);
        self.tell(Ended::Lost);
    }
}

/// Whether a request would be made again by this Config; limits are not asked.
pub(crate) fn check(site: &Site, request: &Resubmission) -> Result<(), Refused> {
    plan::plan(site, request).map(|_| ())
}
