//! The `proxy` handler: a request goes to an upstream, and its response to the client, both as they come.

pub(crate) mod head;
pub(crate) mod mirror;

pub(crate) use head::fill;

use crate::body::RequestBody;
use crate::client_request::ClientRequest;
use crate::exchange::Exchange;
use crate::grpc;
use crate::headers::{is_edited, is_underscored, sign, strip_response};
use crate::problem::Problem;
use crate::rejection::Rejection;
use crate::response_body::ResponseBody;
use crate::upgrade;
use crate::upstream::{
    Connection, Http1Upload, Http2Upload, OutboundRequest, Outcome, Plan, Timeouts, TrailerFilter,
    UpstreamBody, hash, send,
};
use std::rc::Rc;
use weir_config::{Handler, HashKey, Instead, Proxy, Route, Upstream, UpstreamId};
use weir_wire::{Framing, Headers, Known, Method, RequestHead, has_token};

/// Forwards a request. The head of the response is then in `exchange.response`.
pub(crate) async fn forward<'a>(
    exchange: &mut Exchange,
    route: &Route,
    proxy: &Proxy,
    mut body: RequestBody<'a>,
) -> Result<ResponseBody<'a>, Rejection> {
    let live = Rc::clone(exchange.live());
    let id = exchange.upstream_of(proxy);
    let (upstream, settings) = (&live.upstreams[id.0], &live.site.config.upstreams[id.0]);
    body.at_hand()?;
    let is_http2 = upstream.speaks_http2();
    let (mut upgrade, mut trailers, mut is_grpc) = (None, false, false);
    if is_http2 {
        let headers = &exchange.request.headers;
        (trailers, is_grpc) = (accepts_trailers(headers), grpc::is_call(headers));
        if let Some(timeout) = grpc::timeout(headers).filter(|_| is_grpc) {
            exchange.deadline.bring_forward(exchange.started + timeout);
        }
    } else {
        upgrade = upgrade::wanted(exchange, proxy, body.framing() == Framing::None)?;
    }
    if upgrade.is_some() {
        // An upgraded connection cannot be mirrored.
        exchange.mirrors.clear();
    }
    // Before the headers are the upstream's.
    let key = settings.hash.as_ref().and_then(|by| hash_key(&exchange.view(), by));
    prepare(exchange, route, proxy, settings, &mut body);
    let filter = is_http2.then(|| trailer_filter(exchange, id));
    let target = head::target(exchange, proxy);
    let takes_interim = exchange.takes_interim();
    let Exchange { request, response, deadline, recording, report, span, interim, .. } = exchange;
    let plan = Plan {
        request: OutboundRequest {
            upgrade: upgrade.as_deref(),
            trailers,
            is_grpc,
            ..outbound(request, proxy, target.as_deref())
        },
        upstream,
        key,
        timeouts: Timeouts {
            first_byte: proxy.timeout.unwrap_or(upstream.timeouts.first_byte),
            ..upstream.timeouts
        },
        deadline,
        retries: true,
        interim: takes_interim.then_some(&**interim),
        span: span.as_ref(),
        times: recording.times(),
        report,
    };
    let outcome = match filter {
        None => send(plan, Http1Upload::new(body), response).await?,
        Some(filter) => Box::pin(send(plan, Http2Upload::new(body, filter), response)).await?,
    };
    match outcome {
        Outcome::Response(body) => Ok(receive(exchange, body, is_grpc)),
        Outcome::Switched { connection, is_complete } => {
            switch(exchange, proxy, upgrade, connection, is_complete)?;
            Ok(ResponseBody::Empty)
        }
    }
}

/// The request with the client's headers, which are the upstream's by now.
fn outbound<'r>(
    request: &'r RequestHead,
    proxy: &'r Proxy,
    target: Option<&'r str>,
) -> OutboundRequest<'r> {
    let target = target.unwrap_or(request.target());
    let (method, name) = (request.method, request.method_name());
    OutboundRequest {
        host: head::host(request.authority(), proxy),
        ..OutboundRequest::new(method, name, target, &request.headers)
    }
}

/// Turns the response of the upstream into the client's.
fn receive<'a>(exchange: &mut Exchange, body: UpstreamBody<'a>, is_grpc: bool) -> ResponseBody<'a> {
    if is_grpc
        && exchange.response.framing == Framing::None
        && let Some(code) = grpc::code(exchange.response.headers.get("grpc-status"))
    {
        exchange.end_grpc_call(code);
    }
    strip_response(&mut exchange.response, exchange.request.method);
    if body.is_empty() && exchange.request.method != Method::Head {
        // The head has to end the client's stream, too: clients of gRPC demand that.
        return ResponseBody::Empty;
    }
    ResponseBody::Upstream(body)
}

