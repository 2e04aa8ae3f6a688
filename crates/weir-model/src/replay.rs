//! Replays: recorded requests that weir sends again.

use crate::rejection::RejectionReason;
use std::fmt;
use std::net::IpAddr;

/// A recorded request to be sent again. Empty text means absent.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ReplayRequest {
    /// The new transaction id, a UUIDv7.
    pub id: u128,
    /// The transaction that is sent again.
    pub original: u128,
    /// Name of its API; it is sent to no other.
    pub api: String,
    /// Operation of another route to send it to.
    pub destination: Option<String>,
    /// Method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Header lines. The gateway drops credentials.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The whole body.
    pub body: Vec<u8>,
    /// It differs from the recorded one.
    pub edited: bool,
    /// Address of the client that sent it.
    pub client: Option<IpAddr>,
    /// The client used https.
    pub https: bool,
    /// Name of the auth that verified the principal.
    pub auth: String,
    /// Subject of the credential.
    pub principal: String,
    /// Name of the consumer.
    pub consumer: String,
    /// Granted scopes, separated by spaces.
    pub scopes: String,
}

impl fmt::Debug for ReplayRequest {
    /// Without headers, body and query.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayRequest")
            .field("id", &self.id)
            .field("original", &self.original)
            .field("api", &self.api)
            .finish_non_exhaustive()
    }
}

/// Outcome of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayOutcome {
    /// There was a response: its status, and the code of the problem if weir itself responded.
    Response(u16, Option<&'static str>),
    /// The response, of this status, was aborted.
    Aborted(u16),
    /// It was rejected and not sent.
    Rejected(RejectionReason),
    /// It was not finished, because weir stops: it is not known whether it was sent.
    Unknown,
}

/// Called once with the outcome of a replay; must not block.
pub type OnDone = Box<dyn FnOnce(ReplayOutcome) + Send>;
