//! One request of a user: encoding, sending, checks, counts.

use super::connection::Connection;
use super::decode::decode;
use super::encode::{self, Encoded, ExtraFields};
use super::event_loop::Loop;
use super::http1::{CapturedResponse, ExchangeOptions};
use super::plan::{Capture, PreparedRequest};
use super::request_error::RequestError;
use super::user::User;
use crate::program::{CheckKind, Cookies, Field, Label, Origin, Redirects, Response, reason_of};
use crate::sample::{ErrorKind, Outcome, Sample};
use md5::Digest;
use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use url::Url;
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
    connect: u64,
    first_byte: u64,
    pub(super) end: u64,
    pub(super) received: u64,
    pub(super) body: u64,
    pub(super) sent: u64,
    /// URL of the last exchange, unless encoded before the run.
    pub(super) url: Option<String>,
    pub(super) status: u16,
}

/// Result of a sample.
struct SampleResult {
    outcome: Outcome,
    check: Option<String>,
    decoded: u64,
}

/// Counts a sample in flight.
struct InFlight<'l>(&'l Loop);

impl<'l> InFlight<'l> {
    fn new(events: &'l Loop) -> Self {
        events.in_flight.set(events.in_flight.get() + 1);
        Self(events)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.set(self.0.in_flight.get() - 1);
    }
}

