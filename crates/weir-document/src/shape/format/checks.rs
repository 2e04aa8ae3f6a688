//! Validation of strings by format.

use super::Format;
use crate::finding::{Fault, codes};
use crate::units;
use base64::prelude::{BASE64_STANDARD, Engine};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Headers that frame a message or belong to a connection: only weir sets them.
const FRAMING: &[&str] = &[
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "host",
];

pub(super) fn name(text: &str) -> Result<(), Fault> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    let is_name = (1..=64).contains(&text.len()) && text.bytes().all(fits);
    (is_name && !text.starts_with(['-', '.'])).then_some(()).ok_or_else(|| {
        Fault::value(format!("`{text}` is not a valid name"))
            .help("use up to 64 letters, digits, `_`, `-` and `.`")
    })
}

/// Maximum length of an operation name in characters: an `operationId` of an OpenAPI document.
const MAX_OPERATION: usize = 128;

pub(super) fn operation(text: &str) -> Result<(), Fault> {
    let length = text.chars().count();
    let is_name = (1..=MAX_OPERATION).contains(&length) && !text.chars().any(char::is_control);
    is_name.then_some(()).ok_or_else(|| {
        Fault::value("not a valid operation name")
            .help(format!("use up to {MAX_OPERATION} characters without control characters"))
    })
}

/// A quantity with a unit: its name, its units, and the unit in examples.
struct Quantity(&'static str, &'static str, &'static str);

fn unit<T>(
    Quantity(name, units, unit): Quantity,
    result: Result<T, units::Fault>,
    (format, text): (&Format, &str),
) -> Result<T, Fault> {
    result.map_err(|fault| match fault {
        units::Fault::NoUnit => Fault::value(format!("a {name} needs a unit"))
            .code(codes::MISSING_UNIT)
            .help(format!("write `{text}{unit}`; units are {units}")),
        units::Fault::Unit => Fault::value(format!("unknown unit in `{text}`"))
            .help(format!("units of a {name} are {units}")),
        units::Fault::Number => Fault::value(format!("`{text}` is not a {name}"))
            .help(format!("use {}", format.description)),
    })
}

fn time(format: &Format, text: &str) -> Result<Duration, Fault> {
    unit(
        Quantity("duration", "`ms`, `s`, `m`, `h`, `d`", "s"),
        units::duration(text),
        (format, text),
    )
}

pub(super) fn duration(text: &str) -> Result<(), Fault> {
    time(&super::DURATION, text).map(|_| ())
}

pub(super) fn positive_duration(text: &str) -> Result<(), Fault> {
    match time(&super::POSITIVE_DURATION, text)? {
        Duration::ZERO => Err(Fault::value("the duration must be above zero")),
        _ => Ok(()),
    }
}

pub(super) fn size(text: &str) -> Result<(), Fault> {
    let size = Quantity("size", "`B`, `KiB`, `MiB`, `GiB`, `kB`, `MB`, `GB`", "KiB");
    unit(size, units::size(text), (&super::SIZE, text)).map(|_| ())
}

pub(super) fn rate(text: &str) -> Result<(), Fault> {
    let rate = Quantity("rate", "`/s`, `/min`, `/h`, `/d`", "/s");
    unit(rate, units::rate(text), (&super::RATE, text)).map(|_| ())
}

pub(super) fn percent(text: &str) -> Result<(), Fault> {
    unit(Quantity("percentage", "`%`", "%"), units::percent(text), (&super::PERCENT, text))
        .map(|_| ())
}

pub(super) fn address(text: &str) -> Result<(), Fault> {
    if text.parse::<SocketAddr>().is_ok() {
        return Ok(());
    }
    let fault = Fault::value(format!("`{text}` is not an address with a port"));
    Err(if let Some(port) = text.strip_prefix(':').filter(|p| p.parse::<u16>().is_ok()) {
        fault.help(format!("write `0.0.0.0:{port}` for every IPv4 address of this machine"))
    } else if let Ok(address) = text.parse::<IpAddr>() {
        fault.help(match address {
            IpAddr::V4(_) => format!("add the port: `{address}:8080`"),
            IpAddr::V6(_) => format!("add the port: `\"[{address}]:8080\"`"),
        })
    } else if let Some(port) = text.strip_prefix("localhost:") {
        fault.help(format!("write `127.0.0.1:{port}`"))
    } else if text.parse::<u16>().is_ok() {
        fault.help(format!("write `0.0.0.0:{text}`, or `127.0.0.1:{text}` for this machine only"))
    } else {
        fault.help("use an IP address and a port, for example `0.0.0.0:8080` or `\"[::]:8080\"`")
    })
}

pub(super) fn host(text: &str) -> Result<(), Fault> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    if name.parse::<std::net::Ipv6Addr>().is_ok() {
        return Ok(());
    }
    let label = |l: &str| {
        !l.is_empty()
            && l.len() <= 63
            && l.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    if !name.is_empty() && name.len() <= 253 && name.split('.').all(label) {
        return Ok(());
    }
    let fault = Fault::value(format!("`{text}` is not a host name"));
    Err(if text.contains("://") {
        fault.help("write the name only, without scheme, port and path")
    } else if text.contains(':') {
        fault.help("remove the port: all listeners serve the host")
    } else if text.contains('*') {
        fault.help("`*` is allowed only at the start: `*.example.com`")
    } else {
        fault.help("for example `api.example.com` or `*.example.com`")
    })
}

pub(super) fn header(text: &str, editable: bool) -> Result<(), Fault> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    if text.is_empty() || text.len() > 256 || !text.bytes().all(token) {
        return Err(Fault::value(format!("`{text}` is not a header name"))
            .code(codes::BAD_HEADER)
            .help("use letters, digits and !#$%&'*+-.^_`|~"));
    }
    let lower = text.to_ascii_lowercase();
    if editable && FRAMING.contains(&lower.as_str()) {
        let fault = Fault::value(format!("`{text}` cannot be edited")).code(codes::BAD_HEADER);
        return Err(if lower == "host" {
            fault.help("set the upstream's host with `proxy: {host: …}`")
        } else {
            fault.help("weir manages framing and connection headers")
        });
    }
    Ok(())
}

