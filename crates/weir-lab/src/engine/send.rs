//! One request of a user: made, sent, answered, checked, counted.

use super::connection::Connection;
use super::decode::decode;
use super::encode::{self, Encoded, Extra};
use super::event_loop::Loop;
use super::fault::Fault;
use super::http1::Ask;
use super::plan::{Keep, Prepared};
use super::user::User;
use crate::program::{CheckKind, Cookies, Origin, Redirects, Reply, Scope};
use crate::sample::{ErrorKind, Outcome, Sample};
use std::borrow::Cow;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use url::Url;
use weir_wire::Method;

/// Redirects followed for one sample (as JMeter and browsers).
const REDIRECTS: usize = 20;

/// Where a request goes and what is sent.
enum Place<'p> {
    /// It was put together before the run: number of the message.
    Fixed(&'p Encoded, &'p Arc<Origin>, usize),
    /// It is in the user's buffer.
    Made { origin: Arc<Origin>, target: String, method: Method },
}

/// What all exchanges of a sample were together.
#[derive(Default)]
struct Sum {
    connect: u64,
    first_byte: u64,
    end: u64,
    received: u64,
    body: u64,
    sent: u64,
    /// URL of the last one, unless it was put together before the run.
    url: Option<String>,
    status: u16,
}

/// How a sample is judged.
struct Judged {
    outcome: Outcome,
    check: Option<String>,
    decoded: u64,
}

