//! Heads of HTTP/2: converts requests to the form of the stages, and responses to the types of
//! `h2`.

use http::header::{self, HeaderMap, HeaderValue};
use std::cell::RefCell;
use weir_config::Limits;
use weir_gateway::exchange::Exchange;
use weir_gateway::response_body::ResponseBody;
use weir_gateway::worker::Worker;
use weir_http::headers;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_wire::{Framing, HeadError, Known, Method};

/// Converts a head; returns the declared framing of the body.
///
/// # Errors
/// The head would be invalid in HTTP/1.1, or exceeds a limit.
pub(super) fn read(
    exchange: &mut Exchange,
    parts: &http::request::Parts,
    limits: &Limits,
) -> Result<Option<Framing>, Rejection> {
    let request = &mut exchange.request;
    let authority = parts.uri.authority().map(http::uri::Authority::as_str);
    let target = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let hosts = parts.headers.get_all(header::HOST).iter().map(HeaderValue::as_bytes);
    // The memory may contain an earlier request: it is cleared.
    request.set_http2_line(parts.method.as_str(), target, authority, hosts)?;
    if target.len() > limits.url {
        return Err(HeadError::TargetTooLong.into());
    }
    if parts.headers.len() > limits.headers {
        return Err(Rejection::new(Problem::HeadersTooLarge).detail("too many header fields"));
    }
    let mut cookies = Vec::new();
    for (name, value) in &parts.headers {
        let value = trim(value.as_bytes());
        match *name {
            header::COOKIE => {
                // Split for compression; joined again for HTTP/1.1 (RFC 9113 section 8.2.3).
                if !cookies.is_empty() {
                    cookies.extend_from_slice(b"; ");
                }
                cookies.extend_from_slice(value);
            }
            header::HOST => {}
            _ => request.headers.push(name.as_str(), value),
        }
    }
    if !cookies.is_empty() {
        request.headers.push("cookie", &cookies);
    }
    Ok(request.declared_framing()?)
}

/// Removes surrounding white space, which is not part of a value over HTTP/1.1 either.
fn trim(value: &[u8]) -> &[u8] {
    match value {
        [b' ' | b'\t', ..] | [.., b' ' | b'\t'] => value.trim_ascii(),
        _ => value,
    }
}

/// Writes the head of a response.
pub(super) fn write(
    exchange: &Exchange,
    body: &ResponseBody<'_>,
    has_body: bool,
    out: &mut HeaderMap,
) {
    let id =
        (Known::WeirTransactionId, Known::WeirTransactionId.name(), exchange.arrival.id.as_bytes());
    for field in exchange.response.headers.iter().chain([id]) {
        if !concerns_connection(field.0) && headers::put_http2(out, field).is_err() {
            break;
        }
    }
    if exchange.response.headers.known(Known::Date).is_none() {
        // A full map has no date, which is allowed.
        let _ = out.try_insert(header::DATE, date(exchange.worker, exchange.arrival.unix));
    }
    let declared = exchange.response.headers.known(Known::ContentLength).is_some();
    let to_head = exchange.request.method == Method::Head;
    if let (Some(length), false, false) =
        (body.length_to_declare(to_head), declared, matches!(exchange.response.status, 204 | 304))
        && (has_body || !matches!(body, ResponseBody::Empty))
    {
        let _ = out.try_insert(header::CONTENT_LENGTH, length.into());
    }
}

/// A connection-specific field, which HTTP/2 excludes (RFC 9113 section 8.2.2).
fn concerns_connection(known: Known) -> bool {
    matches!(
        known,
        Known::Connection
            | Known::KeepAlive
            | Known::ProxyConnection
            | Known::Te
            | Known::TransferEncoding
            | Known::Upgrade
    )
}

thread_local! {
    /// The date of a second, which all responses of that second share.
    static DATE: RefCell<(u64, HeaderValue)> =
        const { RefCell::new((u64::MAX, HeaderValue::from_static(""))) };
}

fn date(worker: &Worker, unix: u64) -> HeaderValue {
    DATE.with_borrow_mut(|date| {
        if date.0 != unix {
            let mut text = Vec::with_capacity(29);
            worker.date.push(unix, &mut text);
            if let Ok(value) = HeaderValue::from_maybe_shared(bytes::Bytes::from(text)) {
                *date = (unix, value);
            }
        }
        date.1.clone()
    })
}
