//! From what a script gives to an answer.

use crate::exchange::Exchange;
use crate::problem::Problem;
use crate::rejection::Rejection;
use crate::reply;
use crate::response_body::ResponseBody;
use bytes::Bytes;
use weir_config::{Format, Script};
use weir_script::{ScriptBody, ScriptResponse};
use weir_wire::Known;

/// Why an answer is not given.
pub(super) enum Unfit {
    /// The client accepts none of the formats.
    Refused(Rejection),
    /// It cannot be written as HTTP.
    Malformed(String),
}

impl Unfit {
    /// What the client is told.
    pub(super) fn tell(self, exchange: &mut Exchange, script: &Script) -> Rejection {
        match self {
            Self::Refused(rejection) => rejection,
            Self::Malformed(why) => super::tell(exchange, script, Problem::ScriptFailed, &why),
        }
    }
}

/// Puts an answer into `exchange.response`; gives its body.
pub(super) fn give<'a>(
    exchange: &mut Exchange,
    script: &Script,
    answer: ScriptResponse,
) -> Result<ResponseBody<'a>, Unfit> {
    let ScriptResponse { status, headers, body } = answer;
    let response = &mut exchange.response;
    for (name, value) in &headers {
        let value = match field(name, value) {
            Ok(value) => value,
            Err(unfit) => {
                response.headers.clear();
                return Err(unfit);
            }
        };
        if !is_ours(name) {
            response.headers.push(name, value);
        }
    }
    response.status = status;
    // Those that never have one (RFC 9110 section 15).
    let bodiless = matches!(status, 204 | 205 | 304);
    let body = if bodiless { ScriptBody::Empty } else { body };
    let (content_type, bytes) = body_of(exchange, script, body)?;
    let headers = &mut exchange.response.headers;
    if let Some(content_type) = content_type
        && headers.known(Known::ContentType).is_none()
    {
        headers.push("content-type", content_type.as_bytes());
    }
    Ok(if bytes.is_empty() { ResponseBody::Empty } else { ResponseBody::Whole(bytes) })
}

/// A body as it is sent, and what it is; a value in the format that the client prefers.
pub(super) fn body_of<'s>(
    exchange: &mut Exchange,
    script: &'s Script,
    body: ScriptBody,
) -> Result<(Option<&'s str>, Bytes), Unfit> {
    written(body, || preferred(exchange, script))
}

/// A body as it is sent, and what it is; a value in the format that is found for it.
pub(super) fn written<'s>(
    body: ScriptBody,
    format: impl FnOnce() -> Result<&'s Format, Unfit>,
) -> Result<(Option<&'s str>, Bytes), Unfit> {
    Ok(match body {
        ScriptBody::Empty => (None, Bytes::new()),
        ScriptBody::Text(text) => (Some("text/plain; charset=utf-8"), Bytes::from(text)),
        ScriptBody::Bytes(bytes) => (Some("application/octet-stream"), Bytes::from(bytes)),
        ScriptBody::Value(json) => {
            let format = format()?;
            let bytes = match format {
                // As the engine writes it, which knows the indentation.
                Format::Json { .. } => json,
                Format::Xml(_) => format
                    .render(&json)
                    .map_err(|_| Unfit::Refused(Rejection::new(Problem::Internal)))?,
            };
            (Some(format.content_type()), Bytes::from(bytes))
        }
    })
}

/// The value of a header, if the two can be written.
pub(super) fn field<'v>(name: &str, value: &'v str) -> Result<&'v [u8], Unfit> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let text = |b: u8| b == b'\t' || (b >= b' ' && b != 0x7f);
    if name.is_empty() || !name.bytes().all(token) || !value.bytes().all(text) {
        let why = format!("the header `{name}` contains characters that are invalid in HTTP");
        return Err(Unfit::Malformed(why));
    }
    Ok(value.trim_matches([' ', '\t']).as_bytes())
}

/// The format that the client prefers.
fn preferred<'s>(exchange: &mut Exchange, script: &'s Script) -> Result<&'s Format, Unfit> {
    let formats = &script.formats;
    let offered = formats.iter().map(Format::content_type);
    let index = reply::choose(&exchange.request.headers, offered).map_err(Unfit::Refused)?;
    if formats.len() > 1 {
        crate::cors::add_vary(&mut exchange.response.headers, "accept");
    }
    Ok(&formats[index])
}

/// Whether weir itself decides about a header. Answers of upstreams that are passed on have them.
pub(super) fn is_ours(name: &str) -> bool {
    const OURS: [&str; 10] = [
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
    OURS.contains(&name)
}
