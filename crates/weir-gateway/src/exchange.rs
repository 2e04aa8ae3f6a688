//! One request in flight, from its head to the last byte of its response.

use crate::arrival::{Arrival, Protocol};
use crate::context::Context;
use crate::decisions::Decisions;
use crate::handler::HandlerInput;
use crate::record_builder::{RecordBuilder, Subject};
use crate::replay::Replay;
use crate::upgrade::TunnelReport;
use crate::worker::{Live, Worker};
use http::HeaderMap;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{self, Poll};
use std::time::Duration;
use weir_config::{Api, Route};
use weir_http::body::{BodyEnd, BodyTap, ResponseError};
use weir_http::clock;
use weir_http::console_cookie;
use weir_http::deadline::Deadline;
use weir_http::forwarded::Client;
use weir_http::grpc;
use weir_http::headers::{filter_trailers, is_edited};
use weir_http::problem::Problem;
use weir_limit::Moment;
use weir_record::capture::NotRecorded;
use weir_record::client_request::ClientRequest;
use weir_record::transaction_id::TransactionId;
use weir_telemetry::labels::UpgradeEnd;
use weir_telemetry::spans::RequestSpan;
use weir_upstream::Upgraded;
use weir_wire::{Framing, Method, RequestHead, ResponseHead, Version};

/// One request in flight. Its memory is reused by later requests, of any connection: see
/// [`Exchange::take`].
pub struct Exchange {
    /// The worker that serves the request.
    pub worker: &'static Worker,
    /// How the request arrived.
    pub arrival: Arrival,
    /// Head of the request.
    pub request: RequestHead,
    /// Head of the response.
    pub response: ResponseHead,
    /// Deadline of the connection.
    pub deadline: Rc<Deadline>,
    /// The Config at the start of the request; present while the request is in flight.
    live: Option<Rc<Live>>,
    /// Decisions of the stages.
    pub decisions: Decisions,
    /// The record of the request.
    pub record: RecordBuilder,
    /// Present from the 101 of an upstream until the tunnel starts.
    pub upgraded: Option<Box<Upgraded>>,
    /// Encoded interim responses that are to be sent to the client.
    pub interim: Rc<RefCell<Vec<u8>>>,
}

/// Maximum number of exchanges kept for reuse by one worker.
const MAX_FREE_EXCHANGES: usize = 256;

/// The exchanges of a worker without a connection.
#[derive(Default)]
struct Pool {
    /// Last in, first out: the last one is still in the CPU cache.
    #[expect(clippy::vec_box, reason = "an exchange is handed out without being copied")]
    free: RefCell<Vec<Box<Exchange>>>,
    /// The deadline of exchanges without a connection.
    no_deadline: Rc<Deadline>,
}

thread_local! {
    static POOL: Pool = Pool::default();
}

