//! Requests to OpenSearch, without the connection.

use bytes::Bytes;

/// Longest response that is read, in bytes: the items of a bulk request with an error each.
pub const MAX_RESPONSE_BYTES: usize = 4 << 20;

/// Longest response to a search, in bytes: a document with both bodies, each of them escaped.
pub const MAX_SEARCH_RESPONSE_BYTES: usize = 16 << 20;

/// A request to be sent to any node of OpenSearch.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method.
    pub method: &'static str,
    /// Path and query.
    pub path: String,
    /// Media type of the body.
    pub content_type: &'static str,
    /// The body; may be empty.
    pub body: Bytes,
}

impl Request {
    pub(crate) fn json(method: &'static str, path: String, body: &serde_json::Value) -> Self {
        Self { method, path, content_type: "application/json", body: body.to_string().into() }
    }

    pub(crate) fn empty(method: &'static str, path: String) -> Self {
        Self { method, path, content_type: "application/json", body: Bytes::new() }
    }
}

/// The request for a search in all indexes of a sink, with the body that
/// [`SearchBody`](weir_tracker::opensearch::SearchBody) makes.
#[must_use]
pub fn search_request(sink: &str, body: &serde_json::Value) -> Request {
    let indexes = format!("/weir-{sink}-done-*,weir-{sink}-failed-*/_search");
    Request::json("POST", format!("{indexes}?ignore_unavailable=true"), body)
}

/// A complete response.
#[derive(Clone, Debug)]
pub struct Response {
    /// Status.
    pub status: u16,
    /// The body, at most [`MAX_RESPONSE_BYTES`].
    pub body: Bytes,
}
