//! Requests to upstreams that speak HTTP/2, as gRPC does: one stream each, its body and its trailers
//! passed on both ways as they come.
//!
//! As with HTTP/1.1 the client's own task does all of it but reading and writing frames, which the
//! connection does that several clients share.

mod answer;
mod both;
mod request;

pub(crate) use answer::StreamBody;
pub(crate) use request::Outflow;
use request::TrailerRules;

use super::sending::SendingError;
use super::{Choice, Limits, Lost, TARGETS_TRIED, head, not_connected, not_taken, retry};
use crate::body::{RequestBody, RequestBodyError};
use crate::clock;
use crate::deadline::{Deadline, Expired, Wait};
use crate::exchange::Exchange;
use crate::grpc;
use crate::headers;
use crate::headers::strip_response;
use crate::labels::Again;
use crate::problem::Problem;
use crate::refusal::Refusal;
use crate::response_body::Body;
use crate::upstream::{Call, Retrying, Seat, Target, hash};
use both::{Both, First};
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::{HeaderMap, Request, Response, Uri, header};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use weir_config::{Proxy, Route, Scheme, UpstreamId};
use weir_wire::{Framing, Headers, Method, ResponseHead};

/// Why one try failed.
enum Failure {
    Client(RequestBodyError),
    /// The stream or its connection broke; whether the upstream has certainly not seen the request.
    Broke {
        unseen: bool,
    },
    /// Its answer is no HTTP/2.
    Garbage(String),
    Late(Expired),
}

/// A request that is on its way, and the stream that its answer comes by.
pub(crate) struct Asked<'a> {
    seat: Seat,
    outflow: Outflow<'a>,
    response: Response<RecvStream>,
}

/// Forwards a request; the answer's head is then in `exchange.response`.
pub(super) async fn forward<'a>(
    exchange: &mut Exchange,
    route: &Route,
    proxy: &Proxy,
    mut body: RequestBody<'a>,
) -> Result<Body<'a>, Refusal> {
    let live = Rc::clone(exchange.live());
    let id = exchange.upstream_of(proxy).0;
    let (upstream, settings) = (&live.upstreams[id], &live.site.config.upstreams[id]);
    let mut limits = Limits {
        first_byte: proxy.timeout.unwrap_or(settings.timeout),
        idle: settings.idle_timeout,
        upgrade: false,
    };
    body.at_hand()?;
    let key = settings.hash.as_ref().and_then(|by| hash::key_of(&exchange.view(), by));
    let trailers = wants_trailers(&exchange.request.headers);
    let is_grpc = grpc::is_call(&exchange.request.headers);
    if is_grpc && let Some(timeout) = grpc::timeout(&exchange.request.headers) {
        exchange.deadline.bring_forward(exchange.started + timeout);
    }
    super::prepare(exchange, route, proxy, settings, &mut body);
    head::announce_try(exchange, proxy);
    let retrying = upstream.retrying.as_ref();
    if let Some(retrying) = retrying {
        retrying.request(clock::recent());
        limits.first_byte = retrying.try_time(limits.first_byte);
    }
    let scheme = settings.targets.first().map_or(Scheme::Http, |target| target.scheme);
    let mut outflow = Some(Outflow::new(body, TrailerRules::new(exchange, UpstreamId(id))));
    let mut tries = Tries {
        choice: Choice { upstream, key, tried: Vec::new(), span: exchange.span.clone() },
        proxy,
        retrying,
        limits,
        count: 1,
        begun: clock::recent(),
    };
    let asked = loop {
        let flow = outflow.take().ok_or(Problem::Internal)?;
        let head = |exchange: &Exchange, target: &Target, framing| {
            request(exchange, proxy, scheme, &target.authority, framing, trailers)
        };
        let (target, attempted, back) = tries.attempt(exchange, flow, head).await;
        let Some((why, pause, flow)) = tries.another(exchange, &target, &attempted, back) else {
            break attempted?;
        };
        let method = exchange.request.method;
        if let Some(mut call) = exchange.call.take() {
            let error = match &attempted {
                Ok(asked) => {
                    call.answered(asked.response.status().as_u16());
                    ""
                }
                Err(lost) => lost.refusal.problem.slug(),
            };
            call.end(method, error, clock::now());
        }
        drop(attempted);
        target.stats.sent_again(why);
        exchange.recording.sent_again();
        exchange.deadline.progress();
        tokio::time::sleep(pause).await;
        tries.count += 1;
        outflow = Some(flow);
    };
    if tries.count > 1 {
        retry::took(exchange, tries.begun);
    }
    Ok(answered(exchange, asked, limits.idle, is_grpc))
}

