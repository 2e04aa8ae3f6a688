//! A transaction as it is shown.

use crate::resubmit::Attempt;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What happened to one request: everything but its payload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Summary {
    /// The transaction id, a UUID.
    pub id: String,
    /// When the request was received (RFC 3339, UTC).
    pub time: String,
    /// Microseconds until the end of the answer.
    pub took_us: u64,
    /// `completed`, `failed` or `interrupted`.
    pub state: String,
    /// If it failed, what became of it: `open`, `resubmitted`, `resolved` or `dismissed`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resolution: String,
    /// Status of the answer, 0 if there was none.
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
    /// Subject of the verified credential.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub principal: String,
    /// Who sent it: the address of the client.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sender: String,
    /// Who received it: the name of the upstream.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub receiver: String,
    /// Code of the problem that was answered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub problem: String,
}

/// A whole transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Transaction {
    /// What happened.
    #[serde(flatten)]
    pub summary: Summary,
    /// The states it went through, the first one first.
    pub history: Vec<Change>,
    /// Microseconds that stages took, by their names.
    pub stages: Vec<Stage>,
    /// What the problem was about, in words: which auth, which limit, which rule.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// How often it was sent to an upstream again.
    #[serde(default)]
    pub retries: u8,
    /// The transaction that this is an attempt to send again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub resubmission_of: String,
    /// Attempts to send it again, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// The request's body, as far as it came.
    pub request: BodyMetadata,
    /// The answer's body, as far as it came.
    pub response: BodyMetadata,
    /// The journal was full: only the outcome was recorded.
    pub shortened: bool,
    /// Some of its records were lost.
    pub damaged: bool,
    /// Headers and bodies were dropped because of their age.
    pub expired: bool,
    /// Files that had it, or its headers and bodies, are gone, and weir did not drop them.
    #[serde(default)]
    pub missing: bool,
    /// Headers and bodies were kept only in case something went wrong, and nothing did.
    pub discarded: bool,
    /// What needs the role `payload-viewer` to be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Payload>,
}

/// A state that a transaction came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Change {
    /// `received`, `completed`, `failed` or `interrupted`; then its resolutions.
    pub state: String,
    /// Who said so, if somebody did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub who: String,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub comment: String,
    /// When (RFC 3339, UTC); not known of what was in flight when weir ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
}

/// How long something took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Stage {
    /// `total` from the request's head to the answer's end, or a part of it.
    pub name: String,
    /// Microseconds.
    pub took_us: u64,
}

/// What is known of a body, whether it was recorded or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = BodyFacts)]
pub struct BodyMetadata {
    /// Its true length in bytes.
    pub length: u64,
    /// Bytes that were recorded.
    pub stored: u64,
    /// Not all of it was recorded.
    pub truncated: bool,
    /// Why it was not recorded although bodies are: it could not be masked.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub withheld: String,
    /// Broken off before its end.
    pub aborted: bool,
    /// Something in it was replaced by `***` before it was recorded.
    #[serde(default)]
    pub masked: bool,
    /// Keyed hash of what was not recorded of it, in hexadecimal: equal ones are of equal bytes.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hash: String,
}

/// What was said, masked as it was recorded. It is data from outside: escape it before showing it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Payload {
    /// The request target, with its query.
    pub target: String,
    /// Header lines of the request.
    pub request_headers: Vec<Field>,
    /// Body of the request.
    pub request_body: Body,
    /// Header lines of the answer.
    pub response_headers: Vec<Field>,
    /// Body of the answer.
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
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// A recorded body to be read; as it was sent it is at `/v1/transactions/{id}/request-body` and
/// `response-body`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Body {
    /// What was recorded of it, decoded, if that is UTF-8; else there is `base64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What was recorded of it, decoded, in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
    /// The content coding that it was decoded from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub decoded_from: String,
    /// The content coding that it could not be decoded from: these are the bytes as they were sent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub still_in: String,
    /// There is more than is shown.
    pub cut: bool,
}
