//! Transactions as documents: in the JSON of the admin API, and as the commands show them.

mod build;
mod event;
mod result;

pub use crate::nodes::{MissingNode, Nodes, SinkSearch};
pub use event::write_event_data;
pub use result::{
    ExportEnd, ExportFailure, Exported, FailedExport, Hit, Page, TailNodes, TailPosition,
};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_model::{TransactionId, UnixMicros};
use weir_store::ledger::Attempt;

/// Metadata of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Summary {
    /// The transaction id, a UUID.
    #[schema(value_type = String)]
    pub id: TransactionId,
    /// Time of receipt (RFC 3339, UTC).
    #[schema(value_type = String)]
    pub time: UnixMicros,
    /// Microseconds until the end of the response.
    pub took_us: u64,
    /// `completed`, `failed` or `interrupted`.
    pub state: String,
    /// Resolution of a failed transaction: `open`, `resubmitted`, `resolved` or `dismissed`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resolution: String,
    /// Status of the response, 0 without a response.
    pub status: u16,
    /// Method of the request.
    pub method: String,
    /// Path of the request.
    pub path: String,
    /// Name of the API.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub api: String,
    /// Name of the operation.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub operation: String,
    /// Transaction type: `http`.
    #[serde(default, rename = "type", skip_serializing_if = "String::is_empty")]
    pub transaction_type: String,
    /// Name of the consumer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub consumer: String,
    /// Subject of the verified credential, or the id of an API key: the first digits of its hash.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub principal: String,
    /// Sender: the address of the client.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sender: String,
    /// Receiver: the name of the upstream.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub receiver: String,
    /// Code of the problem that was returned.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub problem: String,
    /// Detail of the problem: the auth method, limit or rule.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Name of the consumer's plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub plan: String,
    /// The upstream's target whose response the client got, or of the last attempt.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub upstream_target: String,
    /// Digest of the configuration that handled it, its first 12 digits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub configuration: String,
    /// Name of the node of the fleet that has the transaction, in a query over nodes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub node: String,
    /// Name of the sink that the transaction was read from, because its node did not respond.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sink: String,
}

/// A complete transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Transaction {
    /// Metadata.
    #[serde(flatten)]
    pub summary: Summary,
    /// State changes, oldest first.
    pub history: Vec<Change>,
    /// Microseconds by stage.
    pub stages: Vec<Stage>,
    /// Attempts at upstreams that gave the client no response, in the order of their starts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub upstream_attempts: Vec<UpstreamAttempt>,
    /// Number of retries at upstreams.
    #[serde(default)]
    pub retries: u8,
    /// The transaction that this one resubmits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub resubmission_of: Option<TransactionId>,
    /// Resubmissions of this transaction, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// The request body, as far as it was received.
    pub request: BodyMetadata,
    /// The response body, as far as it was sent.
    pub response: BodyMetadata,
    /// The journal was full: only the outcome was recorded.
    pub shortened: bool,
    /// Some of its records were lost.
    pub damaged: bool,
    /// Headers and bodies were deleted because of their age.
    pub expired: bool,
    /// Its files, or those of its headers and bodies, are missing, and weir did not delete them.
    #[serde(default)]
    pub missing: bool,
    /// Headers and bodies were kept for failures only, and the transaction succeeded.
    pub discarded: bool,
    /// Requires the role `payload-viewer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
}

/// A state change of a transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    /// `received`, `completed`, `failed` or `interrupted`; then its resolutions.
    pub state: String,
    /// Actor: name of a token, if any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub who: String,
    /// Comment.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
    /// Time (RFC 3339, UTC); unknown for transactions in flight when weir ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub time: Option<UnixMicros>,
}

/// Duration of a stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stage {
    /// `total` from the request head to the end of the response, or a part of it.
    pub name: String,
    /// Microseconds.
    pub took_us: u64,
}

/// An attempt at an upstream that gave the client no response: it failed, or another one was preferred.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UpstreamAttempt {
    /// The target.
    pub target: String,
    /// Microseconds from the arrival of the request to the choice of the target.
    pub started_us: u32,
    /// Microseconds from then to the end of the attempt.
    pub took_us: u32,
    /// Status of the response, 0 without one.
    pub status: u16,
    /// Why it failed: the code of a problem, or `cancelled`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
}

/// Properties of a body, recorded or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BodyMetadata {
    /// True length in bytes.
    pub length: u64,
    /// Recorded bytes.
    pub stored: u64,
    /// Only a part was recorded.
    pub truncated: bool,
    /// Why the body was withheld: it could not be redacted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub withheld: String,
    /// The body was aborted.
    pub aborted: bool,
    /// Values were replaced by `***` before recording.
    #[serde(default)]
    pub masked: bool,
    /// Keyed hash of the part that was not recorded, in hexadecimal: equal hashes mean equal bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hash: String,
}

/// Headers, bodies and keys, redacted as recorded. It is untrusted data: escape it before it is
/// displayed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Payload {
    /// The request target, with its query.
    pub target: String,
    /// Header lines of the request.
    pub request_headers: Vec<Field>,
    /// Body of the request.
    pub request_body: Body,
    /// Header lines of the response.
    pub response_headers: Vec<Field>,
    /// Body of the response.
    pub response_body: Body,
    /// Business keys.
    pub keys: Vec<Field>,
    /// Properties.
    pub properties: Vec<Field>,
    /// Log lines.
    pub logs: Vec<String>,
}

/// A name with a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Field {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
}

/// A recorded body for display; the unchanged bytes are at `/v1/transactions/{id}/request-body` and
/// `response-body`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Body {
    /// The recorded body, decoded, if it is UTF-8; otherwise `base64` is present.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The recorded body, decoded, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// The content coding that was decoded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub decoded_from: String,
    /// The content coding that could not be decoded: these are the bytes as sent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub still_in: String,
    /// The text shown is not complete.
    pub cut: bool,
}
