//! What weir knows of gRPC: calls are HTTP/2 requests whose outcome stands in a trailer.
//!
//! <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>

use crate::exchange::Exchange;
use crate::upstream::Target;
use http::HeaderMap;
use std::time::Duration;
use weir_wire::{Headers, Known};

/// Status codes there are; what is none of them counts as `UNKNOWN`.
pub(crate) const CODES: usize = 17;
const UNKNOWN: usize = 2;
const UNAVAILABLE: usize = 14;
/// Codes that say that the server failed, as 5xx do: `UNKNOWN`, `DEADLINE_EXCEEDED`, `INTERNAL`,
/// `UNAVAILABLE`, `DATA_LOSS`.
const FAILURES: [usize; 5] = [UNKNOWN, 4, 13, UNAVAILABLE, 15];

/// Whether a request is a call.
pub(crate) fn is_call(headers: &Headers) -> bool {
    const TYPE: &[u8] = b"application/grpc";
    headers.known(Known::ContentType).is_some_and(|value| {
        let (front, rest) = value.split_at(value.len().min(TYPE.len()));
        front.eq_ignore_ascii_case(TYPE) && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
    })
}

/// How long the client gives a call, if it says so.
pub(crate) fn timeout(headers: &Headers) -> Option<Duration> {
    let (unit, digits) = headers.get("grpc-timeout")?.split_last()?;
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0u64, |n, digit| n * 10 + u64::from(digit - b'0'));
    Some(match unit {
        b'H' => Duration::from_secs(number * 3600),
        b'M' => Duration::from_secs(number * 60),
        b'S' => Duration::from_secs(number),
        b'm' => Duration::from_millis(number),
        b'u' => Duration::from_micros(number),
        b'n' => Duration::from_nanos(number),
        _ => return None,
    })
}

/// The outcome of a call, by the headers it stands in.
fn code(headers: &HeaderMap) -> Option<usize> {
    let code = headers.get("grpc-status")?.to_str().ok()?.parse().ok();
    Some(code.filter(|code| *code < CODES).unwrap_or(UNKNOWN))
}

/// A call is over with these trailers, or an answer without a body has these headers: its outcome is
/// counted and recorded.
pub(crate) fn note(exchange: &mut Exchange, target: &Target, headers: &HeaderMap) {
    let Some(code) = code(headers) else { return };
    target.stats.grpc[code].add(1);
    if exchange.recording.is_shown() {
        let notes = exchange.notes.get_or_insert_default();
        notes.properties.push(("grpc_status".to_owned(), code.to_string()));
    }
    if FAILURES.contains(&code) {
        exchange.recording.failed();
    }
}

/// The status of an answer as far as its head tells: that of a call that found nobody is 503.
pub(crate) fn status_of<T>(response: &http::Response<T>) -> u16 {
    match code(response.headers()) {
        Some(UNAVAILABLE) => 503,
        _ => response.status().as_u16(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &str, value: &str) -> Headers {
        let mut headers = Headers::new();
        headers.push(name, value.as_bytes());
        headers
    }

    #[test]
    fn calls_are_known_by_their_type() {
        for (value, is) in [
            ("application/grpc", true),
            ("Application/gRPC+proto", true),
            ("application/grpc; x=y", true),
            ("application/grpc-web", false),
            ("application/json", false),
        ] {
            assert_eq!(is_call(&headers("content-type", value)), is, "{value}");
        }
    }

    #[test]
    fn timeouts_have_a_unit_and_at_most_eight_digits() {
        for (value, micros) in [
            ("1H", Some(3_600_000_000)),
            ("2M", Some(120_000_000)),
            ("3S", Some(3_000_000)),
            ("40m", Some(40_000)),
            ("50u", Some(50)),
            ("60000n", Some(60)),
            ("123456789m", None),
            ("m", None),
            ("-1m", None),
            ("1s", None),
        ] {
            let found = timeout(&headers("grpc-timeout", value));
            assert_eq!(found, micros.map(Duration::from_micros), "{value}");
        }
    }
}