impl Exchange {
    /// Takes an exchange from the pool for a connection with a request.
    pub fn take(
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

    /// Returns a finished exchange to the pool.
    pub fn give_back(mut self: Box<Self>) {
        POOL.with(|pool| {
            let mut free = pool.free.borrow_mut();
            if free.len() < MAX_FREE_EXCHANGES {
                self.deadline = Rc::clone(&pool.no_deadline);
                free.push(self);
            }
        });
    }

    /// A new exchange without a connection.
    fn new(worker: &'static Worker, deadline: Rc<Deadline>) -> Self {
        Self {
            worker,
            arrival: Arrival::new(),
            request: RequestHead::default(),
            response: ResponseHead::default(),
            deadline,
            live: None,
            decisions: Decisions::default(),
            record: RecordBuilder::new(&worker.recorder),
            upgraded: None,
            interim: Rc::default(),
        }
    }

    /// Assigns the exchange to a connection.
    fn assign(&mut self, peer: SocketAddr, protocol: Protocol, deadline: Rc<Deadline>) {
        self.arrival.peer = peer;
        self.arrival.protocol = protocol;
        self.arrival.certificate = None;
        self.deadline = deadline;
    }

    /// Starts the request whose head is in `request`.
    pub fn begin(&mut self, listener: usize, https: bool) {
        let worker = self.worker;
        let arrival = &mut self.arrival;
        arrival.started = clock::now();
        let now = worker.wall.unix_time(arrival.started);
        arrival.id = TransactionId::new(now.as_millis() as u64);
        let live = worker.live();
        let listener = &live.site.config.listen[listener];
        let trust = (listener.trust.as_slice(), listener.trust_headers.as_slice());
        let headers = &mut self.request.headers;
        arrival.client = Client::identify(arrival.peer.ip(), https, trust, headers);
        self.start(live, now, None);
    }

    /// Starts a replay; its head is in `request`.
    pub fn begin_replay(&mut self, id: [u8; 16], client: Client, replay: Replay) {
        let arrival = &mut self.arrival;
        arrival.started = clock::now();
        let now = self.worker.wall.unix_time(arrival.started);
        arrival.id = TransactionId::of(uuid::Uuid::from_bytes(id));
        arrival.client = client;
        weir_http::forwarded::strip(&mut self.request.headers, &[]);
        self.start(self.worker.live(), now, Some(Box::new(replay)));
    }

    fn start(&mut self, live: Rc<Live>, now: Duration, replay: Option<Box<Replay>>) {
        let Self { worker, arrival, request, .. } = self;
        arrival.unix = now.as_secs();
        arrival.received_us = now.as_micros() as u64;
        arrival.replay = replay;
        console_cookie::strip_request(&mut request.headers);
        arrival.set_host(request.authority());
        self.deadline.set_request(None);
        self.deadline.progress();
        let span = live.traces().and_then(|traces| {
            let incoming = (&request.headers, live.site.config.workers);
            let moment = (arrival.started, arrival.unix);
            RequestSpan::start(&worker.sampler, &worker.stats.spans, traces, incoming, moment)
        });
        self.record.start(live.site.config.tracker.enabled, span);
        self.decisions = Decisions::default();
        self.live = Some(live);
        self.upgraded = None;
        self.response.clear();
        self.worker.stats.active.add(1);
    }

    /// The Config and its worker state; from `begin` to `complete`.
    pub fn live(&self) -> &Rc<Live> {
        self.live.as_ref().expect("an exchange in flight has its Config")
    }

    /// The matched API and route, if found.
    pub(crate) fn matched(&self) -> Option<(&Api, &Route)> {
        let (api, route) = self.decisions.route?;
        let api = &self.live.as_ref()?.site.config.apis[api];
        Some((api, &api.routes[route]))
    }

    /// A read-only view of the request.
    pub(crate) fn view(&self) -> ClientRequest<'_> {
        self.live().view(&self.request, &self.arrival, &self.decisions)
    }

