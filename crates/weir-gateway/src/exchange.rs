//! One request in flight, from its head to the last byte of its answer.

use crate::access_log::Line;
use crate::auth::Principal;
use crate::auth::certificate::Certificate;
use crate::body::{BodyEnd, BodyTap, ResponseError};
use crate::capture::{NotKept, Recording};
use crate::client_request::{ClientRequest, StageInput};
use crate::clock;
use crate::context::Context;
use crate::deadline::Deadline;
use crate::forwarded::Client;
use crate::grpc;
use crate::handler::{HandlerInput, Selection, destination};
use crate::headers::{filter_trailers, is_edited};
use crate::labels::UpgradeEnd;
use crate::limit::LimitStatus;
use crate::problem::{Fault, Problem};
use crate::replay::Replay;
use crate::spans::Open;
use crate::transaction::Transaction;
use crate::transaction_id::TransactionId;
use crate::upgrade::TunnelReport;
use crate::upstream::{SendReport, Upgraded};
use crate::worker::{Live, Worker};
use http::HeaderMap;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{self, Poll};
use std::time::{Duration, Instant};
use weir_config::{Api, ConsumerId, Route};
use weir_wire::{Framing, RequestHead, ResponseHead, Version};

/// One request in flight. Its memory serves request after request, of whatever connection: see
/// [`Exchange::take`].
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) worker: &'static Worker,
    /// Transaction id (UUIDv7), as text.
    pub(crate) id: TransactionId,
    pub(crate) request: RequestHead,
    pub(crate) response: ResponseHead,
    /// Of its connection.
    pub(crate) deadline: Rc<Deadline>,
    /// The other end of the connection, or who the PROXY protocol says it is.
    pub(crate) peer: SocketAddr,
    /// What the client showed in the handshake.
    pub(crate) certificate: Option<Rc<Certificate>>,
    /// Who it comes from, as far as trusted hops tell.
    pub(crate) client: Client,
    /// Host asked for: lower case, without port.
    pub(crate) host: String,
    /// The Config it started with, until it is over.
    live: Option<Rc<Live>>,
    /// Index of the API it is for, once that is found.
    pub(crate) api: Option<usize>,
    /// Index of API and route.
    pub(crate) route: Option<(usize, usize)>,
    pub(crate) principal: Option<Rc<Principal>>,
    /// What its handler has selected for it.
    pub(crate) selection: Selection,
    /// How the caller stands with its limits.
    pub(crate) limit_status: Option<LimitStatus>,
    pub(crate) recording: Recording,
    /// There if it is traced.
    pub(crate) span: Option<Rc<Open>>,
    /// There if weir itself sends the request again.
    pub(crate) resubmission: Option<Box<Replay>>,
    /// It has passed every policy: something has been done about it.
    pub(crate) admitted: bool,
    pub(crate) started: Instant,
    /// Microseconds since 1970 when it started.
    pub(crate) received_us: u64,
    /// What sending it to an upstream has come to.
    pub(crate) report: SendReport,
    /// Seconds since 1970 when it started.
    pub(crate) unix: u64,
    /// There once an upstream has agreed to another protocol, until that is spoken.
    pub(crate) upgraded: Option<Box<Upgraded>>,
    /// What a script says about the transaction.
    pub(crate) notes: Option<Box<weir_script::Annotations>>,
    /// What weir itself answered with.
    pub(crate) problem: Option<Problem>,
    /// Why, as it is recorded.
    pub(crate) reason: Option<String>,
    /// Bytes of the answer's body that were sent.
    pub(crate) sent: u64,
    /// Interim answers that the client is still to get, as they stand on the wire.
    pub(crate) interim: Rc<RefCell<Vec<u8>>>,
    protocol: Protocol,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    InFlight,
}

/// Protocol a request came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
    /// None: weir itself sends it again.
    InProcess,
}

/// Most exchanges kept for reuse by one worker.
const KEPT_EXCHANGES: usize = 256;

