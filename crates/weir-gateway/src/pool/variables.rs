//! What a program is told about a request (RFC 3875 section 4.1).

use super::call::Call;
use crate::exchange::Exchange;
use crate::forwarded::{LONGEST_ADDRESS, display};
use crate::script_path::Found;
use std::os::unix::ffi::OsStrExt as _;
use weir_config::Pool;
use weir_wire::{Framing, Known, encode};

/// Who answers.
const SOFTWARE: &[u8] = concat!("weir/", env!("CARGO_PKG_VERSION")).as_bytes();
/// Longest name of a variable made of a header's.
const NAME: usize = 256;

/// Gives every variable to `push`.
pub(super) fn each(
    exchange: &Exchange,
    settings: &Pool,
    (script, call): (&Found, &Call),
    framing: Framing,
    mut push: impl FnMut(&str, &[u8]),
) {
    push("GATEWAY_INTERFACE", b"CGI/1.1");
    push("SERVER_SOFTWARE", SOFTWARE);
    push("SERVER_PROTOCOL", format!("HTTP/{}", exchange.version_name()).as_bytes());
    push("REQUEST_METHOD", call.method(exchange).as_bytes());
    push("REQUEST_URI", call.target(exchange).as_bytes());
    push("QUERY_STRING", call.query(exchange).as_bytes());
    push("SCRIPT_NAME", script.name.as_bytes());
    push("PATH_INFO", script.info.as_bytes());
    if let Some(file) = &script.file {
        push("SCRIPT_FILENAME", file.as_os_str().as_bytes());
        // Without it PHP takes itself to have been called past its server.
        push("REDIRECT_STATUS", b"200");
    }
    if let Some(root) = &script.root {
        push("DOCUMENT_ROOT", root.as_os_str().as_bytes());
        if !script.info.is_empty() {
            let below = script.info.trim_start_matches('/');
            push("PATH_TRANSLATED", root.join(below).as_os_str().as_bytes());
        }
    }
    peers(exchange, &mut push);
    if let Framing::Length(length) = framing {
        let mut digits = Vec::with_capacity(20);
        encode::decimal(&mut digits, length);
        push("CONTENT_LENGTH", &digits);
    }
    if !call.is_redirected()
        && let Some(kind) = exchange.request.headers.known(Known::ContentType)
    {
        push("CONTENT_TYPE", kind);
    }
    headers(exchange, &mut push);
    for (name, value) in &settings.params {
        push(name, value.as_bytes());
    }
}

fn peers(exchange: &Exchange, push: &mut impl FnMut(&str, &[u8])) {
    let mut address = [0; LONGEST_ADDRESS];
    push("REMOTE_ADDR", display(exchange.client.address, &mut address));
    if exchange.client.address == exchange.peer.ip().to_canonical() {
        push("REMOTE_PORT", exchange.peer.port().to_string().as_bytes());
    }
    let live = exchange.live();
    let consumer = exchange.consumer();
    if let Some(consumer) = consumer {
        push("REMOTE_USER", live.site.config.consumers[consumer.0].name.as_bytes());
    }
    let https = exchange.client.https;
    let authority = exchange.client.host.as_deref().unwrap_or(exchange.request.authority());
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    let port = port.filter(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    push("SERVER_NAME", exchange.host.as_bytes());
    push("SERVER_PORT", port.unwrap_or(if https { "443" } else { "80" }).as_bytes());
    push("REQUEST_SCHEME", if https { b"https" } else { b"http" });
    if https {
        push("HTTPS", b"on");
    }
    if !authority.is_empty() {
        push("HTTP_HOST", authority.as_bytes());
    }
}

/// `HTTP_` and the name in capitals; lines of the same name in one (section 4.1.18).
fn headers(exchange: &Exchange, push: &mut impl FnMut(&str, &[u8])) {
    let headers = &exchange.request.headers;
    let mut several: Vec<&str> = Vec::new();
    for (at, (known, name, value)) in headers.iter().enumerate() {
        if matches!(known, Known::Host | Known::ContentLength | Known::ContentType) {
            continue;
        }
        if name.len() > NAME || several.iter().any(|other| other.eq_ignore_ascii_case(name)) {
            continue;
        }
        let mut variable = String::with_capacity(name.len() + 5);
        variable.push_str("HTTP_");
        variable.extend(name.bytes().map(|byte| match byte {
            b'-' => '_',
            byte => char::from(byte.to_ascii_uppercase()),
        }));
        // Names are the same more rarely than they are compared: most requests have none.
        let more = headers.iter().skip(at + 1).any(|(_, n, _)| n.eq_ignore_ascii_case(name));
        if !more {
            push(&variable, value);
            continue;
        }
        several.push(name);
        let separator: &[u8] = if known == Known::Cookie { b"; " } else { b", " };
        let lines: Vec<&[u8]> = headers.get_all(name).collect();
        push(&variable, &lines.join(separator));
    }
}