impl User {
    /// Executes a request as one sample. Returns whether the sample succeeded.
    pub(super) async fn request(&mut self, events: &Loop, at: usize) -> bool {
        let prepared = &events.common.plan.requests[at];
        let label = match &prepared.request.name {
            None => prepared.request.label,
            Some(name) => self.label(name, false),
        };
        let hidden = self.transactions.iter().any(|transaction| transaction.parent_only);
        let start = self.now;
        let intended = match self.intended.take() {
            Some(intended) => {
                let lag = start.saturating_sub(intended.max(self.idle_since));
                events.recorder.borrow_mut().add_send_lag(lag);
                intended
            }
            None => start,
        };
        let destination = self.destination(events, prepared);
        if let Ok(destination) = &destination
            && self.is_cached(prepared, destination)
        {
            return true;
        }
        if !hidden {
            events.recorder.borrow_mut().start_sample(label);
        }
        let flight = InFlight::new(events);
        let mut sum = ExchangeTotals::default();
        let sent = match destination {
            Ok(destination) => self.send(events, prepared, destination, &mut sum).await,
            Err(fault) => Err(fault),
        };
        let resources = prepared.request.client.resources.as_ref();
        let failed = match resources.filter(|_| sent.is_ok() && (200..400).contains(&sum.status)) {
            // Boxed: rare, and otherwise part of the memory of every user.
            Some(resources) => {
                Box::pin(self.load_resources(events, prepared, resources, &mut sum)).await
            }
            None => None,
        };
        drop(flight);
        let mut judged = match &sent {
            Ok(()) => self.evaluate(prepared, &sum, start),
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
        if prepared.capture != Capture::None || events.has_sink {
            // Checks took time, which is not part of the next request.
            self.now = events.now();
            self.captured.clear();
        }
        good
    }

    /// Sends a request and follows its redirects.
    pub(super) async fn send(
        &mut self,
        events: &Loop,
        prepared: &PreparedRequest,
        mut destination: Destination<'_>,
        sum: &mut ExchangeTotals,
    ) -> Result<(), RequestError> {
        for _ in 0..=MAX_REDIRECTS {
            self.exchange(events, prepared, &destination, sum).await?;
            let (origin, target) = destination.origin_and_target();
            if self.keeps_cookies(prepared) {
                self.jar.store(origin, target, self.captured.headers());
            }
            if let Some(options) = prepared.request.client.cache
                && destination.method(prepared) == Method::Get
            {
                let url = origin.url(target);
                self.cache.store(url, sum.status, self.captured.headers(), options);
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
    fn is_cached(&self, prepared: &PreparedRequest, destination: &Destination<'_>) -> bool {
        let (origin, target) = destination.origin_and_target();
        prepared.request.client.cache.is_some_and(|cache| cache.expires)
            && prepared.method == Method::Get
            && self.cache.is_fresh(&origin.url(target))
    }

    /// The destination of a request. Encodes a request with variables.
    fn destination<'p>(
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
        (body, redirected): (usize, bool),
    ) -> Result<Destination<'p>, RequestError> {
        let client = &prepared.request.client;
        let cookie = match client.without_cookies {
            true => None,
            false => self.jar.header(&origin, &target),
        };
        let method = if redirected { Method::Get } else { prepared.method };
        let cached = client.cache.filter(|_| method == Method::Get);
        let validators = cached.and_then(|_| self.cache.validators(&origin.url(&target)));
        let extra =
            ExtraFields { cookie: cookie.as_deref(), redirected, validators: validators.as_ref() };
        let mut scope = self.events.common.scope(&mut self.values);
        let (destination, message) = ((&*origin, &*target), &mut self.message);
        encode::write(&prepared.request, destination, (body, extra), &mut scope, message)?;
        Ok(Destination::Built { origin, target, method })
    }

    /// Sends a request once.
    async fn exchange(
        &mut self,
        events: &Loop,
        prepared: &PreparedRequest,
        destination: &Destination<'_>,
        sum: &mut ExchangeTotals,
    ) -> Result<(), RequestError> {
        let request = &*prepared.request;
        let (origin, message, method) = match destination {
            Destination::Fixed(encoded, origin, number) => {
                (*origin, &encoded.messages[*number], prepared.method)
            }
            Destination::Built { origin, method, target } => {
                sum.url = Some(origin.url(target));
                (origin, &self.message, *method)
            }
        };
        let mut start = self.now;
        let paused = std::mem::take(&mut self.paused);
        let at = match self.connections.find(origin, request.http2, paused) {
            Some(at) => at,
            None => {
                let before = events.now();
                let how = (request.http2, request.timeouts);
                let opening = Connection::open(events, origin, &request.client, how);
                // Boxed: rare and large, and otherwise part of the memory of every user.
                let opened = Box::pin(opening).await;
                start = events.now();
                sum.connect += start - before;
                self.connections.insert(origin.clone(), request.http2, opened?)
            }
        };
        let mut capture = prepared.capture;
        if capture == Capture::None
            && (events.has_sink
                || request.redirects != Redirects::Ignore
                || request.client.cache.is_some()
                || self.keeps_cookies(prepared))
        {
            capture = Capture::Head;
        }
        let options =
            ExchangeOptions { method, start, timeout: request.timeouts.response, capture };
        let result = match self.connections.at(at) {
            Connection::Http1(connection) => {
                connection.exchange(events, &message.bytes, options, &mut self.captured).await
            }
            Connection::Http2(connection) => {
                let request = match &message.http2 {
                    Some(request) => request.clone(),
                    None => message.to_http2(origin, destination.origin_and_target().1)?,
                };
                connection.exchange(events, request, options, &mut self.captured).await
            }
        };
        if !result.as_ref().is_ok_and(|response| response.reusable && request.keep_alive) {
            self.connections.close(at);
        }
        let response = result?;
        sum.status = response.status;
        sum.first_byte = response.first_byte;
        sum.end = response.end;
        sum.received += response.received;
        sum.body += response.body;
        sum.sent += response.sent;
        Ok(())
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
    fn evaluate(
        &mut self,
        prepared: &PreparedRequest,
        sum: &ExchangeTotals,
        start: u64,
    ) -> SampleResult {
        let request = &*prepared.request;
        let success = prepared.status_is_checked || request.success.contains(sum.status);
        let outcome = if !success && request.expected.contains(sum.status) {
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
        let (message, head, url) = match (&prepared.encoded, &sum.url) {
            (Some(encoded), None) => {
                let number = self.body.wrapping_sub(1) % encoded.messages.len();
                let message = &encoded.messages[number];
                (&message.bytes, message.head, encoded.url.as_str())
            }
            (_, url) => {
                let url = url.as_deref().unwrap_or_default();
                (&self.message.bytes, self.message.head, url)
            }
        };
        let reply = Response {
            status: sum.status,
            head: &self.captured.text,
            headers: self.captured.headers(),
            body: &body,
            bytes: sum.received,
            url,
            request_head: &message[..head],
            reason: None,
            request_body: &message[head..],
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
                        _ => ErrorKind::Check,
                    });
                }
                break;
            }
        }
        judged
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
        let mut sample = Sample {
            label,
            group: self.group.index as u32,
            user: self.number,
            intended,
            start,
            connect: sum.connect,
            first_byte: if sum.first_byte == 0 { sum.end } else { sum.first_byte },
            end: sum.end,
            idle: 0,
            outcome: judged.outcome,
            status: sum.status,
            received: sum.received,
            body: sum.body,
            decoded: judged.decoded,
            sent: sum.sent,
            message: "",
            check: judged.check.as_deref().unwrap_or_default(),
            url,
            content_type: "",
            group_users: 0,
            all_users: 0,
            transaction: false,
        };
        let reason;
        if failed || events.has_sink {
            (sample.group_users, sample.all_users) = events.active(self.group.index);
            reason = match &fault {
                Some(fault) => Cow::Borrowed(fault.message.as_str()),
                None => String::from_utf8_lossy(reason_of(&self.captured.text)),
            };
            sample.message = &reason;
            let content_type = self.captured.headers().known(weir_wire::Known::ContentType);
            if fault.is_none() && !self.captured.text.is_empty() {
                sample.content_type = content_type
                    .and_then(|text| std::str::from_utf8(text).ok())
                    .unwrap_or_default();
            }
        }
        for transaction in &mut self.transactions {
            transaction.add(&sample);
        }
        if !hidden {
            let body = if fault.is_none() { self.captured.body.as_slice() } else { b"" };
            events.recorder.borrow_mut().add(&sample, body);
        }
    }
}

