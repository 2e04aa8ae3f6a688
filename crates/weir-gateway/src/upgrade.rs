//! Connections that become something else: a client asks for a WebSocket, say, the upstream agrees
//! (101), and from then on bytes pass both ways until one side ends it or a limit does (RFC 9110
//! section 7.8, RFC 6455).
//!
//! The request goes through every stage like any other. What comes after the 101 no policy looks at
//! and no record keeps: how many bytes and messages passed, who ended it and how long it lasted is
//! recorded, as one transaction.

mod frames;
mod tunnel;

pub(crate) use tunnel::{TunnelReport, run};

use crate::context::Context;
use crate::headers::strip_response;
use crate::problem::Problem;
use crate::rejection::Rejection;
use crate::upstream::{Connection, Upgraded};
use weir_config::{Origins, Proxy, Upgrade};
use weir_wire::{Headers, Known, Method, RequestHead, ResponseHead, has_token};

/// The protocol whose frames weir knows, to tell messages and ends.
const WEBSOCKET: &str = "websocket";

/// The protocol that a request asks its connection to become, if it may; `None` if it asks for none
/// or for one that can be left out, as RFC 9110 section 7.8 allows.
///
/// # Errors
/// It asks for a WebSocket, without which there is nothing to answer, and may not have one; or it
/// is no request that can become one.
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

/// Whether whoever asks for a WebSocket may have one, by the page that does. The rule of other origins
/// does not hold for WebSockets: browsers open them for any page, with the cookies of the host that
/// they go to. Whoever is no browser sends no Origin.
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

/// Whether an origin has this host and port. Its scheme is that of whatever stands in front of weir.
fn is_same_host(origin: &str, authority: &str) -> bool {
    let Some((scheme, host)) = origin.split_once("://") else { return false };
    let port = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    let bare = |text: &str| text.strip_suffix(port).unwrap_or(text).to_ascii_lowercase();
    !host.is_empty() && bare(host) == bare(authority)
}

/// Protocols that a head names, lower case, in their order.
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