/// The client accepts trailers.
fn accepts_trailers(headers: &Headers) -> bool {
    has_token(headers.known_all(Known::Te), "trailers")
}

/// Makes what removes trailers of a request: those of headers that edits remove or replace, that carry
/// weir's own credential, or that have an underscore in their name.
fn trailer_filter(
    exchange: &Exchange,
    upstream: UpstreamId,
) -> impl FnOnce() -> Option<TrailerFilter> + 'static {
    let (live, route) = (Rc::clone(exchange.live()), exchange.route);
    move || {
        let (api, route) = route?;
        let filter: TrailerFilter = Box::new(move |name| {
            let config = &live.site.config;
            let route = &config.apis[api].routes[route];
            let upstream = &config.upstreams[upstream.0];
            let by_handler =
                matches!(&route.handler, Handler::Proxy(proxy) if is_edited(&proxy.headers, name));
            by_handler
                || is_edited(&route.request_headers, name)
                || is_underscored(name.as_bytes(), &upstream.underscores_in_headers)
                || upstream.credential.as_ref().is_some_and(|own| own.header == name)
        });
        Some(filter)
    }
}

/// Turns the client's headers into the upstream's. Mirrored requests start from them.
fn prepare(
    exchange: &mut Exchange,
    route: &Route,
    proxy: &Proxy,
    settings: &Upstream,
    body: &mut RequestBody<'_>,
) {
    let passed = &settings.underscores_in_headers;
    if exchange.mirrors.is_empty() {
        head::prepare(exchange, route, Some(&proxy.headers), passed);
    } else {
        mirror::prepare(exchange, route, proxy, passed, body);
    }
    sign(&mut exchange.request.headers, settings.credential.as_ref());
}

/// The upstream that traffic splitting selects, if one.
pub(crate) fn instead(exchange: &Exchange, proxy: &Proxy) -> Option<UpstreamId> {
    if proxy.instead.is_empty() {
        return None;
    }
    let scope = exchange.view().scope();
    let takes = |other: &&Instead| {
        other.when.as_ref().is_none_or(|when| when.holds(&scope))
            && other.share.as_ref().is_none_or(|share| {
                hash_key(&exchange.view(), &share.by)
                    .is_some_and(|key| hash::is_in(key, share.part))
            })
    };
    proxy.instead.iter().find(takes).map(|other| other.upstream)
}

/// The upstream has switched to another protocol.
fn switch(
    exchange: &mut Exchange,
    proxy: &Proxy,
    upgrade: Option<String>,
    connection: Box<Connection>,
    is_complete: bool,
) -> Result<(), Rejection> {
    let settings = proxy.upgrade.as_ref().filter(|_| is_complete);
    let switched = settings
        .zip(upgrade)
        .and_then(|(settings, protocol)| upgrade::accept(exchange, connection, protocol, settings));
    switched.ok_or_else(|| {
        Rejection::new(Problem::UpstreamProtocolError).detail("unrequested 101 from the upstream")
    })
}

/// The head that a request would be forwarded with, and the authority of the target it would go to;
/// no connection is made and nothing is sent.
pub(crate) fn outline(
    exchange: &mut Exchange,
    route: &Route,
    proxy: &Proxy,
    framing: Framing,
    upgrade: Option<&str>,
) -> Option<(Vec<u8>, String)> {
    let live = Rc::clone(exchange.live());
    let id = exchange.upstream_of(proxy).0;
    let (upstream, settings) = (&live.upstreams[id], &live.site.config.upstreams[id]);
    let key = settings.hash.as_ref().and_then(|by| hash_key(&exchange.view(), by));
    head::prepare(exchange, route, Some(&proxy.headers), &settings.underscores_in_headers);
    sign(&mut exchange.request.headers, settings.credential.as_ref());
    let to = &upstream.targets[upstream.choose(&[], key)?];
    let target = head::target(exchange, proxy);
    let outbound = outbound(&exchange.request, proxy, target.as_deref());
    let mut out = OutboundRequest { upgrade, ..outbound }.http1(&to.authority, framing, None);
    Some((std::mem::take(out.head()), to.name.clone()))
}

/// The hash of what keeps requests together; `None` if the request has nothing of the kind.
fn hash_key(request: &ClientRequest<'_>, by: &HashKey) -> Option<u64> {
    match by {
        HashKey::Address => Some(hash::of(request.client.address.to_string().as_bytes())),
        HashKey::Header(name) => request.head.headers.get(name).map(hash::of),
        HashKey::Expr(expr) => expr.value(&request.scope()).map(|value| match value {
            serde_json::Value::String(text) => hash::of(text.as_bytes()),
            other => hash::of(other.to_string().as_bytes()),
        }),
    }
}