/// The exchanges of a worker that have no connection.
#[derive(Default)]
struct Pool {
    /// The last used one last: the one the cache still holds.
    #[expect(clippy::vec_box, reason = "an exchange is handed out without being copied")]
    free: RefCell<Vec<Box<Exchange>>>,
    /// Their deadline.
    no_deadline: Rc<Deadline>,
}

thread_local! {
    static POOL: Pool = Pool::default();
}

impl Exchange {
    /// One for a connection that has something to say.
    pub(crate) fn take(
        worker: &'static Worker,
        peer: SocketAddr,
        protocol: Protocol,
        deadline: &Rc<Deadline>,
    ) -> Box<Self> {
        let mut exchange = POOL.with(|pool| {
            let kept = pool.free.borrow_mut().pop();
            kept.unwrap_or_else(|| Box::new(Self::new(worker, Rc::clone(&pool.no_deadline))))
        });
        exchange.assign(peer, protocol, Rc::clone(deadline));
        exchange
    }

    /// Keeps one that is over for the next request.
    pub(crate) fn give_back(mut self: Box<Self>) {
        POOL.with(|pool| {
            let mut free = pool.free.borrow_mut();
            if free.len() < KEPT_EXCHANGES {
                self.deadline = Rc::clone(&pool.no_deadline);
                free.push(self);
            }
        });
    }

    /// A new one, for no connection yet.
    fn new(worker: &'static Worker, deadline: Rc<Deadline>) -> Self {
        let peer = SocketAddr::from(([0; 4], 0));
        let nobody = Client { address: peer.ip(), trusted: false, https: false, host: None };
        Self {
            worker,
            id: TransactionId::NIL,
            request: RequestHead::default(),
            response: ResponseHead::default(),
            deadline,
            peer,
            client: nobody,
            certificate: None,
            host: String::new(),
            live: None,
            api: None,
            route: None,
            principal: None,
            selection: Selection::default(),
            limit_status: None,
            recording: Recording::new(&worker.recorder),
            span: None,
            resubmission: None,
            admitted: false,
            started: Instant::now(),
            received_us: 0,
            report: SendReport::default(),
            unix: 0,
            upgraded: None,
            notes: None,
            problem: None,
            reason: None,
            sent: 0,
            interim: Rc::default(),
            protocol: Protocol::Http1,
            state: State::Idle,
        }
    }

    /// Goes to a connection.
    fn assign(&mut self, peer: SocketAddr, protocol: Protocol, deadline: Rc<Deadline>) {
        self.peer = peer;
        self.protocol = protocol;
        self.deadline = deadline;
        self.certificate = None;
        self.resubmission = None;
    }

    /// Starts on the request whose head is in `request`.
    pub(crate) fn begin(&mut self, listener: usize, https: bool) {
        let worker = self.worker;
        self.started = clock::now();
        let now = worker.wall.unix_time(self.started);
        self.id = TransactionId::new(now.as_millis() as u64);
        let live = worker.live();
        let listener = &live.site.config.listen[listener];
        let trust = (listener.trust.as_slice(), listener.trust_headers.as_slice());
        self.client = Client::identify(self.peer.ip(), https, trust, &mut self.request.headers);
        self.start(live, now);
    }

    /// Starts on a request that weir itself sends again; its head is in `request`.
    pub(crate) fn begin_replay(&mut self, id: [u8; 16], client: Client, replay: Replay) {
        self.started = clock::now();
        let now = self.worker.wall.unix_time(self.started);
        self.id = TransactionId::of(uuid::Uuid::from_bytes(id));
        self.client = client;
        crate::forwarded::strip(&mut self.request.headers, &[]);
        self.start(self.worker.live(), now);
        self.resubmission = Some(Box::new(replay));
    }

