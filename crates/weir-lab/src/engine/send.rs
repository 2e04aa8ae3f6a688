//! One request of a user: encoding, sending, checks, counts.

use super::authentication::Authorization;
use super::connection::Connection;
use super::decode::decode;
use super::encode::{self, Encoded, ExtraFields, Message};
use super::event_loop::Loop;
use super::grpc;
use super::http1::{CapturedResponse, ExchangeOptions};
use super::in_flight::InFlight;
use super::plan::{Capture, PreparedRequest};
use super::request_error::RequestError;
use super::uri::resolve;
use super::user::{User, add_sample};
use crate::grpc::Status;
use crate::program::{CheckKind, Cookies, Field, Label, Origin, Redirects, Response, reason_of};
use crate::record::Exchange;
use crate::sample::{ErrorKind, Outcome, Sample};
use md5::Digest;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use weir_wire::Method;

/// Largest number of redirects of one sample (like JMeter and browsers).
const MAX_REDIRECTS: usize = 20;

/// Destination and message of a request.
pub(super) enum Destination<'p> {
    /// Encoded before the run: index of the message.
    Fixed(&'p Encoded, &'p Arc<Origin>, usize),
    /// Encoded in the user's buffer.
    Built { origin: Arc<Origin>, target: String, method: Method },
}

/// Sum of all exchanges of a sample.
#[derive(Default)]
pub(super) struct ExchangeTotals {
    pub(super) connect: u64,
    pub(super) first_byte: u64,
    pub(super) end: u64,
    pub(super) received: u64,
    pub(super) body: u64,
    pub(super) sent: u64,
    /// URL of the last exchange, unless encoded before the run.
    pub(super) url: Option<String>,
    pub(super) status: u16,
    /// Status of a gRPC call.
    pub(super) grpc: Option<Status>,
}

/// Result of a sample.
struct SampleResult {
    outcome: Outcome,
    check: Option<String>,
    decoded: u64,
}

impl User {
    /// Executes a request as one sample. Returns whether the sample succeeded.
    pub(super) async fn request(&mut self, events: &Loop, at: usize) -> bool {
        self.sample::<false>(events, at).await
    }

    /// Executes a request, with a stream of messages if `STREAM`.
    pub(super) async fn sample<const STREAM: bool>(&mut self, events: &Loop, at: usize) -> bool {
        let prepared = &events.common.plan.requests[at];
        let label = self.request_label(prepared);
        let hidden = self.transactions.iter().any(|transaction| transaction.parent_only);
        let start = self.now;
        let intended = self.take_intended(events, start);
        let destination = self.destination(events, prepared);
        if let Ok(destination) = &destination
            && self.is_cached(prepared, destination)
        {
            self.now = events.now();
            return true;
        }
        if !hidden {
            events.recorder.borrow_mut().start_sample(label);
        }
        let flight = InFlight::new(events, &self.group);
        let mut sum = ExchangeTotals::default();
        let sent = match destination {
            Ok(destination) if STREAM => {
                // Boxed: otherwise part of the memory of users without streams, too.
                Box::pin(self.stream(events, prepared, (&destination, hidden), &mut sum)).await
            }
            Ok(destination) => self.send(events, prepared, destination, &mut sum).await,
            Err(fault) => Err(fault),
        };
        let failed = match sent {
            Ok(()) => self.load_resources(events, prepared, &mut sum).await,
            Err(_) => None,
        };
        flight.end();
        let mut judged = match &sent {
            Ok(()) => self.evaluate::<STREAM>(prepared, &sum, start),
            Err(fault) => {
                sum.end = events.now();
                let outcome = Outcome::Error(fault.kind);
                SampleResult { outcome, check: None, decoded: 0 }
            }
        };
        if let (Some(kind), Outcome::Ok) = (failed, judged.outcome) {
            judged.outcome = Outcome::Error(kind);
        }
        self.now = sum.end;
        let good = !matches!(judged.outcome, Outcome::Error(_));
        let times = (intended, start);
        self.record(events, (prepared, label), &sum, times, judged, (sent.err(), hidden));
        if STREAM || prepared.capture != Capture::None || events.has_sink {
            // Checks took time, which is not part of the next request.
            self.now = events.now();
            self.captured.clear();
        } else if !self.captured.text.is_empty() {
            // Kept for the example of a failure.
            self.captured.clear();
        }
        good
    }

