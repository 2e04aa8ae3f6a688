//! Converts the result of a script to a response.

use super::report;
use crate::handler::{HandlerInput, reply};
use crate::response_body::ResponseBody;
use bytes::Bytes;
use weir_config::Script;
use weir_expr::Format;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_script::{ScriptBody, ScriptResponse};
use weir_wire::{Headers, Known, ResponseHead};

/// Reason why the result of a script is not sent.
pub(super) enum InvalidResult {
    /// No format is acceptable to the client.
    Rejected(Rejection),
    /// The result cannot be written as HTTP.
    Malformed(String),
}

impl InvalidResult {
    /// The response to the client.
    pub(super) fn reject(self, input: &mut HandlerInput<'_>, script: &Script) -> Rejection {
        match self {
            Self::Rejected(rejection) => rejection,
            Self::Malformed(why) => report(input, script, Problem::ScriptFailed, &why),
        }
    }
}

/// Responds with the result of a script.
pub(super) fn write<'a>(
    input: &mut HandlerInput<'_>,
    script: &Script,
    result: ScriptResponse,
) -> Result<ResponseBody<'a>, Rejection> {
    let written = write_to(input.response, &input.request.headers, script, result);
    written.map_err(|invalid| invalid.reject(input, script))
}

fn write_to<'a>(
    response: &mut ResponseHead,
    request: &Headers,
    script: &Script,
    result: ScriptResponse,
) -> Result<ResponseBody<'a>, InvalidResult> {
    let ScriptResponse { status, headers, body } = result;
    for (name, value) in &headers {
        let value = match field(name, value) {
            Ok(value) => value,
            Err(invalid) => {
                response.headers.clear();
                return Err(invalid);
            }
        };
        if !is_managed(name) {
            response.headers.push(name, value);
        }
    }
    response.status = status;
    // Statuses that never have a body (RFC 9110 section 15).
    let bodiless = matches!(status, 204 | 205 | 304);
    let body = if bodiless { ScriptBody::Empty } else { body };
    let headers = &mut response.headers;
    let (content_type, bytes) = encode(body, || preferred(request, headers, script))?;
    if let Some(content_type) = content_type
        && headers.known(Known::ContentType).is_none()
    {
        headers.push("content-type", content_type.as_bytes());
    }
    Ok(if bytes.is_empty() { ResponseBody::Empty } else { ResponseBody::Whole(bytes) })
}

/// An encoded body and its content type; a value is encoded as `format`.
pub(super) fn encode<'s>(
    body: ScriptBody,
    format: impl FnOnce() -> Result<&'s Format, InvalidResult>,
) -> Result<(Option<&'s str>, Bytes), InvalidResult> {
    Ok(match body {
        ScriptBody::Empty => (None, Bytes::new()),
        ScriptBody::Text(text) => (Some("text/plain; charset=utf-8"), Bytes::from(text)),
        ScriptBody::Bytes(bytes) => (Some("application/octet-stream"), Bytes::from(bytes)),
        ScriptBody::Value(json) => {
            let format = format()?;
            let bytes = match format {
                // Encoded by the engine, which has the indentation.
                Format::Json { .. } => json,
                Format::Xml(_) => format
                    .render(&json)
                    .map_err(|_| InvalidResult::Rejected(Problem::Internal.into()))?,
            };
            (Some(format.content_type()), Bytes::from(bytes))
        }
    })
}

/// The value of a header, if name and value are valid.
pub(super) fn field<'v>(name: &str, value: &'v str) -> Result<&'v [u8], InvalidResult> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let text = |b: u8| b == b'\t' || (b >= b' ' && b != 0x7f);
    if name.is_empty() || !name.bytes().all(token) || !value.bytes().all(text) {
        let why = format!("the header `{name}` contains characters that are invalid in HTTP");
        return Err(InvalidResult::Malformed(why));
    }
    Ok(value.trim_matches([' ', '\t']).as_bytes())
}

/// The format that the client prefers, by the headers of the request.
pub(super) fn preferred<'s>(
    request: &Headers,
    response: &mut Headers,
    script: &'s Script,
) -> Result<&'s Format, InvalidResult> {
    let formats = &script.formats;
    let offered = formats.iter().map(Format::content_type);
    let index = reply::choose(request, offered).map_err(InvalidResult::Rejected)?;
    if formats.len() > 1 {
        weir_http::cors::add_vary(response, "accept");
    }
    Ok(&formats[index])
}

/// Whether weir itself manages a header. Upstream responses returned by a script have such headers.
pub(super) fn is_managed(name: &str) -> bool {
    const MANAGED: [&str; 10] = [
        "connection",
        "content-length",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "weir-transaction-id",
    ];
    MANAGED.contains(&name)
}