    /// The input of the route's handler.
    pub fn handler_input(&mut self) -> HandlerInput<'_> {
        let live = self.live.as_ref().expect("an exchange in flight has its Config");
        let at = self.decisions.route.expect("a handler has a route");
        let Self { arrival, request, record, .. } = self;
        let RecordBuilder { recording, report, notes, span, .. } = record;
        let is_http11 = arrival.protocol == Protocol::Http1 && request.version == Version::Http11;
        let context = Context {
            worker: self.worker,
            live,
            deadline: &self.deadline,
            arrival,
            version: arrival.version_name(request.version),
            is_http11,
            route: &live.site.config.apis[at.0].routes[at.1],
            at,
            decisions: &self.decisions,
            span: span.as_ref(),
            interim: &self.interim,
        };
        HandlerInput { context, request, response: &mut self.response, recording, report, notes }
    }

    /// The record of the request and its subject; `None` after the end of the exchange.
    fn record(&mut self) -> Option<(&mut RecordBuilder, Subject<'_>)> {
        let Self { worker, arrival, request, response, decisions, record, .. } = self;
        let live = self.live.as_ref()?;
        Some((record, Subject { worker, live, arrival, request, response, decisions }))
    }

    /// The arrival of the request, for limits.
    pub(crate) fn moment(&self) -> Moment {
        self.worker.shared.limiter.moment(self.arrival.started, self.arrival.unix)
    }

    /// Counts a call that the limits have admitted.
    pub(crate) fn count_admitted(&mut self) {
        if let Some((record, of)) = self.record() {
            record.admitted(of);
        }
    }

    /// The request is admitted: its durable record begins. `framing` is the framing of its body.
    ///
    /// # Errors
    /// The journal is full, and requests are rejected in this case.
    pub(crate) fn begin_record(
        &mut self,
        route: &Route,
        framing: Framing,
    ) -> Result<Option<Rc<dyn BodyTap>>, Problem> {
        match self.record() {
            Some((record, of)) => record.begin(of, route, framing),
            None => Ok(None),
        }
    }

    /// Records bytes of the response body, except the last ones, which are passed to
    /// [`Exchange::complete`].
    pub fn pass(&mut self, bytes: &[u8]) {
        if let Some((record, of)) = self.record() {
            record.pass(of, bytes);
        }
    }

    /// The upgraded connection has ended.
    pub fn end_upgrade(&mut self, report: TunnelReport) {
        let TunnelReport { ended, bytes_in, bytes_out, properties, .. } = report;
        if let Some((record, of)) = self.record() {
            record.notes.get_or_insert_default().properties.extend(properties);
            record.sent = bytes_out;
            record.tunnelled(of, bytes_in, bytes_out);
        }
        match ended {
            UpgradeEnd::ClientReset => self.abort(None),
            UpgradeEnd::UpstreamReset => self.abort(Some(&ResponseError::UpstreamClosed)),
            _ => self.complete(b""),
        }
    }

    /// Waits until the record of a completed exchange is durable, if durability is configured.
    pub fn poll_durable(&mut self, cx: &mut task::Context<'_>) -> Poll<Result<(), NotRecorded>> {
        let worker = self.worker;
        self.record.recording.poll_durable(|| worker.live().site.config.journal.when_full, cx)
    }

    /// Whether the request is a gRPC call, whose response follows the rules of gRPC.
    pub(crate) fn is_grpc_call(&self) -> bool {
        self.arrival.protocol == Protocol::Http2 && grpc::is_call(&self.request.headers)
    }

    /// Ends the body of an upstream's response; returns its trailers, without those that must not
    /// be forwarded.
    pub fn end_body(&mut self, end: BodyEnd) -> Option<HeaderMap> {
        if let Some(code) = end.grpc_status {
            let RecordBuilder { recording, notes, .. } = &mut self.record;
            recording.end_grpc_call(code, notes);
        }
        let mut trailers = end.trailers?;
        let edits = self.matched().map(|(_, route)| &route.response_headers);
        filter_trailers(&mut trailers, |name| edits.is_some_and(|edits| is_edited(edits, name)));
        Some(trailers).filter(|trailers| !trailers.is_empty())
    }

    /// The status sent to the client: a gRPC call rejected by weir has the status 200, with the
    /// gRPC status in the headers.
    pub fn wire_status(&self) -> u16 {
        let refused = self.record.problem.is_some() && self.is_grpc_call();
        if refused { 200 } else { self.response.status }
    }

    /// Whether the response has a body at all (RFC 9110 section 6.4.1).
    pub fn has_body(&self) -> bool {
        self.request.method != Method::Head && !matches!(self.response.status, 204 | 304)
    }

    /// Limits the entire request; `None` removes the limit.
    pub(crate) fn set_timeout(&self, timeout: Option<Duration>) {
        self.deadline.set_request(timeout.map(|timeout| self.arrival.started + timeout));
    }

    /// The response is complete, and its last byte is about to be sent: ends the record. `last` are
    /// the last bytes of the body, sent with it.
    pub fn complete(&mut self, last: &[u8]) {
        if let Some((record, of)) = self.record() {
            record.complete(of, last);
            self.end();
        }
    }

    /// The response was aborted, or could not be sent.
    pub fn abort(&mut self, why: Option<&ResponseError>) {
        if let Some((record, of)) = self.record() {
            record.abort(of, why);
            self.end();
        }
    }

    /// Ends an explained request, without log, record and statistics.
    pub(crate) fn discard(&mut self) {
        self.live = None;
    }

    fn end(&mut self) {
        self.live = None;
        self.worker.stats.active.sub(1);
        self.worker.stats.response_bytes.add(self.record.sent);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.abort(None);
    }
}
