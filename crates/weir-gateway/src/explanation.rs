//! The shape of an explanation, and what it is made from.

mod trace;

pub(crate) use trace::{Stage, Trace};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What weir would do with a request, and why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// What comes of it.
    pub decision: Decision,
    /// The listener it comes to.
    pub listener: Listened,
    /// Method.
    pub method: String,
    /// Host it is for: lower case, without port.
    pub host: String,
    /// Path in its normal form, which is what is matched.
    pub path: String,
    /// Address of the client, as far as trusted hops tell.
    pub client: String,
    /// Name of the API that answers to host and path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// Operation of the route that matched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// Path of the route that matched, with the names of its parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// Where the route is configured: `file:line`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Path parameters, decoded.
    pub parameters: Vec<Pair>,
    /// The nearest other routes, the nearest first, and why they did not match.
    pub others: Vec<Other>,
    /// Who calls, if anybody in particular was let in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Who>,
    /// Every policy in its order.
    pub steps: Vec<Step>,
    /// What an upstream, an agent or a script would get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Sent>,
    /// What weir itself would answer with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    /// What would be recorded.
    pub capture: Captured,
}

/// What comes of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Decision {
    /// In one word.
    pub kind: Kind,
    /// The status that weir answers with; none where another answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The last part of the problem's type, if weir refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What it is, in one sentence.
    pub why: String,
}

/// What comes of a request, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// weir refuses it.
    #[default]
    Refused,
    /// weir answers it: a declared reply, a file, a preflight.
    Answered,
    /// It goes to an upstream, a pool or a script.
    HandedOn,
}

/// The listener a request comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Listened {
    /// Its address.
    pub address: String,
    /// It speaks TLS.
    pub https: bool,
    /// Why this one.
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

/// A route that did not match, or was not the best.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Other {
    /// Its API.
    pub api: String,
    /// Its operation.
    pub operation: String,
    /// Methods it takes; empty: every one.
    pub methods: Vec<String>,
    /// Its path.
    pub path: String,
    /// Why it was not this one.
    pub why: String,
}

/// Who calls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Who {
    /// The auth that proved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<String>,
    /// Subject of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// The consumer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer: Option<String>,
    /// The consumer's plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<String>,
    /// Scopes that are granted.
    pub scopes: Vec<String>,
}

/// One policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Step {
    /// Which: `head`, `route`, `auth`, `limit`, `body-size`, `validation`, `request-map`, `handler`,
    /// `response-map`, `response-validation`, `response-headers`, `compress` or `cors`.
    pub name: String,
    /// How it is set.
    pub setting: String,
    /// What it says.
    pub outcome: Outcome,
    /// Why.
    pub why: String,
    /// What it is made of: ways in, limits, violations.
    pub parts: Vec<Part>,
}

/// What a policy says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It lets the request pass.
    Passed,
    /// It does not.
    Refused,
    /// Here is where it is answered.
    Answered,
    /// It is not set.
    Off,
    /// The request did not come so far.
    #[default]
    NotReached,
    /// Only the answer will tell.
    Later,
}

/// A part of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Part {
    /// Its name.
    pub name: String,
    /// In a word: `granted`, `absent`, `refused`, `room`, `exhausted`, `invalid`.
    pub outcome: String,
    /// Why.
    pub why: String,
}

/// What another would get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Sent {
    /// `upstream`, `pool` or `script`.
    pub to: String,
    /// Its name.
    pub name: String,
    /// Where: every target of an upstream, the one that would be tried first in front.
    pub targets: Vec<String>,
    /// Method and target.
    pub line: String,
    /// Header lines, credentials masked.
    pub headers: Vec<Pair>,
    /// The body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Text>,
}

/// An answer of weir's own.
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
    /// Its text, if it is UTF-8; at most 64 KiB of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// How long it is.
    pub bytes: u64,
    /// There is more of it than is shown.
    pub cut: bool,
}

/// What would be recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Captured {
    /// Whether the Tracker would show it.
    pub recorded: bool,
    /// `none`, `meta`, `headers` or `body`.
    pub level: String,
    /// In words: what stays, when, and what is masked.
    pub why: String,
    /// Path and query as they would be recorded.
    pub target: String,
    /// Headers of the request as they would be recorded; empty unless headers are.
    pub headers: Vec<Pair>,
}
