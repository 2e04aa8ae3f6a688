//! gRPC: calls are HTTP/2 requests whose status is in a trailer.
//!
//! <https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>

use crate::problem::Problem;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use std::time::Duration;
use weir_wire::{Headers, Known, ResponseHead};

/// Number of status codes; unknown codes count as `UNKNOWN`.
pub const CODES: usize = 17;
const UNKNOWN: usize = 2;
const UNAVAILABLE: usize = 14;
/// Codes of a server failure, like 5xx: `UNKNOWN`, `DEADLINE_EXCEEDED`, `INTERNAL`, `UNAVAILABLE`,
/// `DATA_LOSS`.
const FAILURES: [usize; 5] = [UNKNOWN, 4, 13, UNAVAILABLE, 15];

/// Whether a request is a gRPC call.
pub fn is_call(headers: &Headers) -> bool {
    const TYPE: &[u8] = b"application/grpc";
    headers.known(Known::ContentType).is_some_and(|value| {
        let (front, rest) = value.split_at(value.len().min(TYPE.len()));
        front.eq_ignore_ascii_case(TYPE) && matches!(rest.first(), None | Some(b'+' | b';' | b' '))
    })
}

/// Timeout of a call, if the client sets one.
pub fn timeout(headers: &Headers) -> Option<Duration> {
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

/// The status code of a completed call, by `grpc-status` of its trailers, or of the headers of a
/// response without a body.
pub fn code(status: Option<&[u8]>) -> Option<usize> {
    let code = std::str::from_utf8(status?).ok()?.parse().ok();
    Some(code.filter(|code| *code < CODES).unwrap_or(UNKNOWN))
}

/// Whether a status code is a server failure.
pub fn is_failure(code: usize) -> bool {
    FAILURES.contains(&code)
}

/// Converts the response to a rejected call to a trailers-only response of gRPC: a head that ends
/// the stream, with the status code, which is returned. The HTTP status of the problem is counted,
/// logged and recorded; the client receives 200.
pub fn reject(headers: &mut Headers, problem: Problem, detail: Option<&str>) -> usize {
    let code = code_of(problem);
    headers.push_known(Known::ContentType, b"application/grpc");
    headers.push("grpc-status", code.to_string().as_bytes());
    headers.push("grpc-message", message(problem.title(), detail).as_bytes());
    code
}

/// Sets the delay before a retry in milliseconds, if `Retry-After` is present.
pub fn push_back(headers: &mut Headers) {
    let seconds = headers.get("retry-after").and_then(|value| std::str::from_utf8(value).ok());
    if let Some(seconds) = seconds.and_then(|seconds| seconds.parse::<u32>().ok()) {
        // Clients parse the value as a signed 32-bit number.
        let millis = u64::from(seconds).saturating_mul(1000).min(i32::MAX as u64);
        headers.push("grpc-retry-pushback-ms", millis.to_string().as_bytes());
    }
}

/// The status code of a problem: by
/// <https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md>, and more precise if
/// the problem is more specific than its HTTP status.
fn code_of(problem: Problem) -> usize {
    const INVALID_ARGUMENT: usize = 3;
    const DEADLINE_EXCEEDED: usize = 4;
    const PERMISSION_DENIED: usize = 7;
    const RESOURCE_EXHAUSTED: usize = 8;
    const FAILED_PRECONDITION: usize = 9;
    const OUT_OF_RANGE: usize = 11;
    const UNIMPLEMENTED: usize = 12;
    const INTERNAL: usize = 13;
    const UNAUTHENTICATED: usize = 16;
    match problem {
        // A malformed message is not mapped like HTTP 400.
        Problem::BadRequest | Problem::BadBody => INTERNAL,
        // The upstream has processed the call, and would do so again: a retry is pointless.
        Problem::UpstreamProtocolError
        | Problem::UpstreamUnmappable
        | Problem::ResponseTooLarge
        | Problem::InvalidResponse => INTERNAL,
        problem => match problem.status() {
            400 | 406 | 415 | 417 | 422 => INVALID_ARGUMENT,
            401 => UNAUTHENTICATED,
            403 => PERMISSION_DENIED,
            404 | 405 | 501 => UNIMPLEMENTED,
            408 | 504 => DEADLINE_EXCEEDED,
            412 => FAILED_PRECONDITION,
            413 | 414 | 429 | 431 => RESOURCE_EXHAUSTED,
            416 => OUT_OF_RANGE,
            500 => INTERNAL,
            502 | 503 => UNAVAILABLE,
            _ => UNKNOWN,
        },
    }
}

/// The text of `grpc-message`: printable ASCII except `%`, the rest percent-encoded.
fn message(title: &str, detail: Option<&str>) -> String {
    const ESCAPED: &AsciiSet = &CONTROLS.add(b'%');
    let encoded = |text| utf8_percent_encode(text, ESCAPED);
    match detail {
        Some(detail) => format!("{}: {}", encoded(title), encoded(detail)),
        None => encoded(title).to_string(),
    }
}

/// The status of a response by its head: 503 for a call that is `UNAVAILABLE`.
pub fn status_of(response: &ResponseHead) -> u16 {
    match code(response.headers.get("grpc-status")) {
        Some(UNAVAILABLE) => 503,
        _ => response.status,
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
    fn problems_are_outcomes_of_calls() {
        for (problem, code) in [
            (Problem::InvalidRequest, 3),
            (Problem::BadRequest, 13),
            (Problem::MissingCredential, 16),
            (Problem::Forbidden, 7),
            (Problem::NoRoute, 12),
            (Problem::MethodNotAllowed, 12),
            (Problem::QuotaExhausted, 8),
            (Problem::BodyTooLarge, 8),
            (Problem::UpstreamUnreachable, UNAVAILABLE),
            (Problem::UpstreamProtocolError, 13),
            (Problem::ShuttingDown, UNAVAILABLE),
            (Problem::DeadlineExceeded, 4),
            (Problem::Internal, 13),
        ] {
            assert_eq!(code_of(problem), code, "{problem:?}");
        }
        assert!(Problem::ALL.iter().all(|problem| code_of(*problem) != UNKNOWN));
    }

    #[test]
    fn messages_are_printable_and_pauses_fit_into_32_bits() {
        let text = message("Too much", Some("100 % \u{fc}ber\n"));
        assert_eq!(text, "Too much: 100 %25 %C3%BCber%0A");
        for (value, millis) in [("2", Some("2000")), ("9999999", Some("2147483647")), ("x", None)] {
            let mut headers = headers("retry-after", value);
            push_back(&mut headers);
            let told = headers.get("grpc-retry-pushback-ms");
            assert_eq!(told, millis.map(str::as_bytes), "{value}");
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
