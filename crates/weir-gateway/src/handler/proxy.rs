//! The `proxy` handler: forwards a request to an upstream, and streams its response to the client.

mod description;
mod mirror;
mod target;

pub(super) use description::describe;

use super::{HandlerInput, Outline, Selection, Served, head};
use crate::context::Context;
use crate::response_body::ResponseBody;
use crate::upgrade;
use std::rc::Rc;
use weir_config::{Handler, HashKey, Instead, Proxy};
use weir_http::body::RequestBody;
use weir_http::grpc;
use weir_http::headers::{is_edited, is_underscored, sign, strip_response};
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_model::UpstreamId;
use weir_record::client_request::ClientRequest;
use weir_upstream::{
    Http1Upload, Http2Upload, OutboundRequest, Outcome, Plan, Timeouts, TrailerFilter, Upstream,
    UpstreamBody, hash, send,
};
use weir_wire::{Framing, Headers, Known, Method, RequestHead, has_token};

/// Forward rules, read from the client's headers before these are converted to the upstream's.
struct Forward<'x> {
    id: UpstreamId,
    upstream: &'x Upstream,
    settings: &'x weir_config::Upstream,
    /// The hash for sticky sessions.
    key: Option<u64>,
    /// Protocol that the connection may be upgraded to.
    upgrade: Option<String>,
    is_grpc: bool,
    /// The client accepts trailers.
    trailers: bool,
}

impl<'x> Forward<'x> {
    /// # Errors
    /// The request has an upgrade that is not allowed.
    fn new(
        context: &Context<'x>,
        request: &RequestHead,
        proxy: &Proxy,
        framing: Framing,
    ) -> Result<Self, Rejection> {
        let id = context.decisions.selection.upstream_of(proxy);
        let (upstream, settings) =
            (&context.live.upstreams[id.0], &context.config().upstreams[id.0]);
        let is_http2 = upstream.speaks_http2();
        let upgrade = match is_http2 {
            true => None,
            false => upgrade::requested(context, request, proxy, framing == Framing::None)?,
        };
        let by = settings.hash.as_ref();
        Ok(Self {
            id,
            upstream,
            settings,
            key: by.and_then(|by| hash_key(&context.view(request), by)),
            upgrade,
            is_grpc: is_http2 && grpc::is_call(&request.headers),
            trailers: is_http2 && accepts_trailers(&request.headers),
        })
    }

    /// The outbound request, whose headers are converted already.
    fn outbound<'r>(
        &'r self,
        request: &'r RequestHead,
        proxy: &'r Proxy,
        target: Option<&'r str>,
    ) -> OutboundRequest<'r> {
        let target = target.unwrap_or(request.target());
        let (method, name) = (request.method, request.method_name());
        OutboundRequest {
            host: target::host(request.authority(), proxy),
            upgrade: self.upgrade.as_deref(),
            trailers: self.trailers,
            is_grpc: self.is_grpc,
            ..OutboundRequest::new(method, name, target, &request.headers)
        }
    }
}

/// Forwards a request.
pub(super) async fn serve<'a>(
    input: &mut HandlerInput<'_>,
    proxy: &Proxy,
    mut body: RequestBody<'a>,
) -> Result<Served<'a>, Rejection> {
    body.read_buffered()?;
    let context = &input.context;
    let forward = Forward::new(context, input.request, proxy, body.framing())?;
    if let Some(timeout) = grpc::timeout(&input.request.headers).filter(|_| forward.is_grpc) {
        context.deadline.bring_forward(context.arrival.started + timeout);
    }
    prepare(input, proxy, &forward, Some(&mut body));
    let filter =
        forward.upstream.speaks_http2().then(|| trailer_filter(&input.context, forward.id));
    let target = target::target(&input.view(), proxy);
    let HandlerInput { context, request, response, recording, report, .. } = input;
    let upstream = forward.upstream;
    let plan = Plan {
        request: forward.outbound(request, proxy, target.as_deref()),
        upstream,
        key: forward.key,
        timeouts: Timeouts {
            first_byte: proxy.timeout.unwrap_or(upstream.timeouts.first_byte),
            ..upstream.timeouts
        },
        deadline: context.deadline,
        retries: true,
        interim: context.interim(),
        span: context.span,
        times: recording.times(),
        report,
    };
    let outcome = match filter {
        None => send(plan, Http1Upload::new(body), response).await?,
        Some(filter) => Box::pin(send(plan, Http2Upload::new(body, filter), response)).await?,
    };
    match outcome {
        Outcome::Response(body) => Ok(Served::Response(receive(input, body, forward.is_grpc))),
        Outcome::Switched { connection, is_complete } => {
            let allowed = proxy.upgrade.as_ref().zip(forward.upgrade).filter(|_| is_complete);
            let upgraded = allowed.and_then(|(settings, protocol)| {
                upgrade::accept(response, request.method, connection, protocol, settings)
            });
            upgraded.map(Served::Upgraded).ok_or_else(|| {
                Rejection::new(Problem::UpstreamProtocolError)
                    .detail("unrequested 101 from the upstream")
            })
        }
    }
}

