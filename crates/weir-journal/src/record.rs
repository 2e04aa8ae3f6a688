//! The content of a transaction, and its fields.
//!
//! The payload of `received` and `completed` is a sequence of fields, each a `u32` with the tag in
//! the lowest 8 bits and the length in the upper 24, then the value. Readers skip unknown tags.
//! Tags 1–18 come from [`Received`], 32–44 and 47–54 from [`Completed`], 45 (damaged) and 46
//! (sequence number and position after the transaction, `u64` each) from sealing. Pairs and rows
//! repeat a tag. Tag 47 comes before all fields that it does not apply to.

pub(crate) mod call;
mod decode;
mod encode;
pub(crate) mod field;
pub(crate) mod undecoded;

use crate::counted;
use crate::format::Position;
use weir_model::{Attempt, Outcome};

/// Direction of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// From the client.
    Request,
    /// To the client.
    Response,
}

/// Earlier records of a transaction that are discarded at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::FromRepr)]
#[repr(u8)]
pub enum Discarded {
    /// Nothing is discarded.
    #[default]
    Nothing,
    /// Parts of the response body: another response was sent.
    Response,
    /// Heads and bodies: they were kept only in case of a failure. Sealing drops them.
    Payload,
}

/// Why a body was not stored at a capture level with bodies, and the reason as displayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display, strum::FromRepr)]
#[repr(u8)]
pub enum Withheld {
    /// It could not be redacted, for a reason without its own code.
    #[strum(to_string = "not maskable")]
    Other,
    /// It is longer than the stored part of a body may be.
    #[strum(to_string = "too long to be masked")]
    Long,
    /// Its media type cannot be redacted, or its content does not match the type.
    #[strum(to_string = "not of a form that can be masked")]
    Unreadable,
    /// Its content coding cannot be decoded.
    #[strum(to_string = "in a coding that cannot be decoded")]
    Coding,
    /// The memory for bodies that wait to be redacted was used up.
    #[strum(to_string = "no memory left for bodies to be masked")]
    Budget,
    /// It was aborted, or not read to its end, and could not be redacted.
    #[strum(to_string = "not read to its end")]
    Aborted,
}

/// Metadata of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BodyMetadata {
    /// Its length in bytes as far as it was read; if it was not read to its end, as declared.
    pub length: u64,
    /// Bytes that were stored.
    pub stored: u64,
    /// Not all of it was stored, or it was not read to its end.
    pub truncated: bool,
    /// Not stored because it could not be redacted.
    pub withheld: Option<Withheld>,
    /// Aborted before its end.
    pub aborted: bool,
    /// Parts of it were redacted before it was stored.
    pub masked: bool,
    /// Keyed hash of the part that was not stored, after the first `stored` bytes; zeros if there
    /// is none.
    pub hash: [u8; 16],
}

/// The start of a transaction. Empty text means absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Received<'a> {
    /// UUIDv7.
    pub id: [u8; 16],
    /// Microseconds since 1970.
    pub received_us: u64,
    /// Name of the API.
    pub api: &'a str,
    /// Name of the operation or route.
    pub operation: &'a str,
    /// Transaction type.
    pub transaction_type: &'a str,
    /// Name of the consumer.
    pub consumer: &'a str,
    /// Subject of the verified principal, or the id of its API key.
    pub principal: &'a str,
    /// Address of the client.
    pub client: &'a str,
    /// Method.
    pub method: &'a str,
    /// Request target, redacted.
    pub target: &'a str,
    /// Request header lines, redacted.
    pub head: &'a [u8],
    /// Capture level, a code of the caller.
    pub level: u8,
    /// Name of the consumer's plan.
    pub plan: &'a str,
    /// Why the call is counted: bits of [`crate::counted`].
    pub counted: u8,
    /// The transaction that this one resubmits; zeros if it is no resubmission.
    pub resubmission_of: [u8; 16],
    /// Name of the auth method that verified the principal.
    pub auth: &'a str,
    /// Scopes of the credential, separated by spaces.
    pub scopes: &'a str,
    /// The client used https, to weir or to a trusted proxy.
    pub https: bool,
}