/// Counts a sample as under way.
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
    /// Does a request: one sample. Whether it succeeded.
    pub(super) async fn request(&mut self, events: &Loop, at: usize) -> bool {
        let prepared = &events.common.plan.requests[at];
        let label = prepared.request.label;
        let hidden = self.transactions.iter().any(|transaction| transaction.instead);
        let start = self.now;
        let intended = match self.intended.take() {
            Some(intended) => {
                let late = start.saturating_sub(intended.max(self.free_since));
                events.recorder.borrow_mut().lag(late);
                intended
            }
            None => start,
        };
        if !hidden {
            events.recorder.borrow_mut().begin(label);
        }
        let flight = InFlight::new(events);
        let mut sum = Sum::default();
        let sent = self.send(events, prepared, &mut sum).await;
        drop(flight);
        let judged = match &sent {
            Ok(()) => self.judge(prepared, &sum, start),
            Err(fault) => {
                sum.end = events.now();
                let outcome = Outcome::Error(fault.kind);
                Judged { outcome, check: None, decoded: 0 }
            }
        };
        self.now = sum.end;
        let good = !matches!(judged.outcome, Outcome::Error(_));
        self.record(events, prepared, &sum, (intended, start), judged, (sent.err(), hidden));
        if prepared.keep != Keep::Nothing || events.has_sink {
            // That took time which is not the next request's.
            self.now = events.now();
            self.kept.clear();
        }
        good
    }

    /// Sends it, and what it is redirected to.
    async fn send(
        &mut self,
        events: &Loop,
        prepared: &Prepared,
        sum: &mut Sum,
    ) -> Result<(), Fault> {
        let mut place = self.place(events, prepared)?;
        for _ in 0..=REDIRECTS {
            self.exchange(events, prepared, &place, sum).await?;
            if self.keeps_cookies() {
                let (origin, target) = place.named();
                self.jar.store(origin, target, self.kept.headers());
            }
            if prepared.request.redirects == Redirects::Ignore {
                return Ok(());
            }
            let Some(next) = self.redirect(prepared, &place, sum)? else { return Ok(()) };
            place = next;
        }
        Err(Fault::new(ErrorKind::Protocol, format!("more than {REDIRECTS} redirects")))
    }

    fn keeps_cookies(&self) -> bool {
        self.events.common.plan.groups[self.crew.index].cookies != Cookies::Ignored
    }

    /// Where the request goes now; puts it together if it has variables.
    fn place<'p>(&mut self, events: &'p Loop, prepared: &'p Prepared) -> Result<Place<'p>, Fault> {
        let body = self.body;
        self.body = self.body.wrapping_add(1);
        if let Some(encoded) = &prepared.encoded {
            let origin = &events.common.plan.origins[encoded.origin];
            if self.jar.is_empty() {
                let number =
                    if encoded.messages.len() == 1 { 0 } else { body % encoded.messages.len() };
                return Ok(Place::Fixed(encoded, origin, number));
            }
        }
        let (origin, target) = encode::place(&prepared.request, &mut self.scope())?;
        self.make(prepared, Arc::new(origin), target, (body, false))
    }

    /// Puts the request together in the user's buffer.
    fn make<'p>(
        &mut self,
        prepared: &Prepared,
        origin: Arc<Origin>,
        target: String,
        (body, redirected): (usize, bool),
    ) -> Result<Place<'p>, Fault> {
        let cookie = self.jar.header(&origin, &target);
        let extra = Extra { cookie: cookie.as_deref(), redirected };
        let common = &self.events.common;
        let mut scope =
            Scope { program: &common.plan.program, state: &common.state, values: &mut self.values };
        encode::write(
            &prepared.request,
            (&origin, &target),
            (body, extra),
            &mut scope,
            &mut self.message,
        )?;
        let method = if redirected { Method::Get } else { prepared.method };
        Ok(Place::Made { origin, target, method })
    }

    /// Sends it once.
    async fn exchange(
        &mut self,
        events: &Loop,
        prepared: &Prepared,
        place: &Place<'_>,
        sum: &mut Sum,
    ) -> Result<(), Fault> {
        let request = &*prepared.request;
        let (origin, message, method) = match place {
            Place::Fixed(encoded, origin, number) => {
                (*origin, &encoded.messages[*number], prepared.method)
            }
            Place::Made { origin, method, target } => {
                sum.url = Some(origin.url(target));
                (origin, &self.message, *method)
            }
        };
        let mut start = self.now;
        let rested = std::mem::take(&mut self.rested);
        let at = match self.connections.find(origin, request.http2, rested) {
            Some(at) => at,
            None => {
                let before = events.now();
                let limit = request.timeouts.connect;
                let opening = Connection::open(events, origin, request.http2, limit);
                // Boxed: it is rare and large, and every user has room for it otherwise.
                let opened = Box::pin(opening).await;
                start = events.now();
                sum.connect += start - before;
                self.connections.put(origin.clone(), request.http2, opened?)
            }
        };
        let mut keep = prepared.keep;
        if keep == Keep::Nothing
            && (events.has_sink || request.redirects == Redirects::Follow || self.keeps_cookies())
        {
            keep = Keep::Head;
        }
        let ask = Ask { method, start, timeout: request.timeouts.response, keep };
        let answered = match self.connections.at(at) {
            Connection::Http1(connection) => {
                connection.exchange(events, &message.bytes, ask, &mut self.kept).await
            }
            Connection::Http2(connection) => {
                let request = match &message.http2 {
                    Some(request) => request.clone(),
                    None => message.to_http2(origin, place.named().1)?,
                };
                connection.exchange(events, request, ask, &mut self.kept).await
            }
        };
        if answered.as_ref().is_ok_and(|answer| !answer.reusable || !request.keep_alive)
            || answered.is_err()
        {
            self.connections.close(at);
        }
        let answer = answered?;
        sum.status = answer.status;
        sum.first_byte = answer.first_byte;
        sum.end = answer.end;
        sum.received += answer.received;
        sum.body += answer.body;
        sum.sent += answer.sent;
        Ok(())
    }

    /// Where the answer redirects to, if it does.
    fn redirect<'p>(
        &mut self,
        prepared: &Prepared,
        place: &Place<'_>,
        sum: &Sum,
    ) -> Result<Option<Place<'p>>, Fault> {
        if !matches!(sum.status, 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let location = self.kept.headers().get("location").map(String::from_utf8_lossy);
        let Some(location) = location.filter(|location| !location.is_empty()) else {
            return Ok(None);
        };
        let (origin, current) = place.named();
        let (origin, target) = resolve(origin, current, &location)?;
        let changes = matches!(sum.status, 301..=303) && prepared.method != Method::Head;
        let body = self.body.wrapping_sub(1);
        self.make(prepared, origin, target, (body, changes)).map(Some)
    }

    /// Checks an answer, and takes out of it what is asked for.
    fn judge(&mut self, prepared: &Prepared, sum: &Sum, start: u64) -> Judged {
        let request = &*prepared.request;
        let success = prepared.status_is_checked || request.success.has(sum.status);
        let outcome = if !success && request.expected.has(sum.status) {
            Outcome::Expected
        } else if success {
            Outcome::Ok
        } else {
            Outcome::Error(ErrorKind::of_status(sum.status))
        };
        let mut judged = Judged { outcome, check: None, decoded: sum.body };
        if prepared.keep == Keep::Nothing || outcome == Outcome::Expected {
            return judged;
        }
        let encoded: &[u8] = &self.kept.body;
        let body = decode(self.kept.headers(), encoded).map_or(Cow::Borrowed(encoded), Cow::Owned);
        if prepared.keep == Keep::Body {
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
        let reply = Reply {
            status: sum.status,
            head: &self.kept.text,
            headers: self.kept.headers(),
            body: &body,
            bytes: sum.received,
            url,
            request_head: &message[..head],
            request_body: &message[head..],
            elapsed: Duration::from_nanos(sum.end.saturating_sub(start)),
        };
        let common = &self.events.common;
        let mut scope =
            Scope { program: &common.plan.program, state: &common.state, values: &mut self.values };
        for extractor in &request.extractors {
            extractor.apply(&reply, &mut scope);
        }
        for check in &request.checks {
            if self.kept.cut && check.needs_body() {
                judged.check = Some("the body is too long to be checked".to_owned());
            } else {
                judged.check = check.verify(&reply, &mut scope);
            }
            if judged.check.is_some() {
                if judged.outcome == Outcome::Ok {
                    judged.outcome = Outcome::Error(match check.kind {
                        CheckKind::Status(_) => ErrorKind::of_status(sum.status),
                        _ => ErrorKind::Check,
                    });
                }
                break;
            }
        }
        judged
    }

    /// Counts the sample.
    fn record(
        &mut self,
        events: &Loop,
        prepared: &Prepared,
        sum: &Sum,
        (intended, start): (u64, u64),
        judged: Judged,
        (fault, hidden): (Option<Fault>, bool),
    ) {
        let failed = matches!(judged.outcome, Outcome::Error(_));
        let url = match (&sum.url, &prepared.encoded) {
            (Some(url), _) => url.as_str(),
            (None, Some(encoded)) => encoded.url.as_str(),
            (None, None) => "",
        };
        let mut sample = Sample {
            label: prepared.request.label,
            group: self.crew.index as u32,
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
            (sample.group_users, sample.all_users) = events.active(self.crew.index);
            reason = match &fault {
                Some(fault) => Cow::Borrowed(fault.message.as_str()),
                None => String::from_utf8_lossy(reason_of(&self.kept.text)),
            };
            sample.message = &reason;
            let content_type = self.kept.headers().known(weir_wire::Known::ContentType);
            if fault.is_none() && !self.kept.text.is_empty() {
                sample.content_type = content_type
                    .and_then(|text| std::str::from_utf8(text).ok())
                    .unwrap_or_default();
            }
        }
        for transaction in &mut self.transactions {
            transaction.add(&sample);
        }
        if !hidden {
            let body = if fault.is_none() { self.kept.body.as_slice() } else { b"" };
            events.recorder.borrow_mut().add(&sample, body);
        }
    }
}

impl Place<'_> {
    /// Origin and target.
    fn named(&self) -> (&Arc<Origin>, &str) {
        match self {
            Self::Fixed(encoded, origin, _) => (origin, &encoded.target),
            Self::Made { origin, target, .. } => (origin, target),
        }
    }
}

/// The reason phrase in a head.
fn reason_of(head: &[u8]) -> &[u8] {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    line.splitn(3, |&byte| byte == b' ').nth(2).unwrap_or_default()
}

/// Resolves `Location` against the URL of the request (RFC 3986 section 5.2).
fn resolve(origin: &Origin, current: &str, location: &str) -> Result<(Arc<Origin>, String), Fault> {
    let fault =
        |error: &dyn Display| Fault::new(ErrorKind::Protocol, format!("redirected: {error}"));
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