    fn start(&mut self, live: Rc<Live>, now: Duration) {
        self.unix = now.as_secs();
        self.received_us = now.as_micros() as u64;
        let shown = live.site.config.tracker.enabled;
        self.recording = Recording::start(&self.worker.recorder, shown);
        self.report = SendReport::default();
        crate::console_cookie::strip_request(&mut self.request.headers);
        self.host.clear();
        let authority = self.client.host.as_deref().unwrap_or(self.request.authority());
        push_host(&mut self.host, authority);
        self.deadline.set_request(None);
        self.deadline.progress();
        self.span = live.traces().and_then(|traces| {
            let incoming = (&self.request.headers, live.site.config.workers);
            let worker = self.worker;
            let moment = (self.started, self.unix);
            Open::begin(&worker.sampler, &worker.stats.spans, traces, incoming, moment)
        });
        self.live = Some(live);
        self.api = None;
        self.route = None;
        self.principal = None;
        self.selection = Selection::default();
        self.limit_status = None;
        self.problem = None;
        self.reason = None;
        self.upgraded = None;
        self.notes = None;
        self.resubmission = None;
        self.admitted = false;
        self.sent = 0;
        self.response.clear();
        self.state = State::InFlight;
        self.worker.stats.active.add(1);
    }

    /// The Config and what was made of it for this worker; from `begin` to `complete`.
    pub(crate) fn live(&self) -> &Rc<Live> {
        self.live.as_ref().expect("an exchange in flight has its Config")
    }

    /// The API and the route it goes to, once they are found.
    pub(crate) fn matched(&self) -> Option<(&Api, &Route)> {
        let (api, route) = self.route?;
        let api = &self.live.as_ref()?.site.config.apis[api];
        Some((api, &api.routes[route]))
    }