/// Sends a request of weir's own, and gives the body of its answer, whose head is then in `response`.
pub(crate) async fn once(
    target: &Rc<Target>,
    request: Request<()>,
    body: RequestBody<'static>,
    response: &mut ResponseHead,
    deadline: &Deadline,
    limits: Limits,
) -> Result<Body<'static>, Refusal> {
    let method = Method::of(request.method().as_str());
    let seated = target.seat(deadline).await;
    let (seat, send) = seated.map_err(|error| not_connected(target, error).refusal)?;
    let asked = ask(seat, send, request, Outflow::new(body, None), deadline, limits).await;
    let Asked { seat, outflow, response: answer } =
        asked.map_err(|failure| lost(target, failure).refusal)?;
    let (parts, incoming) = answer.into_parts();
    take_head(&parts, &incoming, method, response);
    let (framing, idle) = (response.framing, limits.idle);
    Ok(Body::Stream(Box::new(StreamBody::new(seat, outflow, incoming, framing, idle, false))))
}

/// Takes over the answer's head.
fn answered<'a>(
    exchange: &mut Exchange,
    asked: Asked<'a>,
    idle: Duration,
    is_grpc: bool,
) -> Body<'a> {
    let Asked { seat, outflow, response } = asked;
    let (parts, incoming) = response.into_parts();
    take_head(&parts, &incoming, exchange.request.method, &mut exchange.response);
    if let Some(call) = &mut exchange.call {
        call.answered(exchange.response.status);
        exchange.recording.answered(call.started());
    }
    let framing = exchange.response.framing;
    if is_grpc
        && framing == Framing::None
        && let Some(code) = grpc::code(&parts.headers)
    {
        seat.target().stats.grpc[code].add(1);
        exchange.end_grpc_call(code);
    }
    strip_response(&mut exchange.response, exchange.request.method);
    if incoming.is_end_stream() && exchange.request.method != Method::Head {
        // Its head is to be the end of the client's stream, too: clients of gRPC insist.
        return Body::Empty;
    }
    Body::Stream(Box::new(StreamBody::new(seat, outflow, incoming, framing, idle, is_grpc)))
}

/// The head of an answer in the form that the stages work on.
fn take_head(
    parts: &http::response::Parts,
    incoming: &RecvStream,
    method: Method,
    response: &mut ResponseHead,
) {
    response.clear();
    response.status = parts.status.as_u16();
    for (name, value) in &parts.headers {
        response.headers.push(name.as_str(), value.as_bytes());
    }
    let length = parts.headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
    response.framing = match length {
        _ if incoming.is_end_stream() || method == Method::Head => Framing::None,
        Some(length) => Framing::Length(length),
        None => Framing::Chunked,
    };
}

/// The client says that it understands trailers.
fn wants_trailers(headers: &Headers) -> bool {
    weir_wire::has_token(headers.known_all(weir_wire::Known::Te), "trailers")
}

/// The head for one target.
fn request(
    exchange: &Exchange,
    proxy: &Proxy,
    scheme: Scheme,
    authority: &str,
    framing: Framing,
    trailers: bool,
) -> Option<Request<()>> {
    let request = &exchange.request;
    let authority = head::authority(exchange, proxy, authority);
    let target = head::target(exchange, proxy);
    let mut headers = headers_of(&request.headers)?;
    if trailers {
        headers.insert(header::TE, http::HeaderValue::from_static("trailers"));
    }
    if let Framing::Length(length) = framing {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    head_of(request.method_name(), scheme, authority, &target, headers)
}

pub(crate) fn head_of(
    method: &str,
    scheme: Scheme,
    authority: &str,
    target: &str,
    headers: HeaderMap,
) -> Option<Request<()>> {
    let scheme = match scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    };
    let uri = Uri::builder().scheme(scheme).authority(authority).path_and_query(target).build();
    let mut request = Request::new(());
    *request.method_mut() = http::Method::from_bytes(method.as_bytes()).ok()?;
    *request.uri_mut() = uri.ok()?;
    *request.version_mut() = http::Version::HTTP_2;
    *request.headers_mut() = headers;
    Some(request)
}

