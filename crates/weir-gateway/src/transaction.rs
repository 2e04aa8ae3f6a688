//! A transaction as its observers read it: the record, the access log, spans and statistics.

use crate::client_request::ClientRequest;
use crate::problem::Problem;
use crate::redaction::{BodySettings, Redaction};
use crate::transaction_id::TransactionId;
use std::rc::Rc;
use weir_script::Annotations;
use weir_wire::ResponseHead;

/// What is known of a transaction so far, or in the end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transaction<'a> {
    pub(crate) id: &'a TransactionId,
    /// Microseconds since 1970 when the request came.
    pub(crate) received_us: u64,
    pub(crate) request: ClientRequest<'a>,
    /// Version of HTTP as `Via` names it.
    pub(crate) version: &'static str,
    pub(crate) response: &'a ResponseHead,
    /// Bytes of the response's body that were sent.
    pub(crate) sent: u64,
    /// The error that weir itself responded with.
    pub(crate) problem: Option<Problem>,
    /// Why, as it is recorded.
    pub(crate) reason: Option<&'a str>,
    /// Name of the upstream or the pool of its handler; empty if it has none.
    pub(crate) upstream: &'a str,
    /// How often it was sent to an upstream again.
    pub(crate) retries: u32,
    /// What scripts and stages note about it.
    pub(crate) notes: Option<&'a Annotations>,
    /// The transaction that this one is a resubmission of.
    pub(crate) resubmission_of: Option<[u8; 16]>,
    pub(crate) redaction: &'a Redaction,
    pub(crate) bodies: &'a Rc<BodySettings>,
}