/// A protocol that a connection may be upgraded to (RFC 9110 section 7.8).
pub(super) fn protocol(text: &str) -> Result<(), Fault> {
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~/".contains(&b);
    if text.is_empty() || text.len() > 64 || !text.bytes().all(token) {
        return Err(
            Fault::value(format!("`{text}` is not a protocol")).help("for example `websocket`")
        );
    }
    let lower = text.to_ascii_lowercase();
    if lower == "h2c" || lower.starts_with("http") || lower.starts_with("tls") {
        let message =
            format!("upgrades to `{text}` are not allowed: its requests would bypass all policies");
        return Err(Fault::value(message).help("clients use HTTP/2 and TLS with weir itself"));
    }
    Ok(())
}

pub(super) fn header_value(text: &str) -> Result<(), Fault> {
    if text.bytes().any(|b| (b < 0x20 && b != b'\t') || b == 0x7f) {
        return Err(Fault::value("the header value contains a control character")
            .code(codes::BAD_HEADER)
            .help("remove line breaks and other control characters"));
    }
    if text.trim() != text || text.len() > 16 * 1024 {
        return Err(Fault::value("the header value begins or ends with a space, or is too long")
            .code(codes::BAD_HEADER));
    }
    Ok(())
}

pub(super) fn method(text: &str) -> Result<(), Fault> {
    if !text.is_empty()
        && text.len() <= 32
        && text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-')
    {
        if text.eq_ignore_ascii_case("connect") || text.eq_ignore_ascii_case("trace") {
            return Err(Fault::value(format!("the method `{text}` is not supported")));
        }
        return Ok(());
    }
    Err(Fault::value(format!("`{text}` is not a method")).help("for example `get` or `post`"))
}

pub(super) fn key_hash(text: &str) -> Result<(), Fault> {
    let digits = text.strip_prefix("sha256:");
    if digits.is_some_and(|d| d.len() == 64 && d.bytes().all(|b| b.is_ascii_hexdigit())) {
        return Ok(());
    }
    // The text may be the key itself and is not repeated.
    Err(Fault::value("not the hash of a key")
        .help("write the hash that `weir key new` prints, not the key"))
}

pub(super) fn origin(text: &str) -> Result<(), Fault> {
    if text == "*" {
        return Ok(());
    }
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let fault = Fault::value(format!("`{text}` is not an origin"));
    match rest {
        Some(host) if !host.is_empty() && !host.contains(['/', '*', ' ']) => Ok(()),
        Some(_) => {
            Err(fault
                .help("write scheme, host and port only, without path, trailing slash and `*`"))
        }
        None => Err(fault.help(format!("add the scheme: `https://{text}`"))),
    }
}

pub(super) fn base64(text: &str) -> Result<(), Fault> {
    let packed: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    BASE64_STANDARD
        .decode(packed)
        .map(|_| ())
        .map_err(|_| Fault::value("not Base64").help("use the standard alphabet, with padding"))
}

pub(super) fn json_path(text: &str) -> Result<(), Fault> {
    super::parse_json_path(text).map(|_| ()).map_err(|message| {
        Fault::value(message).help("for example `$.order.id` or `$['order id']`")
    })
}

pub(super) fn file_below(text: &str) -> Result<(), Fault> {
    let odd = |segment: &str| matches!(segment, "" | "." | "..") || segment.contains('\0');
    if text.split('/').any(odd) {
        return Err(Fault::value(format!("`{text}` is not a file below a folder"))
            .help("write names separated by single slashes: `app/index.html`"));
    }
    Ok(())
}
