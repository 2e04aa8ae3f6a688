//! API composition: several upstream calls for one request.

use super::{PathPart, Sources};
use std::time::Duration;
use weir_expr::Expr;
use weir_expr::map::JsonMap;
use weir_model::UpstreamId;

/// One of several concurrent requests to upstreams.
#[derive(Debug)]
pub struct Call {
    /// Name of the call: the member of the response with its result.
    pub name: String,
    /// The upstream.
    pub upstream: UpstreamId,
    /// Method, in upper case.
    pub method: String,
    /// Path.
    pub path: Vec<PathPart>,
    /// Query parameters by their decoded names.
    pub query: Vec<(String, ParameterValue)>,
    /// Headers of the client's request to forward, lower-case names.
    pub forward: Vec<String>,
    /// Headers to set, lower-case names.
    pub headers: Vec<(String, String)>,
    /// Map of the body of the client's request.
    pub body: Option<JsonMap>,
    /// Time for the entire call.
    pub timeout: Option<Duration>,
    /// Value in place of a failed call, as JSON. Without one, the request fails.
    pub fallback: Option<String>,
    /// Statuses whose response is sent to the client unchanged.
    pub pass: Vec<u16>,
    /// Accepted formats of response bodies.
    pub from: Sources,
}

/// A constant text, or one computed for each request.
#[derive(Debug)]
pub enum ParameterValue {
    /// A constant.
    Text(String),
    /// The result of an expression (`request`, `claims`, `consumer` in scope).
    Expr(Expr),
}