/// The end of a transaction. Empty text means absent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Completed<'a> {
    /// How it ended.
    pub outcome: Outcome,
    /// Status, 0 without a response.
    pub status: u16,
    /// Problem code.
    pub problem: &'a str,
    /// Status of the problem with which weir itself responded; 0: the response is not weir's. Count-only
    /// records have it, too.
    pub problem_status: u16,
    /// Details of the problem: the auth method, limit or rule.
    pub detail: &'a str,
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Its target whose response the client got, or of the last attempt.
    pub upstream_target: &'a str,
    /// The attempts that gave the client no response.
    pub attempts: &'a [Attempt],
    /// Digest of the configuration that handled it, its first 12 digits.
    pub configuration: &'a str,
    /// Response header lines, redacted.
    pub head: &'a [u8],
    /// Stage code and its duration in microseconds.
    pub stages: &'a [(u8, u32)],
    /// Metadata of the request body.
    pub request: BodyMetadata,
    /// Metadata of the response body.
    pub response: BodyMetadata,
    /// Request body, or its rest after the parts.
    pub request_body: &'a [u8],
    /// Response body, or its rest after the parts.
    pub response_body: &'a [u8],
    /// Business keys.
    pub keys: &'a [(&'a str, &'a str)],
    /// Properties.
    pub properties: &'a [(&'a str, &'a str)],
    /// Log lines.
    pub logs: &'a [&'a str],
    /// Earlier records that are discarded.
    pub discarded: Discarded,
    /// Number of retries.
    pub retries: u8,
    /// Not everything was recorded: the journal was full.
    pub shortened: bool,
    /// Set by recovery: another end of the transaction may have been here and was lost. A reader
    /// past this position may have seen it.
    pub possible_end: Option<Position>,
}

/// A transaction as it is read; fields as in [`Received`] and [`Completed`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are described where they are written")]
pub struct Transaction {
    pub address: Option<crate::Address>,
    /// Position after the transaction: the checkpoint once it was processed.
    pub after: Position,
    /// Sequence number in its lane, in the order in which transactions started.
    pub sequence: u64,
    pub id: [u8; 16],
    pub received_us: u64,
    pub api: String,
    pub operation: String,
    pub transaction_type: String,
    pub consumer: String,
    pub principal: String,
    pub client: String,
    pub method: String,
    pub target: String,
    pub request_head: Vec<u8>,
    pub level: u8,
    pub plan: String,
    pub counted: u8,
    pub resubmission_of: [u8; 16],
    pub auth: String,
    pub scopes: String,
    pub https: bool,
    pub outcome: Outcome,
    pub status: u16,
    pub problem: String,
    pub problem_status: u16,
    pub detail: String,
    pub upstream: String,
    pub upstream_target: String,
    pub attempts: Vec<Attempt>,
    pub configuration: String,
    pub response_head: Vec<u8>,
    pub stages: Vec<(u8, u32)>,
    pub request: BodyMetadata,
    pub response: BodyMetadata,
    pub request_body: Vec<u8>,
    pub response_body: Vec<u8>,
    pub keys: Vec<(String, String)>,
    pub properties: Vec<(String, String)>,
    pub logs: Vec<String>,
    pub retries: u8,
    /// Not everything was recorded: the journal was full.
    pub shortened: bool,
    /// As in [`Completed`].
    pub possible_end: Option<Position>,
    /// Some of its records are lost.
    pub damaged: bool,
    /// Heads, bodies, properties and logs are missing, and weir did not drop them.
    pub missing: bool,
    /// Heads, bodies, properties and logs were dropped because of their age.
    pub expired: bool,
    /// Heads and bodies were kept only in case of a failure, and there was none.
    pub discarded: bool,
}

impl<'a> Completed<'a> {
    /// Without headers, bodies, keys, properties and logs, marked as shortened: the fields for
    /// metering and figures.
    #[must_use]
    pub fn reduced(&self) -> Self {
        let reduced = |facts: BodyMetadata, last: &[u8]| BodyMetadata {
            stored: facts.stored.saturating_sub(last.len() as u64),
            truncated: facts.truncated || !last.is_empty(),
            hash: if last.is_empty() { facts.hash } else { [0; 16] },
            ..facts
        };
        Completed {
            shortened: true,
            attempts: &[],
            head: b"",
            request: reduced(self.request, self.request_body),
            response: reduced(self.response, self.response_body),
            request_body: b"",
            response_body: b"",
            keys: &[],
            properties: &[],
            logs: &[],
            ..*self
        }
    }
}

impl Transaction {
    /// Whether the record is count-only: no transaction to be shown.
    #[must_use]
    pub fn is_count(&self) -> bool {
        self.counted & counted::COUNT_ONLY != 0
    }
}
