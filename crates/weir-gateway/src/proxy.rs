//! The `proxy` handler: a request goes to an upstream, its answer comes back, both as they flow.
//!
//! Everything happens in the task of the client's connection: no other task, no channel. The
//! request is pumped while the answer is awaited and while it is sent, so an early answer is
//! passed on and a client that sends before it reads does not hang.

mod answer;
mod attempt;
mod choice;
mod fetch;
pub(crate) mod head;
mod hedge;
pub(crate) mod http2;
pub(crate) mod mirror;
mod retry;
pub(crate) mod sending;

pub(crate) use answer::UpstreamBody;
pub(crate) use attempt::{Failure, send_and_wait};
pub(crate) use fetch::fetch;
pub(crate) use head::fill;

use crate::body::RequestBody;
use crate::clock;
use crate::exchange::Exchange;
use crate::headers::strip_response;
use crate::problem::Problem;
use crate::refusal::Refusal;
use crate::response_body::Body;
use crate::upgrade;
use crate::upstream::{Call, Connection, hash};
use attempt::{Asking, attempt, once};
use choice::{Choice, Lost, TARGETS_TRIED, connect, not_connected, not_taken};
use hedge::Hedge;
use sending::Sending;
use std::rc::Rc;
use std::time::Duration;
use weir_config::{Instead, Protocol, Proxy, Route, Upstream, UpstreamId};
use weir_wire::{Framing, HeadLimits};

/// Bounds on an answer's head. Not a client's doing, so not a setting.
pub(crate) const ANSWER_LIMITS: HeadLimits =
    HeadLimits { bytes: 64 * 1024, fields: 256, target: 0 };

/// Forwards a request; the answer's head is then in `exchange.response`.
pub(crate) async fn forward<'a>(
    exchange: &mut Exchange,
    route: &Route,
    proxy: &Proxy,
    mut body: RequestBody<'a>,
) -> Result<Body<'a>, Refusal> {
    let live = Rc::clone(exchange.live());
    let id = exchange.upstream_of(proxy).0;
    let (upstream, settings) = (&live.upstreams[id], &live.site.config.upstreams[id]);
    if settings.protocol == Protocol::Http2 {
        return Box::pin(http2::forward(exchange, route, proxy, body)).await;
    }
    let mut limits = Limits {
        first_byte: proxy.timeout.unwrap_or(settings.timeout),
        idle: settings.idle_timeout,
        upgrade: false,
    };
    body.at_hand()?;
    let upgrade = upgrade::wanted(exchange, proxy, body.framing() == Framing::None)?;
    limits.upgrade = upgrade.is_some();
    if limits.upgrade {
        // What it becomes cannot be copied.
        exchange.mirrors.clear();
    }
    // Before the headers are the upstream's.
    let key = settings.hash.as_ref().and_then(|by| hash::key_of(&exchange.view(), by));
    prepare(exchange, route, proxy, settings, &mut body);

    // The reading of the request's start, if nothing has been waited for since.
    let started = clock::recent();
    let retrying = upstream.retrying.as_ref();
    if let Some(retrying) = retrying {
        retrying.request(started);
        limits.first_byte = retrying.try_time(limits.first_byte);
    }
    let method = exchange.request.method;
    // Tries that find no connection have a URL, too.
    head::announce_try(exchange, proxy);
    let span = exchange.span.clone();
    let mut choice = Choice { upstream, key, tried: Vec::new(), span };
    let connected = match connect(&exchange.deadline, method, started, &mut choice).await {
        Err(lost) if retrying.is_none() || lost.why.is_none() => {
            // Nobody gets the request. What has come of its body is recorded all the same.
            let _ = body.drop_at_hand();
            return Err(lost.refusal);
        }
        connected => connected,
    };
    let target = connected.as_ref().map_or(&upstream.targets[0], |(target, _)| target);
    let way = head::Way { proxy, upgrade: upgrade.as_deref(), beside: None };
    head::announce_try(exchange, proxy);
    let head = head::encode(exchange, way, &target.authority, body.framing());
    let mut sending = Sending::new(head, body);
    let mut made = 1;
    let mut attempted = match connected {
        Ok((target, connection)) => {
            if !connection.reused {
                exchange.recording.connected(started);
            }
            exchange.call = Some(Call::new(Rc::clone(&target), started, exchange.span.as_ref()));
            match Hedge::of(&choice, method).filter(|_| !limits.upgrade) {
                None => once(exchange, &target, connection, &mut sending, limits, retrying).await,
                Some(hedge) => {
                    let first = (target, connection);
                    let (choice, sending) = (&mut choice, &mut sending);
                    let both =
                        hedge::attempt_both(hedge, exchange, way, choice, first, sending, limits);
                    let attempted;
                    (attempted, made) = Box::pin(both).await;
                    attempted
                }
            }
        }
        Err(lost) => Err(lost),
    };
    if let Some(retrying) = retrying
        && (attempted.is_err() || retrying.wants_another(exchange.response.status))
    {
        let tries = retry::Tries { way, retrying, limits, choice, made, begun: started };
        attempted = Box::pin(tries.more(exchange, &mut sending, attempted)).await;
    } else if made > 1 {
        retry::took(exchange, started);
    }
    let connection = attempted?;
    if let Some(call) = &mut exchange.call {
        call.answered(exchange.response.status);
        exchange.recording.answered(call.started());
    }
    if exchange.response.status == 101 {
        switch(exchange, proxy, upgrade, connection, sending.is_complete())?;
        return Ok(Body::Empty);
    }
    strip_response(&mut exchange.response, exchange.request.method);
    let body = UpstreamBody::new(connection, sending, &exchange.response, limits.idle);
    Ok(Body::Upstream(body))
}