/// Headers as the library has them; what HTTP/2 cannot carry is left out.
pub(super) fn headers_of(headers: &Headers) -> Option<HeaderMap> {
    let mut map = HeaderMap::try_with_capacity(headers.len() + 2).ok()?;
    for field in headers.iter() {
        headers::put_http2(&mut map, field).ok()?;
    }
    Some(map)
}

/// What the tries of one request have in common.
struct Tries<'u> {
    choice: Choice<'u>,
    proxy: &'u Proxy,
    retrying: Option<&'u Retrying>,
    limits: Limits,
    count: u32,
    begun: std::time::Instant,
}

impl<'u> Tries<'u> {
    /// One try, at the next target that can be connected to; gives the body back that another try
    /// would need, if it can be had.
    async fn attempt<'a>(
        &mut self,
        exchange: &mut Exchange,
        mut outflow: Outflow<'a>,
        head: impl Fn(&Exchange, &Target, Framing) -> Option<Request<()>>,
    ) -> (Rc<Target>, Result<Asked<'a>, Lost>, Option<Outflow<'a>>) {
        let method = exchange.request.method;
        let started = clock::recent();
        let mut stale = true;
        loop {
            let (target, seated) = self.seat(&exchange.deadline, method, started).await;
            let (seat, send) = match seated {
                Ok(seated) => seated,
                Err(lost) => return (target, Err(lost), Some(outflow)),
            };
            let reused = seat.reused;
            head::announce_try(exchange, self.proxy);
            let span = exchange.span.as_ref();
            exchange.call = Some(Call::new(Rc::clone(&target), started, span));
            let again = outflow.again();
            let request = head(exchange, &target, outflow.framing());
            let Some(request) = request else {
                let lost = Lost { refusal: Problem::BadRequest.into(), why: None };
                return (target, Err(lost), None);
            };
            let hedge = self.hedge(method).zip(outflow.again());
            let asked = match hedge {
                None => ask(seat, send, request, outflow, &exchange.deadline, self.limits).await,
                Some((hedge, beside)) => {
                    let first = First { target: &target, seat, send, request, outflow };
                    let both = self.ask_both(hedge, exchange, first, beside, &head);
                    match Box::pin(both).await {
                        Both::First(asked) => asked,
                        Both::Second(other, attempted) => return (other, attempted, again),
                    }
                }
            };
            match (asked, again) {
                (Ok(asked), again) => return (target, Ok(asked), again),
                // A connection that was closed meanwhile, before it could take the request.
                (Err(Failure::Broke { unseen: true }), Some(again))
                    if reused
                        && std::mem::take(&mut stale)
                        && self.retrying.is_none_or(|r| r.spend(clock::now())) =>
                {
                    target.stats.sent_again(Again::Stale);
                    exchange.recording.sent_again();
                    self.choice.tried.pop();
                    outflow = again;
                }
                (Err(failure), again) => {
                    return (Rc::clone(&target), Err(lost(&target, failure)), again);
                }
            }
        }
    }

    /// A place at the next target.
    async fn seat(
        &mut self,
        deadline: &Deadline,
        method: Method,
        started: std::time::Instant,
    ) -> (Rc<Target>, Result<(Seat, SendRequest<Bytes>), Lost>) {
        let upstream = self.choice.upstream;
        let mut connects = 0;
        loop {
            let target = &upstream.targets[self.choice.next()];
            let error = match target.seat(deadline).await {
                Ok(seated) => return (Rc::clone(target), Ok(seated)),
                Err(error) => error,
            };
            connects += 1;
            let span = self.choice.span.as_ref();
            let lost = not_taken(target, error, method, (started, span));
            if connects == upstream.targets.len().min(TARGETS_TRIED) {
                return (Rc::clone(target), Err(lost));
            }
        }
    }

    /// Whether there is another try, why, and after which pause.
    fn another<'a>(
        &self,
        exchange: &Exchange,
        target: &Target,
        attempted: &Result<Asked<'_>, Lost>,
        back: Option<Outflow<'a>>,
    ) -> Option<(Again, Duration, Outflow<'a>)> {
        let retrying = self.retrying?;
        let why = match attempted {
            Ok(asked) if !retrying.wants_another(grpc::status_of(&asked.response)) => return None,
            Ok(_) => Again::Status,
            Err(lost) => lost.why?,
        };
        let outflow = back?;
        let twice = retrying.any_method() || exchange.request.method.is_idempotent();
        if !twice && why != Again::Connect {
            return None;
        }
        let pause = retry::pause(exchange, retrying, target, self.count)?;
        Some((why, pause, outflow))
    }
}

