//! Connection upgrades, above all WebSockets: the client requests another protocol, the upstream
//! switches (101), and weir copies bytes in both directions until one side or a limit ends the
//! connection (RFC 9110 section 7.8, RFC 6455).
//!
//! The request passes every stage like any other. Bytes after the 101 pass no policy and are not
//! recorded: one transaction records their number, the messages, the duration and the side that
//! ended the connection.

mod frames;
mod tunnel;

pub use tunnel::{TunnelReport, run};

use crate::context::Context;
use weir_config::{Origins, Proxy, Upgrade};
use weir_http::headers::strip_response;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_upstream::{Connection, Upgraded};
use weir_wire::{Headers, Known, Method, RequestHead, ResponseHead, has_token};

/// The protocol whose frames weir parses, to count messages and to detect ends.
const WEBSOCKET: &str = "websocket";

/// The protocol of an allowed upgrade request; `None` without such a request, or if the upgrade can
/// be ignored, as RFC 9110 section 7.8 permits.
///
/// # Errors
/// A WebSocket is requested and not allowed, or the request is not valid for an upgrade.
pub(crate) fn requested(
    context: &Context<'_>,
    request: &RequestHead,
    proxy: &Proxy,
    bodiless: bool,
) -> Result<Option<String>, Rejection> {
    let headers = &request.headers;
    if !headers.may_have(Known::Upgrade) || !context.is_http11 {
        return Ok(None);
    }
    if !has_token(headers.known_all(Known::Connection), "upgrade") {
        return Ok(None);
    }
    let allowed = proxy.upgrade.as_ref().map(|upgrade| upgrade.protocols.as_slice());
    let allowed = allowed.unwrap_or_default();
    let chosen = offered(headers).find(|one| allowed.contains(one));
    let Some(chosen) = chosen else {
        return match offered(headers).any(|one| one == WEBSOCKET) {
            true => {
                context.worker.stats.upgrades_refused.add(1);
                Err(Problem::UpgradeRefused.into())
            }
            false => Ok(None),
        };
    };
    if chosen == WEBSOCKET && !is_admitted(context, request, proxy) {
        context.worker.stats.upgrades_refused.add(1);
        let why = "WebSockets are not allowed from this origin (`origins`)";
        return Err(Rejection::new(Problem::UpgradeRefused).detail(why));
    }
    if !bodiless {
        let why = "an upgrade request must not have a body";
        return Err(Rejection::new(Problem::BadRequest).detail(why));
    }
    if chosen == WEBSOCKET && request.method != Method::Get {
        return Err(
            Rejection::new(Problem::BadRequest).detail("a WebSocket handshake requires GET")
        );
    }
    Ok(Some(chosen))
}

/// Whether the Origin of a WebSocket request is allowed. The same-origin policy does not apply to
/// WebSockets: browsers open them for any page, with the cookies of the host. Other clients send no
/// Origin.
fn is_admitted(context: &Context<'_>, request: &RequestHead, proxy: &Proxy) -> bool {
    let mut origins = request.headers.known_all(Known::Origin);
    let Some(origin) = origins.next() else { return true };
    let admitted = proxy.upgrade.as_ref().and_then(|upgrade| upgrade.origins.as_ref());
    if admitted == Some(&Origins::Any) {
        return true;
    }
    let Ok(origin) = std::str::from_utf8(origin) else { return false };
    let authority = context.arrival.client.host.as_deref().unwrap_or(request.authority());
    let listed = match admitted {
        Some(Origins::List(list)) => list.iter().any(|one| one.eq_ignore_ascii_case(origin)),
        _ => false,
    };
    origins.next().is_none() && (listed || is_same_host(origin, authority))
}

/// Whether an origin has this host and port. Its scheme may be that of a proxy in front of weir.
fn is_same_host(origin: &str, authority: &str) -> bool {
    let Some((scheme, host)) = origin.split_once("://") else { return false };
    let port = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    let bare = |text: &str| text.strip_suffix(port).unwrap_or(text).to_ascii_lowercase();
    !host.is_empty() && bare(host) == bare(authority)
}

/// Protocols of the Upgrade header, lower case, in order.
fn offered(headers: &Headers) -> impl Iterator<Item = String> {
    let values = headers.known_all(Known::Upgrade).flat_map(|value| value.split(|&b| b == b','));
    values.map(|one| String::from_utf8_lossy(one.trim_ascii()).to_ascii_lowercase())
}

/// Accepts the upgrade that the upstream has agreed to; `response` becomes the head for the client.
/// `None` if the upstream agreed to another protocol.
pub(crate) fn accept(
    response: &mut ResponseHead,
    method: Method,
    connection: Box<Connection>,
    protocol: String,
    settings: &Upgrade,
) -> Option<Box<Upgraded>> {
    let headers = &response.headers;
    let agreed = has_token(headers.known_all(Known::Connection), "upgrade")
        && offered(headers).eq([protocol.as_str()].map(str::to_owned));
    if !agreed {
        return None;
    }
    strip_response(response, method);
    response.headers.push("connection", b"upgrade");
    response.headers.push("upgrade", protocol.as_bytes());
    Some(Box::new(Upgraded { connection, protocol, settings: settings.clone() }))
}