/// Builds the head of a forwarded request, and the name of the target of the first attempt.
pub(super) fn outline(
    input: &mut HandlerInput<'_>,
    proxy: &Proxy,
    framing: Framing,
) -> Result<Outline, Rejection> {
    let forward = Forward::new(&input.context, input.request, proxy, framing)?;
    prepare(input, proxy, &forward, None);
    let Some(first) = forward.upstream.choose(&[], forward.key) else {
        return Ok(Outline::Upstream(forward.id, Vec::new(), String::new()));
    };
    let first = &forward.upstream.targets[first];
    let target = target::target(&input.view(), proxy);
    let request = forward.outbound(input.request, proxy, target.as_deref());
    let head = std::mem::take(request.http1(&first.authority, framing, None).head());
    Ok(Outline::Upstream(forward.id, head, first.name.clone()))
}

/// Converts the client's headers to the upstream's. Mirrored requests start with these headers, and
/// the `body` if it is mirrored.
fn prepare(
    input: &mut HandlerInput<'_>,
    proxy: &Proxy,
    forward: &Forward<'_>,
    body: Option<&mut RequestBody<'_>>,
) {
    // An upgraded connection cannot be mirrored.
    let is_mirrored =
        !input.context.decisions.selection.mirrors.is_empty() && forward.upgrade.is_none();
    let is_call = is_mirrored && grpc::is_call(&input.request.headers);
    let passed = &forward.settings.underscores_in_headers;
    head::prepare(&input.context, input.request, Some(&proxy.headers), passed);
    if let Some(body) = body.filter(|_| is_mirrored) {
        mirror::start(input, proxy, is_call, body);
    }
    sign(&mut input.request.headers, forward.settings.credential.as_ref());
}

/// Converts the response of the upstream to the client's.
fn receive<'a>(
    input: &mut HandlerInput<'_>,
    body: UpstreamBody<'a>,
    is_grpc: bool,
) -> ResponseBody<'a> {
    let HandlerInput { request, response, recording, notes, .. } = input;
    if is_grpc
        && response.framing == Framing::None
        && let Some(code) = grpc::code(response.headers.get("grpc-status"))
    {
        recording.end_grpc_call(code, notes);
    }
    strip_response(response, request.method);
    if body.is_empty() && request.method != Method::Head {
        // The head must end the stream: gRPC clients require that.
        return ResponseBody::Empty;
    }
    ResponseBody::Upstream(body)
}

/// The client accepts trailers.
fn accepts_trailers(headers: &Headers) -> bool {
    has_token(headers.known_all(Known::Te), "trailers")
}

/// Creates the filter of request trailers: removes those of headers that edits remove or replace,
/// that carry weir's own credential, or that have an underscore in their name.
fn trailer_filter(
    context: &Context<'_>,
    upstream: UpstreamId,
) -> impl FnOnce() -> Option<TrailerFilter> + 'static {
    let (live, (api, route)) = (Rc::clone(context.live), context.at);
    move || {
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

/// Whether a proxy has selection rules.
pub(super) fn selects(proxy: &Proxy) -> bool {
    !proxy.instead.is_empty() || !proxy.mirrors.is_empty()
}

/// Selects the upstream by traffic splitting, and the mirrors.
pub(super) fn select(proxy: &Proxy, request: &ClientRequest<'_>, is_replay: bool) -> Selection {
    let mirrors = match is_replay {
        // A replay is not mirrored: the original request was, or was not.
        true => Vec::new(),
        false => mirror::select(proxy, request),
    };
    Selection { split: split(proxy, request), mirrors }
}

/// The upstream selected by traffic splitting, if any.
fn split(proxy: &Proxy, request: &ClientRequest<'_>) -> Option<UpstreamId> {
    if proxy.instead.is_empty() {
        return None;
    }
    let scope = request.scope();
    let takes = |other: &&Instead| {
        other.when.as_ref().is_none_or(|when| when.holds(&scope))
            && other.share.as_ref().is_none_or(|share| {
                hash_key(request, &share.by).is_some_and(|key| hash::is_in(key, share.part))
            })
    };
    proxy.instead.iter().find(takes).map(|other| other.upstream)
}

/// The hash for sticky sessions; `None` if the request does not have the hashed property.
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