    /// Sends a request and follows its redirects.
    pub(super) async fn send<'p>(
        &mut self,
        events: &Loop,
        prepared: &'p PreparedRequest,
        mut destination: Destination<'p>,
        sum: &mut ExchangeTotals,
    ) -> Result<(), RequestError> {
        for _ in 0..=MAX_REDIRECTS {
            let before = (sum.received, sum.sent, sum.body);
            self.exchange(events, prepared, &destination, sum).await?;
            if sum.status == 401 && !prepared.request.client.credentials.is_empty() {
                let answered = self.authenticate(events, prepared, destination, (sum, before));
                // Boxed: rare and large, and otherwise part of the memory of every user.
                destination = Box::pin(answered).await?;
            }
            let (origin, target) = destination.origin_and_target();
            if self.keeps_cookies(prepared) {
                self.jar.store(origin, target, self.captured.headers());
            }
            if let Some(options) = prepared.request.client.cache
                && destination.method(prepared) == Method::Get
            {
                let url = origin.url(target);
                let response = (sum.status, self.captured.headers());
                self.cache.borrow_mut().store(url, self.message.head(), response, options);
            }
            if prepared.request.redirects == Redirects::Ignore {
                return Ok(());
            }
            let Some(next) = self.redirect(prepared, &destination, sum)? else { return Ok(()) };
            if prepared.request.client.counts_last {
                (sum.received, sum.sent, sum.body) = (0, 0, 0);
            }
            destination = next;
        }
        Err(RequestError::new(ErrorKind::Protocol, format!("more than {MAX_REDIRECTS} redirects")))
    }

    fn keeps_cookies(&self, prepared: &PreparedRequest) -> bool {
        let group = &self.events.common.plan.program.groups[self.group.index];
        group.cookies != Cookies::Ignored && !prepared.request.client.without_cookies
    }

    /// Whether a cache has the response, so that there is no sample.
    pub(super) fn is_cached(
        &self,
        prepared: &PreparedRequest,
        destination: &Destination<'_>,
    ) -> bool {
        let (origin, target) = destination.origin_and_target();
        prepared.request.client.cache.is_some_and(|cache| cache.expires)
            && destination.method(prepared) == Method::Get
            && self.cache.borrow().is_fresh(&origin.url(target), self.message.head())
    }

    /// The destination of a request. Encodes a request with variables.
    pub(super) fn destination<'p>(
        &mut self,
        events: &'p Loop,
        prepared: &'p PreparedRequest,
    ) -> Result<Destination<'p>, RequestError> {
        let body = self.body;
        self.body = self.body.wrapping_add(1);
        if let Some(encoded) = &prepared.encoded {
            let origin = &events.common.plan.origins[encoded.origin];
            let client = &prepared.request.client;
            if (self.jar.is_empty() || client.without_cookies) && client.cache.is_none() {
                let number =
                    if encoded.messages.len() == 1 { 0 } else { body % encoded.messages.len() };
                return Ok(Destination::Fixed(encoded, origin, number));
            }
        }
        let (origin, target) = encode::destination(&prepared.request, &mut self.scope())?;
        self.build(prepared, Arc::new(origin), target, (body, false))
    }

    /// Encodes the request in the user's buffer.
    pub(super) fn build<'p>(
        &mut self,
        prepared: &PreparedRequest,
        origin: Arc<Origin>,
        target: String,
        body: (usize, bool),
    ) -> Result<Destination<'p>, RequestError> {
        self.build_with(prepared, (origin, target), body, Authorization::Preemptive)
    }

    /// Likewise, with this `Authorization`.
    pub(super) fn build_with<'p>(
        &mut self,
        prepared: &PreparedRequest,
        (origin, target): (Arc<Origin>, String),
        (body, redirected): (usize, bool),
        authorization: Authorization<'_>,
    ) -> Result<Destination<'p>, RequestError> {
        let client = &prepared.request.client;
        let cookie = match client.without_cookies {
            true => None,
            false => self.jar.header(&origin, &target),
        };
        let method = if redirected { Method::Get } else { prepared.method };
        let cached = client.cache.filter(|_| method == Method::Get);
        let validators = cached.and_then(|_| self.cache.borrow().validators(&origin.url(&target)));
        let extra = ExtraFields {
            cookie: cookie.as_deref(),
            redirected,
            validators: validators.as_ref(),
            authorization,
        };
        let mut scope = self.events.common.scope(&mut self.values);
        let (destination, message) = ((&*origin, &*target), &mut self.message);
        encode::write(&prepared.request, destination, (body, extra), &mut scope, message)?;
        Ok(Destination::Built { origin, target, method })
    }

    /// Sends a request once. One of HTTP/2 that the server has certainly not processed is sent again on a new
    /// connection, as browsers do: a server ends a connection after some number of requests, of which the next
    /// one may already be on its way (RFC 9113, section 8.7).
    pub(super) async fn exchange(
        &mut self,
        events: &Loop,
        prepared: &PreparedRequest,
        destination: &Destination<'_>,
        sum: &mut ExchangeTotals,
    ) -> Result<(), RequestError> {
        let request = &*prepared.request;
        let (origin, target) = destination.origin_and_target();
        let method = destination.method(prepared);
        if let Destination::Built { .. } = destination {
            sum.url = Some(origin.url(target));
        }
        let paused = std::mem::take(&mut self.paused);
        let mut capture = prepared.capture;
        if capture == Capture::None
            && (events.has_sink
                || request.redirects != Redirects::Ignore
                || request.client.cache.is_some()
                || self.keeps_cookies(prepared))
        {
            capture = Capture::Head;
        }
        self.steps = 0;
        let response = loop {
            // A server of HTTP/2 may be about to end the connection also without a pause.
            let found = self.connections.find(origin, request.http2, paused || request.http2);
            let (at, start) = match found {
                Some(at) => (at, self.now),
                // Boxed: rare and large, and otherwise part of the memory of every user.
                None => Box::pin(self.open_connection(events, prepared, origin, sum)).await?,
            };
            let message = match destination {
                Destination::Fixed(encoded, _, number) => &encoded.messages[*number],
                Destination::Built { .. } => &self.message,
            };
            let timeout = request.timeouts.response;
            let options = ExchangeOptions { method, start, timeout, capture };
            let result = match self.connections.at(at) {
                Connection::Http1(connection) => {
                    connection.exchange(events, &message.bytes, options, &mut self.captured).await
                }
                Connection::Http2(connection) => {
                    let request = message.http2(origin, target)?;
                    connection.exchange(events, request, options, &mut self.captured).await
                }
            };
            if !result.as_ref().is_ok_and(|response| response.reusable && request.keep_alive) {
                self.connections.close(at);
            }
            match result {
                // At most once, since the next connection is a new one.
                Err(fault) if fault.is_unprocessed && found.is_some() => {}
                result => break result?,
            }
        };
        sum.status = response.status;
        sum.first_byte = response.first_byte;
        sum.end = response.end;
        sum.received += response.received;
        sum.body += response.body;
        sum.sent += response.sent;
        Ok(())
    }

    /// Opens a connection. Returns its index, and the time at which it was open.
    async fn open_connection(
        &mut self,
        events: &Loop,
        prepared: &PreparedRequest,
        origin: &Arc<Origin>,
        sum: &mut ExchangeTotals,
    ) -> Result<(usize, u64), RequestError> {
        let (request, before) = (&*prepared.request, events.now());
        let how = (request.http2, request.timeouts);
        let to = (&**origin, request.http2);
        let tls = events.common.tls.prepare(&mut self.tls, Some(&self.values), to)?;
        let opened = Connection::open(events, origin, &request.client, how, tls).await;
        let start = events.now();
        sum.connect += start - before;
        Ok((self.connections.insert(origin.clone(), request.http2, opened?), start))
    }

    /// The destination of a redirect.
    fn redirect<'p>(
        &mut self,
        prepared: &PreparedRequest,
        destination: &Destination<'_>,
        sum: &ExchangeTotals,
    ) -> Result<Option<Destination<'p>>, RequestError> {
        if !matches!(sum.status, 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let as_get = prepared.request.redirects == Redirects::FollowAsGet;
        let is_safe = matches!(prepared.method, Method::Get | Method::Head);
        if as_get && !is_safe && sum.status == 307 {
            return Ok(None);
        }
        let location = self.captured.headers().get("location").map(String::from_utf8_lossy);
        let location = match (location, as_get) {
            (Some(location), true) => location.replace(' ', "%20").into(),
            (None, true) => {
                let message = "Missing location header in redirect";
                return Err(RequestError::new(ErrorKind::Protocol, message));
            }
            (Some(location), false) if !location.is_empty() => location,
            (_, false) => return Ok(None),
        };
        let (origin, current) = destination.origin_and_target();
        let (origin, target) = resolve(origin, current, &location)?;
        let changes =
            (as_get || matches!(sum.status, 301..=303)) && prepared.method != Method::Head;
        let body = self.body.wrapping_sub(1);
        self.build(prepared, origin, target, (body, changes)).map(Some)
    }

    /// Runs the checks and extractors of a response.
    fn evaluate<const STREAM: bool>(
        &mut self,
        prepared: &PreparedRequest,
        sum: &ExchangeTotals,
        start: u64,
    ) -> SampleResult {
        let request = &*prepared.request;
        let success = prepared.status_is_checked || request.success.contains(sum.status);
        let outcome = if STREAM && let Some(status) = sum.grpc {
            grpc::outcome(request, status)
        } else if !success && request.expected.contains(sum.status) {
            Outcome::Expected
        } else if success {
            Outcome::Ok
        } else {
            Outcome::Error(ErrorKind::from_status(sum.status))
        };
        let mut judged = SampleResult { outcome, check: None, decoded: sum.body };
        if prepared.capture == Capture::None || outcome == Outcome::Expected {
            return judged;
        }
        let body = body_of(&self.captured, request.client.md5);
        if prepared.capture == Capture::Body {
            judged.decoded = body.len() as u64;
        }
        let message = sent_message((&self.message, sum.url.is_some()), self.body, prepared);
        let url = match (&prepared.encoded, &sum.url) {
            (Some(encoded), None) => encoded.url.as_str(),
            (_, url) => url.as_deref().unwrap_or_default(),
        };
        let reply = Response {
            status: sum.status,
            head: &self.captured.text,
            headers: self.captured.headers(),
            body: &body,
            bytes: sum.received,
            url,
            request_head: message.head(),
            reason: None,
            request_body: message.body(),
            elapsed: Duration::from_nanos(sum.end.saturating_sub(start)),
        };
        if self.events.common.plan.program.reads_responses {
            self.values.set_response(reply.string(Field::Body).into_owned());
        }
        let mut scope = self.events.common.scope(&mut self.values);
        for extractor in &request.extractors {
            extractor.apply(&reply, &mut scope);
        }
        for processor in &request.post_processors {
            if let Err(reason) = processor.apply(&reply, &mut scope) {
                judged.outcome = Outcome::Error(ErrorKind::Check);
                judged.check = Some(format!("{}: {reason}", processor.name));
                return judged;
            }
        }
        for check in &request.checks {
            if self.captured.truncated && check.needs_body() {
                judged.check = Some("the body is too large for checks".to_owned());
            } else {
                judged.check = check.verify(&reply, &mut scope);
            }
            if judged.check.is_some() {
                if judged.outcome == Outcome::Ok {
                    judged.outcome = Outcome::Error(match check.kind {
                        CheckKind::Status(_) => ErrorKind::from_status(sum.status),
                        CheckKind::Grpc(_) => {
                            sum.grpc.map_or(ErrorKind::Check, ErrorKind::from_grpc)
                        }
                        _ => ErrorKind::Check,
                    });
                }
                break;
            }
        }
        judged
    }

    /// Request and response of a failed sample.
    fn exchanged<'a>(
        &'a self,
        prepared: &'a PreparedRequest,
        sum: &ExchangeTotals,
        fault: Option<&RequestError>,
    ) -> Exchange<'a> {
        let message = match &sum.url {
            // The URL was not valid: nothing was encoded.
            None if prepared.encoded.is_none() => return Exchange::default(),
            _ => sent_message((&self.message, sum.url.is_some()), self.body, prepared),
        };
        let (response_head, response_body) = match fault {
            None => (&*self.captured.text, body_of(&self.captured, false)),
            Some(_) => Default::default(),
        };
        Exchange {
            request_head: message.head(),
            request_body: message.body(),
            response_head,
            response_body,
        }
    }

    /// Records the sample.
    fn record(
        &mut self,
        events: &Loop,
        (prepared, label): (&PreparedRequest, Label),
        sum: &ExchangeTotals,
        (intended, start): (u64, u64),
        judged: SampleResult,
        (fault, hidden): (Option<RequestError>, bool),
    ) {
        let failed = matches!(judged.outcome, Outcome::Error(_));
        let url = match (&sum.url, &prepared.encoded) {
            (Some(url), _) => url.as_str(),
            (None, Some(encoded)) => encoded.url.as_str(),
            (None, None) => fault.as_ref().and_then(|f| f.url.as_deref()).unwrap_or_default(),
        };
        let user = (self.group.index, self.number);
        let mut sample = Sample {
            intended,
            connect: sum.connect,
            first_byte: if sum.first_byte == 0 { sum.end } else { sum.first_byte },
            outcome: judged.outcome,
            status: sum.status,
            received: sum.received,
            body: sum.body,
            decoded: judged.decoded,
            sent: sum.sent,
            check: judged.check.as_deref().unwrap_or_default(),
            url,
            ..Sample::of(label, user, (start, sum.end))
        };
        let reason;
        if failed || events.has_sink {
            (sample.group_users, sample.all_users) = events.active(self.group.index);
            reason = match (&fault, sum.grpc) {
                (Some(fault), _) => Cow::Borrowed(fault.message.as_str()),
                (None, Some(status)) => grpc::reason(status, self.captured.headers()),
                (None, None) => String::from_utf8_lossy(reason_of(&self.captured.text)),
            };
            sample.message = &reason;
            let content_type = self.captured.headers().known(weir_wire::Known::ContentType);
            if fault.is_none() && !self.captured.text.is_empty() {
                sample.content_type = content_type
                    .and_then(|text| std::str::from_utf8(text).ok())
                    .unwrap_or_default();
            }
        }
        add_sample(&sample, (&mut self.transactions, &mut self.suspended));
        if !hidden {
            let exchange = || self.exchanged(prepared, sum, fault.as_ref());
            events.recorder.borrow_mut().add(&sample, exchange);
        }
    }
}