fn lost(target: &Target, failure: Failure) -> Lost {
    let final_one = |refusal| Lost { refusal, why: None };
    let lost = match failure {
        Failure::Client(error) => return final_one(error.into()),
        Failure::Late(Expired::Wait(Wait::RequestBody)) => {
            return final_one(Problem::RequestTimeout.into());
        }
        Failure::Late(Expired::Request) => final_one(Expired::Request.into()),
        Failure::Late(expired) => Lost { refusal: expired.into(), why: Some(Again::Timeout) },
        Failure::Broke { unseen } => Lost {
            refusal: Problem::UpstreamClosed.into(),
            why: Some(if unseen { Again::Connect } else { Again::Closed }),
        },
        Failure::Garbage(why) => final_one(Refusal::new(Problem::UpstreamGarbage).detail(why)),
    };
    target.health.failed(std::time::Instant::now());
    lost
}

/// Sends a request and waits for the head of its answer, both at once.
async fn ask<'a>(
    seat: Seat,
    mut send: SendRequest<Bytes>,
    request: Request<()>,
    mut outflow: Outflow<'a>,
    deadline: &Deadline,
    limits: Limits,
) -> Result<Asked<'a>, Failure> {
    deadline.progress();
    let ready = poll_fn(|cx| match send.poll_ready(cx) {
        Poll::Ready(ready) => Poll::Ready(ready.map_err(|_| Failure::Broke { unseen: true })),
        Poll::Pending => deadline
            .poll(cx, Wait::Connect, limits.first_byte)
            .map(|expired| Err(Failure::Late(expired))),
    });
    if let Err(failure) = ready.await {
        seat.abandon();
        return Err(failure);
    }
    let sent = send.send_request(request, outflow.is_over());
    let (mut response, stream) = sent.map_err(|error| broken(&seat, &error))?;
    outflow.start(stream);
    deadline.progress();
    let answered = poll_fn(|cx| {
        let mut body_late = false;
        if !outflow.is_over() {
            match outflow.poll(cx) {
                Poll::Ready(Ok(())) => deadline.progress(),
                Poll::Ready(Err(SendingError::Client(error))) => {
                    return Poll::Ready(Err(Failure::Client(error)));
                }
                // Perhaps it has answered.
                Poll::Ready(Err(SendingError::Upstream)) => {}
                Poll::Pending => body_late = true,
            }
            if outflow.take_moved() {
                deadline.progress();
            }
        }
        if let Poll::Ready(answered) = Pin::new(&mut response as &mut ResponseFuture).poll(cx) {
            return Poll::Ready(answered.map_err(|error| broken(&seat, &error)));
        }
        let (wait, limit) = match (body_late, outflow.waits_for_client()) {
            // Whoever calls by a stream may wait for an answer before it says more.
            (true, true) => (Wait::FirstByte, limits.first_byte.max(outflow.client_idle())),
            (true, false) => (Wait::UpstreamBody, limits.idle),
            (false, _) => (Wait::FirstByte, limits.first_byte),
        };
        deadline.poll(cx, wait, limit).map(|expired| Err(Failure::Late(expired)))
    })
    .await;
    match answered {
        Ok(response) => Ok(Asked { seat, outflow, response }),
        Err(failure) => {
            if matches!(failure, Failure::Late(Expired::Wait(Wait::FirstByte))) {
                // It may be the connection that is dead: nobody else should find out.
                seat.abandon();
            }
            Err(failure)
        }
    }
}

/// What an error says about a request.
fn broken(seat: &Seat, error: &h2::Error) -> Failure {
    if error.is_io() || error.is_go_away() {
        seat.abandon();
    }
    let ours = error.is_library() && !error.is_io();
    match error.reason() {
        // RFC 9113 section 8.7.
        Some(Reason::REFUSED_STREAM) => Failure::Broke { unseen: true },
        Some(Reason::NO_ERROR) if error.is_go_away() && error.is_remote() => {
            Failure::Broke { unseen: true }
        }
        Some(reason) if ours => Failure::Garbage(reason.description().to_owned()),
        _ => Failure::Broke { unseen: false },
    }
}
