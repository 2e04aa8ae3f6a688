//! Errors as problem documents (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// A kind of error.
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// Stable name.
    pub(crate) kind: &'static str,
    pub(crate) title: &'static str,
    /// Start of the wrong part of the query in bytes, and its end (exclusive).
    pub(crate) span: Option<[usize; 2]>,
    pub(crate) detail: String,
}

impl Problem {
    pub(crate) fn new(
        status: StatusCode,
        kind: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self { status, kind, title, span: None, detail: detail.into() }
    }
}

/// Reason of a denied call (403), attached to the response for the audit log.
#[derive(Clone, Debug)]
pub(crate) struct Denied(pub(crate) String);

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = json!({
            "type": format!("urn:weir:problem:{}", self.kind),
            "title": self.title,
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        if let Some(span) = self.span {
            body["place"] = json!(span);
        }
        let mut response = (self.status, body.to_string()).into_response();
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if self.status == StatusCode::FORBIDDEN {
            response.extensions_mut().insert(Denied(self.detail));
        }
        response
    }
}
