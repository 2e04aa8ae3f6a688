//! The JSON form of an explanation, and the trace that it is built from.

mod trace;

pub(crate) use trace::{Stage, Trace};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Handling of a request, with reasons.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The decision.
    pub decision: Decision,
    /// The listener.
    pub listener: Listened,
    /// Method.
    pub method: String,
    /// Host of the request: lower case, without port.
    pub host: String,
    /// Normalized path, used for matching.
    pub path: String,
    /// Address of the client, as reported by trusted proxies.
    pub client: String,
    /// Name of the API that matches host and path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// Operation of the matching route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Path of the matching route, with the names of its parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Location of the route in the configuration: `file:line`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Path parameters, decoded.
    pub parameters: Vec<Pair>,
    /// Similar routes, nearest first, with the reasons why they do not match.
    pub others: Vec<Other>,
    /// The authenticated caller, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Who>,
    /// All policies in the order of processing.
    pub steps: Vec<Step>,
    /// The request to an upstream, an agent or a script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Sent>,
    /// The response of weir itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// The record of the request.
    pub capture: Captured,
}

/// The decision about a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Decision {
    /// Kind of decision.
    pub kind: Kind,
    /// Status of the response of weir; absent if an upstream, agent or script responds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Code of the problem, if weir rejects the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Summary in one sentence.
    pub why: String,
}

/// Kind of decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// weir rejects the request.
    #[default]
    Refused,
    /// weir responds itself: static response, file or preflight.
    Answered,
    /// The request is forwarded to an upstream, a pool or a script.
    HandedOn,
}

/// The listener of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Listened {
    /// Its address.
    pub address: String,
    /// The listener uses TLS.
    pub https: bool,
    /// Reason for this listener.
    pub why: String,
}

/// A name and a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pair {
    /// Name.
    pub name: String,
    /// Value; `***` stands for what must not be shown.
    pub value: String,
}

/// A route that did not match, or was not the best match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Other {
    /// Name of the API.
    pub api: String,
    /// Operation.
    pub operation: String,
    /// Methods; empty: any method.
    pub methods: Vec<String>,
    /// Path.
    pub path: String,
    /// Reason.
    pub why: String,
}

/// The authenticated caller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Who {
    /// The auth that accepted the credential.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<String>,
    /// Subject of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Name of the consumer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// Plan of the consumer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Granted scopes.
    pub scopes: Vec<String>,
}

/// A policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// Name: `head`, `route`, `auth`, `limit`, `body-size`, `validation`, `request-map`, `handler`,
    /// `response-map`, `response-validation`, `response-headers`, `compress` or `cors`.
    pub name: String,
    /// Its configuration.
    pub setting: String,
    /// Its outcome.
    pub outcome: Outcome,
    /// Reason.
    pub why: String,
    /// Details: auths, limits, violations.
    pub parts: Vec<Part>,
}

/// Outcome of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The request passes.
    Passed,
    /// The request is rejected.
    Refused,
    /// The response is generated here.
    Answered,
    /// The policy is not configured.
    Off,
    /// The request does not reach the policy.
    #[default]
    NotReached,
    /// The outcome depends on the response.
    Later,
}

/// A detail of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Part {
    /// Name.
    pub name: String,
    /// Outcome: `granted`, `absent`, `refused`, `room`, `exhausted`, `invalid`.
    pub outcome: String,
    /// Reason.
    pub why: String,
}

impl Part {
    pub(crate) fn new(name: impl Into<String>, outcome: &str, why: impl Into<String>) -> Self {
        Self { name: name.into(), outcome: outcome.to_owned(), why: why.into() }
    }
}

/// The request to an upstream, an agent or a script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sent {
    /// Type of the destination: `upstream`, `pool` or `script`.
    pub to: String,
    /// Name of the destination.
    pub name: String,
    /// All targets of an upstream, in the order of attempts.
    pub targets: Vec<String>,
    /// Method and target.
    pub line: String,
    /// Header lines, with redacted credentials.
    pub headers: Vec<Pair>,
    /// The body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Text>,
}

/// The response of weir itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Answer {
    /// Status.
    pub status: u16,
    /// Header lines.
    pub headers: Vec<Pair>,
    /// The body, unless it is a file or compressed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Text>,
}

/// A body.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Text {
    /// The text, if it is UTF-8; at most 64 KiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Length in bytes.
    pub bytes: u64,
    /// The text is not complete.
    pub cut: bool,
}

/// The record of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Captured {
    /// Whether the Tracker would show the transaction.
    pub recorded: bool,
    /// `none`, `meta`, `headers` or `body`.
    pub level: String,
    /// Description: content, conditions and redaction.
    pub why: String,
    /// Path and query as recorded.
    pub target: String,
    /// Headers of the request as recorded; empty unless headers are recorded.
    pub headers: Vec<Pair>,
}