/// Turns the client's headers into the upstream's; copies of the request begin with them.
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
    head::sign(&mut exchange.request.headers, settings.credential.as_ref());
}

/// Another upstream that a request goes to, if one takes it.
pub(crate) fn instead(exchange: &Exchange, proxy: &Proxy) -> Option<UpstreamId> {
    if proxy.instead.is_empty() {
        return None;
    }
    let scope = exchange.view().scope();
    let takes = |other: &&Instead| {
        other.when.as_ref().is_none_or(|when| when.holds(&scope))
            && other.share.as_ref().is_none_or(|share| {
                hash::key_of(&exchange.view(), &share.by)
                    .is_some_and(|key| hash::is_in(key, share.part))
            })
    };
    proxy.instead.iter().find(takes).map(|other| other.upstream)
}

/// The upstream says that it has switched to another protocol.
fn switch(
    exchange: &mut Exchange,
    proxy: &Proxy,
    upgrade: Option<String>,
    connection: Box<Connection>,
    whole: bool,
) -> Result<(), Refusal> {
    let settings = proxy.upgrade.as_ref().filter(|_| whole);
    let switched = settings
        .zip(upgrade)
        .and_then(|(settings, protocol)| upgrade::accept(exchange, connection, protocol, settings));
    switched.ok_or_else(|| {
        Refusal::new(Problem::UpstreamGarbage).detail("unrequested 101 from the upstream")
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
    let key = settings.hash.as_ref().and_then(|by| hash::key_of(&exchange.view(), by));
    head::prepare(exchange, route, Some(&proxy.headers), &settings.underscores_in_headers);
    head::sign(&mut exchange.request.headers, settings.credential.as_ref());
    let target = &upstream.targets[upstream.choose(&[], key)?];
    let way = head::Way { proxy, upgrade, beside: None };
    let mut out = head::encode(exchange, way, &target.authority, framing);
    Some((std::mem::take(out.head()), target.name.clone()))
}

/// How long an upstream may take, and what it may do.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) first_byte: Duration,
    pub(crate) idle: Duration,
    /// It may switch to another protocol.
    pub(crate) upgrade: bool,
}
