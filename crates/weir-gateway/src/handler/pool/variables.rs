//! The variables for a program (RFC 3875 section 4.1).

use super::call::Call;
use crate::context::Context;
use crate::script_path::Found;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt as _;
use weir_http::forwarded::{MAX_ADDRESS_BYTES, display};
use weir_model::pool::Pool;
use weir_record::client_request::ClientRequest;
use weir_wire::{Framing, Headers, Known, RequestHead, encode};

const SOFTWARE: &[u8] = concat!("weir/", env!("CARGO_PKG_VERSION")).as_bytes();
/// Maximum length of a header name that becomes a variable.
const MAX_NAME_BYTES: usize = 256;

/// Passes every variable to `push`.
pub(super) fn each(
    (context, request): (&Context<'_>, &RequestHead),
    settings: &Pool,
    (script, call): (&Found, &Call),
    framing: Framing,
    mut push: impl FnMut(&str, &[u8]),
) {
    push("GATEWAY_INTERFACE", b"CGI/1.1");
    push("SERVER_SOFTWARE", SOFTWARE);
    push("SERVER_PROTOCOL", format!("HTTP/{}", context.version).as_bytes());
    push("REQUEST_METHOD", call.method(request).as_bytes());
    push("REQUEST_URI", call.target(request).as_bytes());
    push("QUERY_STRING", call.query(request).as_bytes());
    push("SCRIPT_NAME", script.name.as_bytes());
    push("PATH_INFO", script.info.as_bytes());
    if let Some(file) = &script.file {
        push("SCRIPT_FILENAME", file.as_os_str().as_bytes());
        // PHP requires it: otherwise it assumes that the server was bypassed.
        push("REDIRECT_STATUS", b"200");
    }
    if let Some(root) = &script.root {
        push("DOCUMENT_ROOT", root.as_os_str().as_bytes());
        if !script.info.is_empty() {
            let below = script.info.trim_start_matches('/');
            push("PATH_TRANSLATED", root.join(below).as_os_str().as_bytes());
        }
    }
    peers(&context.view(request), &context.arrival.peer, &mut push);
    if let Framing::Length(length) = framing {
        let mut digits = Vec::with_capacity(20);
        encode::decimal(&mut digits, length);
        push("CONTENT_LENGTH", &digits);
    }
    if !call.is_redirected()
        && let Some(kind) = request.headers.known(Known::ContentType)
    {
        push("CONTENT_TYPE", kind);
    }
    headers(&request.headers, &mut push);
    for (name, value) in &settings.params {
        push(name, value.as_bytes());
    }
}

fn peers(request: &ClientRequest<'_>, peer: &SocketAddr, push: &mut impl FnMut(&str, &[u8])) {
    let client = request.client;
    let mut address = [0; MAX_ADDRESS_BYTES];
    push("REMOTE_ADDR", display(client.address, &mut address));
    if client.address == peer.ip().to_canonical() {
        push("REMOTE_PORT", peer.port().to_string().as_bytes());
    }
    if let Some(consumer) = request.consumer_name() {
        push("REMOTE_USER", consumer.as_bytes());
    }
    let https = client.https;
    let authority = client.host.as_deref().unwrap_or(request.head.authority());
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    let port = port.filter(|port| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    push("SERVER_NAME", request.host.as_bytes());
    push("SERVER_PORT", port.unwrap_or(if https { "443" } else { "80" }).as_bytes());
    push("REQUEST_SCHEME", if https { b"https" } else { b"http" });
    if https {
        push("HTTPS", b"on");
    }
    if !authority.is_empty() {
        push("HTTP_HOST", authority.as_bytes());
    }
}

/// Variables of headers: `HTTP_` and the upper-case name; lines of the same name are joined
/// (section 4.1.18).
fn headers(headers: &Headers, push: &mut impl FnMut(&str, &[u8])) {
    let mut repeated: Vec<&str> = Vec::new();
    for (at, (known, name, value)) in headers.iter().enumerate() {
        if matches!(known, Known::Host | Known::ContentLength | Known::ContentType) {
            continue;
        }
        if name.len() > MAX_NAME_BYTES
            || repeated.iter().any(|other| other.eq_ignore_ascii_case(name))
        {
            continue;
        }
        let mut variable = String::with_capacity(name.len() + 5);
        variable.push_str("HTTP_");
        variable.extend(name.bytes().map(|byte| match byte {
            b'-' => '_',
            byte => char::from(byte.to_ascii_uppercase()),
        }));
        let is_repeated = headers.iter().skip(at + 1).any(|(_, n, _)| n.eq_ignore_ascii_case(name));
        if !is_repeated {
            push(&variable, value);
            continue;
        }
        repeated.push(name);
        let separator: &[u8] = if known == Known::Cookie { b"; " } else { b", " };
        let lines: Vec<&[u8]> = headers.get_all(name).collect();
        push(&variable, &lines.join(separator));
    }
}