    /// The request, to read.
    pub(crate) fn view(&self) -> ClientRequest<'_> {
        let principal = self.principal.as_deref();
        let (api, route) = (self.api, self.route);
        self.live().view((&self.request, &self.host, &self.client), (api, route), principal)
    }

    /// The request, to read, and the head of its response, to write.
    pub(crate) fn split(&mut self) -> StageInput<'_> {
        let live = self.live.as_ref().expect("an exchange in flight has its Config");
        let head = (&self.request, self.host.as_str(), &self.client);
        let request = live.view(head, (self.api, self.route), self.principal.as_deref());
        let (started, unix) = (self.started, self.unix);
        let (response, deadline) = (&mut self.response, &*self.deadline);
        StageInput { request, response, deadline, started, unix }
    }

    /// What the handler of the route works on.
    pub(crate) fn handler_input(&mut self) -> HandlerInput<'_> {
        let live = self.live.as_ref().expect("an exchange in flight has its Config");
        let at = self.route.expect("a handler has a route");
        let context = Context {
            worker: self.worker,
            live,
            deadline: &self.deadline,
            id: &self.id,
            client: &self.client,
            peer: &self.peer,
            host: &self.host,
            version: version_name(self.protocol, self.request.version),
            is_http11: self.protocol == Protocol::Http1 && self.request.version == Version::Http11,
            route: &live.site.config.apis[at.0].routes[at.1],
            at,
            split: self.selection.split,
            mirrors: &self.selection.mirrors,
            principal: self.principal.as_deref(),
            replay: self.resubmission.as_deref(),
            span: self.span.as_ref(),
            interim: &self.interim,
            started: self.started,
            unix: self.unix,
        };
        HandlerInput {
            context,
            request: &mut self.request,
            response: &mut self.response,
            recording: &mut self.recording,
            report: &mut self.report,
            notes: &mut self.notes,
        }
    }

    /// The consumer who calls, if that is known.
    pub(crate) fn consumer(&self) -> Option<ConsumerId> {
        self.principal.as_deref().and_then(Principal::consumer)
    }

    /// Gives the recording the transaction as it is now; `None` once it is over.
    fn record<T>(
        &mut self,
        act: impl FnOnce(&mut Recording, &Transaction<'_>, &Live) -> T,
    ) -> Option<T> {
        let live = self.live.as_ref()?;
        let principal = self.principal.as_deref();
        let head = (&self.request, self.host.as_str(), &self.client);
        let request = live.view(head, (self.api, self.route), principal);
        let (config, split) = (&live.site.config, self.selection.split);
        let upstream = request.route.map(|route| destination(&route.handler, config, split));
        let transaction = Transaction {
            id: &self.id,
            received_us: self.received_us,
            request,
            version: version_name(self.protocol, self.request.version),
            response: &self.response,
            sent: self.sent,
            problem: self.problem,
            reason: self.reason.as_deref(),
            upstream: upstream.unwrap_or_default(),
            retries: self.report.retries.get(),
            notes: self.notes.as_deref(),
            resubmission_of: self.resubmission.as_ref().map(|replay| replay.of),
            redaction: &live.site.redaction,
            bodies: &live.bodies,
        };
        Some(act(&mut self.recording, &transaction, live))
    }

    /// Limits have let the call pass.
    pub(crate) fn count_admitted(&mut self) {
        self.record(|recording, transaction, _| recording.admitted(transaction));
    }

    /// The request is admitted: what is durable of it begins. `framing` is that of its body.
    ///
    /// # Errors
    /// The journal is full, and requests are to be rejected then.
    pub(crate) fn begin_record(
        &mut self,
        route: &Route,
        framing: Framing,
    ) -> Result<Option<Rc<dyn BodyTap>>, Problem> {
        let begin = |recording: &mut Recording, transaction: &Transaction<'_>, _: &Live| {
            recording.begin(transaction, route, framing)
        };
        self.record(begin).unwrap_or(Ok(None))
    }

    /// Bytes of the response's body pass, but for the last ones, which go to
    /// [`Exchange::complete`].
    pub(crate) fn pass(&mut self, bytes: &[u8]) {
        self.record(|recording, transaction, _| recording.pass(transaction, bytes));
    }

    /// Its connection was upgraded, and has ended.
    pub(crate) fn end_upgrade(&mut self, report: TunnelReport) {
        let TunnelReport { ended, bytes_in, bytes_out, properties, .. } = report;
        self.notes.get_or_insert_default().properties.extend(properties);
        self.sent = bytes_out;
        self.record(|recording, transaction, _| {
            recording.tunnelled(transaction, bytes_in, bytes_out);
        });
        match ended {
            UpgradeEnd::ClientReset => self.abort(None),
            UpgradeEnd::UpstreamReset => self.abort(Some(&ResponseError::UpstreamClosed)),
            _ => self.complete(b""),
        }
    }

    /// Waits until the record of a completed exchange will outlive the machine, if that is promised.
    pub(crate) fn poll_kept(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), NotKept>> {
        let worker = self.worker;
        self.recording.poll_kept(|| worker.live().site.config.journal.when_full, cx)
    }

    /// Whether it is a call of gRPC, whose client reads answers by gRPC's rules.
    pub(crate) fn is_grpc_call(&self) -> bool {
        self.protocol == Protocol::Http2 && grpc::is_call(&self.request.headers)
    }

    /// The body of an upstream's response is over. Its trailers, without those that the client is
    /// not to get.
    pub(crate) fn end_body(&mut self, end: BodyEnd) -> Option<HeaderMap> {
        if let Some(code) = end.grpc_status {
            self.recording.end_grpc_call(code, &mut self.notes);
        }
        let mut trailers = end.trailers?;
        let edits = self.matched().map(|(_, route)| &route.response_headers);
        filter_trailers(&mut trailers, |name| edits.is_some_and(|edits| is_edited(edits, name)));
        Some(trailers).filter(|trailers| !trailers.is_empty())
    }

    /// The status that goes to the client: a call of gRPC that weir refuses is 200, and its outcome
    /// stands in its headers.
    pub(crate) fn wire_status(&self) -> u16 {
        let refused = self.problem.is_some() && self.is_grpc_call();
        if refused { 200 } else { self.response.status }
    }

    /// Limits the whole request; `None` lifts the limit.
    pub(crate) fn set_timeout(&self, timeout: Option<Duration>) {
        self.deadline.set_request(timeout.map(|timeout| self.started + timeout));
    }

    /// Everything about the answer is known and its last byte is about to leave: this is the
    /// moment to write down what happened. `last` are the bytes of its body that come with this
    /// last one, or are it.
    pub(crate) fn complete(&mut self, last: &[u8]) {
        if !self.finish() {
            return;
        }
        let (worker, problem, now) = (self.worker, self.problem, clock::now());
        let duration = now.saturating_duration_since(self.started);
        let (open, span) = (self.report.open.take(), self.span.take());
        let route = (self.api, self.route);
        self.record(|recording, transaction, live| {
            recording.end(transaction, last, now, duration);
            let (request, status) = (&transaction.request, transaction.response.status);
            let series = live.series(route, request, status, &worker.stats);
            series.record(duration, span.as_deref().map(Open::mark));
            if let Some(problem) = problem {
                let consumer = transaction.request.consumer_name().unwrap_or_default();
                worker.stats.rejections.record(problem, consumer);
            }
            log(worker, transaction, duration, false);
            if problem.is_some_and(Problem::is_late) {
                worker.stats.timeouts.add(1);
            }
            if let Some(open) = open {
                // The upstream is not to blame for what happens to a good response.
                let is_own = |p: &Problem| !open.has_response() || p.fault() == Fault::Upstream;
                let error = problem.filter(is_own).map_or("", Problem::slug);
                open.end(transaction.request.head.method, error, now);
            }
            if let Some(span) = span {
                let error = problem.map_or("", Problem::slug);
                worker.stats.spans.push(transaction.traced(&span, duration, error, false));
            }
        });
        self.live = None;
    }

    /// The response broke off, or could not be sent.
    pub(crate) fn abort(&mut self, why: Option<&ResponseError>) {
        if !self.finish() {
            return;
        }
        let (worker, now) = (self.worker, clock::now());
        worker.stats.aborted.add(1);
        if matches!(why, Some(ResponseError::Late(_))) {
            worker.stats.timeouts.add(1);
        }
        let duration = now.saturating_duration_since(self.started);
        // What weir itself cannot go on with is not the client's doing either.
        let failed = matches!(why, Some(ResponseError::File));
        let upstream = failed || why.is_some_and(|why| why.problem().fault() == Fault::Upstream);
        let error = why.map_or("cancelled", |why| why.problem().slug());
        let (open, span) = (self.report.open.take(), self.span.take());
        self.record(|recording, transaction, _| {
            recording.break_off(transaction, upstream, now, duration);
            log(worker, transaction, duration, true);
            if let Some(open) = open {
                open.end(transaction.request.head.method, error, now);
            }
            if let Some(span) = span {
                worker.stats.spans.push(transaction.traced(&span, duration, error, true));
            }
        });
        self.live = None;
    }

    /// Ends it without log, record and statistics: it was only explained.
    pub(crate) fn discard(&mut self) {
        self.state = State::Idle;
    }

    fn finish(&mut self) -> bool {
        let in_flight = self.state == State::InFlight;
        if in_flight {
            self.state = State::Idle;
            self.worker.stats.active.sub(1);
            self.worker.stats.response_bytes.add(self.sent);
        }
        in_flight
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.abort(None);
    }
}

/// Protocol version as `Via` names it.
fn version_name(protocol: Protocol, version: Version) -> &'static str {
    match (protocol, version) {
        (Protocol::Http2, _) => "2",
        (Protocol::Http1, Version::Http10) => "1.0",
        (Protocol::Http1, Version::Http11) | (Protocol::InProcess, _) => "1.1",
    }
}

/// Logs a request that is over.
fn log(worker: &Worker, transaction: &Transaction<'_>, duration: Duration, aborted: bool) {
    if let Some(format) = transaction.request.config.access_log.format {
        let line = Line { transaction, duration, aborted };
        if !worker.shared.log.write(&line, format) {
            worker.stats.log_dropped.add(1);
        }
    }
}

/// Appends the host of an authority: lower case, without port.
pub(crate) fn push_host(out: &mut String, authority: &str) {
    let end = if authority.starts_with('[') {
        authority.find(']').map(|end| end + 1)
    } else {
        authority.bytes().position(|byte| byte == b':')
    };
    let host = &authority[..end.unwrap_or(authority.len())];
    out.push_str(host.strip_suffix('.').unwrap_or(host));
    out.make_ascii_lowercase();
}