impl Destination<'_> {
    /// Origin and target.
    fn origin_and_target(&self) -> (&Arc<Origin>, &str) {
        match self {
            Self::Fixed(encoded, origin, _) => (origin, &encoded.target),
            Self::Built { origin, target, .. } => (origin, target),
        }
    }

    /// Method of the message.
    fn method(&self, prepared: &PreparedRequest) -> Method {
        match self {
            Self::Fixed(..) => prepared.method,
            Self::Built { method, .. } => *method,
        }
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

/// Resolves `Location` against the URL of the request (RFC 3986 section 5.2).
fn resolve(
    origin: &Origin,
    current: &str,
    location: &str,
) -> Result<(Arc<Origin>, String), RequestError> {
    let fault = |error: &dyn Display| {
        RequestError::new(ErrorKind::Protocol, format!("redirected: {error}"))
    };
    let base = Url::parse(&origin.url(current)).map_err(|error| fault(&error))?;
    let url = base.join(location).map_err(|error| fault(&error))?;
    let (origin, target) = Origin::parse(url.as_str()).map_err(|error| fault(&error))?;
    Ok((Arc::new(origin), target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved() {
        let origin = Origin { tls: false, host: "a".to_owned(), port: 80 };
        let resolved = |location: &str| {
            let (origin, target) = resolve(&origin, "/b/c?d", location).unwrap();
            origin.url(&target)
        };
        assert_eq!(resolved("/x?y"), "http://a/x?y");
        assert_eq!(resolved("x"), "http://a/b/x");
        assert_eq!(resolved("../x/./y/.."), "http://a/x/");
        assert_eq!(resolved("?z"), "http://a/b/c?z");
        assert_eq!(resolved("//o/x"), "http://o/x");
        assert_eq!(resolved("https://o:1/x#f"), "https://o:1/x");
        assert!(resolve(&origin, "/", "ftp://o/").is_err());
    }
}
