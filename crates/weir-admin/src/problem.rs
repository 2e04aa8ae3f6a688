//! Errors as problem documents (RFC 9457).

use axum::extract::{FromRequestParts, Query};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde_json::json;
use std::borrow::Cow;

/// The result of a request to the admin API.
pub(crate) type Result<T, E = Problem> = std::result::Result<T, E>;

/// A kind of error.
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    /// Stable name.
    pub(crate) kind: &'static str,
    pub(crate) title: &'static str,
    /// Start of the wrong part of the query in bytes, and its end (exclusive).
    pub(crate) span: Option<[usize; 2]>,
    pub(crate) detail: Cow<'static, str>,
    /// Code of the reason for which a transaction is not resubmitted.
    pub(crate) reason: Option<String>,
}

impl Problem {
    /// A problem that always has the same detail.
    pub(crate) const fn fixed(
        status: StatusCode,
        kind: &'static str,
        title: &'static str,
        detail: &'static str,
    ) -> Self {
        Self { status, kind, title, span: None, detail: Cow::Borrowed(detail), reason: None }
    }

    /// The addressed object does not exist.
    pub(crate) const fn not_found(title: &'static str, detail: &'static str) -> Self {
        Self::fixed(StatusCode::NOT_FOUND, "not-found", title, detail)
    }

    /// There was no result in time, or weir is stopping.
    pub(crate) const fn unavailable(title: &'static str, detail: &'static str) -> Self {
        Self::fixed(StatusCode::SERVICE_UNAVAILABLE, "unavailable", title, detail)
    }

    /// An invalid request.
    pub(crate) fn bad(detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad-request", "Invalid request", detail)
    }

    pub(crate) fn new(
        status: StatusCode,
        kind: &'static str,
        title: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { detail: detail.into(), ..Self::fixed(status, kind, title, "") }
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
        if let Some(reason) = self.reason {
            body["reason"] = json!(reason);
        }
        let content_type = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (self.status, content_type, body.to_string()).into_response();
        if self.status == StatusCode::FORBIDDEN {
            response.extensions_mut().insert(Denied(self.detail.into_owned()));
        }
        response
    }
}

/// The query parameters of a request.
pub(crate) struct Params<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query = Query::try_from_uri(&parts.uri);
        query.map(|Query(params)| Self(params)).map_err(|error| Problem::bad(error.body_text()))
    }
}
