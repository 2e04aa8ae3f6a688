//! Calls that are made to answer one request.

use super::{PathPart, Sources, UpstreamId};
use std::time::Duration;
use weir_expr::Expr;
use weir_expr::map::JsonMap;

/// A request to an upstream, one of several that are made at once.
#[derive(Debug)]
pub struct Call {
    /// Its name: the member of the answer that has what it answered.
    pub name: String,
    /// Who is asked.
    pub upstream: UpstreamId,
    /// Method, in upper case.
    pub method: String,
    /// What it is asked for.
    pub path: Vec<PathPart>,
    /// Parameters by their decoded names.
    pub query: Vec<(String, Given)>,
    /// Headers of the client's request that go along, lower-case names.
    pub forward: Vec<String>,
    /// Headers of its own, lower-case names.
    pub headers: Vec<(String, String)>,
    /// Its body, from that of the request.
    pub body: Option<JsonMap>,
    /// How long the whole call may take.
    pub timeout: Option<Duration>,
    /// What stands in its place if it fails, as JSON. Without one, the request fails.
    pub fallback: Option<String>,
    /// Statuses with which its answer is the answer.
    pub pass: Vec<u16>,
    /// Bodies of answers that are read.
    pub from: Sources,
}

/// A text that is known, or found for each request.
#[derive(Debug)]
pub enum Given {
    /// A constant.
    Text(String),
    /// What an expression gives (`request`, `claims`, `consumer` in scope).
    Expr(Expr),
}