impl Destination<'_> {
    /// Origin and target.
    pub(super) fn origin_and_target(&self) -> (&Arc<Origin>, &str) {
        match self {
            Self::Fixed(encoded, origin, _) => (origin, &encoded.target),
            Self::Built { origin, target, .. } => (origin, target),
        }
    }

    /// Method of the message.
    pub(super) fn method(&self, prepared: &PreparedRequest) -> Method {
        match self {
            Self::Fixed(..) => prepared.method,
            Self::Built { method, .. } => *method,
        }
    }
}

/// The message that was sent last: one encoded before the run, or that in the user's buffer if
/// `is_built`.
pub(super) fn sent_message<'m>(
    (buffer, is_built): (&'m Message, bool),
    body: usize,
    prepared: &'m PreparedRequest,
) -> &'m Message {
    match &prepared.encoded {
        Some(encoded) if !is_built => {
            &encoded.messages[body.wrapping_sub(1) % encoded.messages.len()]
        }
        _ => buffer,
    }
}

/// The body of a response, decoded; or its MD5.
pub(super) fn body_of(captured: &CapturedResponse, md5: bool) -> Cow<'_, [u8]> {
    let encoded: &[u8] = &captured.body;
    let body = decode(captured.headers(), encoded).map_or(Cow::Borrowed(encoded), Cow::Owned);
    if !md5 {
        return body;
    }
    let digest = md5::Md5::digest(&body);
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Cow::Owned(digest.into_bytes())
}
