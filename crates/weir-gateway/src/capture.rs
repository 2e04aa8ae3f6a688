//! What of a transaction goes into the journal, and when.
//!
//! `received` is written when a request has been admitted, just before anything is done about it;
//! bytes of bodies follow as they pass; `completed` is written before the last byte of the answer
//! leaves. A declared reply to a request without a body waits for nothing in between, so all of it
//! is one record at the end. A request that is rejected leaves one record without headers or body.
//!
//! What is not recorded but counted leaves one small record at the end.
//!
//! Where the journal has no room for all of it, bodies are left out first, then headers, then all but
//! the count of the call; unless requests are to be refused then.
//!
//! Where headers and bodies are kept only of what went wrong, they are written all the same, and
//! the end says whether they count: nothing has to wait in memory for it. Where bodies are masked,
//! each does have to, until it is over.

mod counting;
mod durable;
mod heads;
mod mask;
mod passing;
mod rest;
mod stages;
mod urls;

pub(crate) use counting::admitted;
pub(crate) use durable::{NotKept, poll_kept};
pub(crate) use heads::Masks;
pub(crate) use passing::Tee;
pub use rest::hash_key_is_whole;

use crate::clock;
use crate::exchange::Exchange;
use crate::problem::Problem;
use crate::worker::Worker;
use passing::Passing;
use rest::HashKey;
use stages::Stages;
use std::borrow::Cow;
use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_config::{Capture, CaptureLevel, Config, Handler, Route, WhenFull};
use weir_journal::{
    BodyMetadata, Completed, Discarded, Lane, Outcome, Position, Received, Reservation, Side,
    TransactionHandle, counted, stage,
};
use weir_script::Notes;
use weir_wire::Framing;

/// Most bytes of an answer's body that are written with its end: a record has to fit into a
/// segment.
const PIECE: usize = 1 << 20;

/// Most bytes of a record that is there to be counted, beside its names.
const COUNT_LENGTH: usize = 384;

/// What all workers share of recording.
#[derive(Debug, Default)]
pub(crate) struct Common {
    budget: mask::Budget,
    /// There if transactions are recorded.
    key: Option<HashKey>,
}

impl Common {
    /// Opens what is needed to record.
    ///
    /// # Errors
    /// The data folder cannot be read or written.
    pub(crate) fn open(config: &Config) -> io::Result<Self> {
        let key = config.tracker.enabled.then(|| HashKey::open(&config.data)).transpose()?;
        Ok(Self { key, ..Self::default() })
    }
}

/// How far the record of one transaction has come.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    state: State,
    capture: Capture,
    request: Option<Rc<RefCell<Passing>>>,
    response: Option<Passing>,
    /// Parts of another answer are in the journal.
    void: bool,
    /// It failed, whatever its status.
    failed: bool,
    stages: Stages,
    /// Why it is counted: bits of the record, told in [`counted`].
    counted: u8,
    /// It is recorded only if it is counted, and then to be counted and for nothing else.
    alone: bool,
    /// How often it was sent to an upstream again.
    retries: u8,
    /// The record is written up to here, and the answer waits until that is on the disk.
    until: Option<Position>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing is recorded, or nothing more.
    #[default]
    Off,
    /// The request has not been admitted.
    Rejected,
    /// One record at the end will say it all.
    Whole,
    /// So it will, and there is room for it.
    Promised(Reservation),
    /// `received` is written.
    Open(TransactionHandle),
    /// There was no room for headers and bodies: one record at the end says the rest.
    Shed,
}

impl Recording {
    /// For a request that has just come.
    pub(crate) fn start(worker: &Worker) -> Self {
        let state = if worker.lane.is_some() { State::Rejected } else { State::Off };
        let alone = !worker.live().site.config.tracker.enabled;
        Self { state, alone, ..Self::default() }
    }

    /// A stage has ended that did something: now, and the one before it or the request at `start`.
    /// Asks the clock, unless nothing is recorded.
    pub(crate) fn stage_ended(&mut self, code: u8, start: Instant) {
        if self.is_shown() {
            self.stages.ended(code, start, clock::now());
        }
    }

    /// What is recorded of it, as far as its route says; nothing before that is known.
    pub(crate) fn capture(&self) -> Capture {
        self.capture
    }

    /// When the last stage ended that was measured.
    pub(crate) fn mark(&self) -> Option<Instant> {
        self.stages.mark()
    }

    /// A connection to an upstream had to be made, since `called`.
    pub(crate) fn connected(&mut self, called: Instant) {
        if self.is_shown() {
            self.stages.add(stage::CONNECT, clock::now().saturating_duration_since(called));
        }
    }

    /// The head of an upstream's answer has come to a request made at `called`.
    pub(crate) fn answered(&mut self, called: Instant) {
        if self.is_shown() {
            self.stages.answered(called, clock::now());
        }
    }

    /// A stage took so long.
    pub(crate) fn took(&mut self, code: u8, duration: Duration) {
        if self.is_shown() {
            self.stages.add(code, duration);
        }
    }

    /// It is sent to an upstream again.
    pub(crate) fn sent_again(&mut self) {
        self.retries = self.retries.saturating_add(1);
    }

    /// It counts as failed, whatever its status.
    pub(crate) fn failed(&mut self) {
        self.failed = true;
    }

    /// Whether the Tracker shows it.
    pub(crate) fn is_shown(&self) -> bool {
        self.state != State::Off && !self.alone
    }
}

/// The route of a request is known, and with it what is recorded.
pub(crate) fn found(exchange: &mut Exchange, route: &Route) {
    let recording = &mut exchange.recording;
    recording.capture = route.capture;
    recording.alone |= route.capture.level == CaptureLevel::None;
    if recording.alone {
        recording.capture = Capture { level: CaptureLevel::None, when: None };
    }
}

/// The request is admitted: what is durable of it begins. `framing` is that of its body.
///
/// # Errors
/// The journal is full, and requests are to be refused then.
pub(crate) fn begin(
    exchange: &mut Exchange,
    route: &Route,
    framing: Framing,
) -> Result<Option<Tee>, Problem> {
    let Recording { alone, counted, .. } = exchange.recording;
    if alone && counted == 0 {
        exchange.recording.state = State::Off;
    }
    if exchange.recording.state == State::Off {
        return Ok(None);
    }
    let level = exchange.recording.capture.level;
    // Where a request must not be answered without a record, room for it is made sure of first.
    let sheds = exchange.live().site.config.journal.when_full == WhenFull::Shed;
    let waits_for_nothing = alone || matches!(route.handler, Handler::Reply(_) | Handler::Files(_));
    if sheds && waits_for_nothing && framing.is_empty() {
        exchange.recording.state = State::Whole;
        return Ok(None);
    }
    let handle = if alone {
        exchange.recording.state = if sheds { State::Whole } else { promised(exchange)? };
        None
    } else {
        match open(exchange) {
            None if sheds && framing.is_empty() => return Ok(None),
            None if !sheds => return Err(Problem::JournalFull),
            handle => handle,
        }
    };
    let level = if handle.is_some() || alone { level } else { CaptureLevel::Meta };
    let live = Rc::clone(exchange.live());
    let settings = &live.site.config.tracker;
    let body = Passing::new(exchange.worker, level, settings, &exchange.request.headers);
    let body = Rc::new(RefCell::new(body.of_request(framing)));
    exchange.recording.request = Some(Rc::clone(&body));
    Ok(Some(Tee { handle, body, live }))
}

/// Bytes of the answer's body pass, but for the last ones, which go to [`end`].
pub(crate) fn pass(exchange: &mut Exchange, bytes: &[u8]) {
    if exchange.recording.state == State::Whole && !exchange.recording.alone {
        // What was to be one record turns out to pass in pieces.
        open(exchange);
    }
    match exchange.recording.state {
        State::Open(handle) => {
            let live = Rc::clone(exchange.live());
            let mut body = take_response(exchange, exchange.recording.capture.level);
            body.pass(handle, Side::Response, bytes, &live.site.config.tracker);
            exchange.recording.response = Some(body);
        }
        State::Whole | State::Promised(_) | State::Shed => {
            let mut body = take_response(exchange, CaptureLevel::None);
            body.count(bytes);
            exchange.recording.response = Some(body);
        }
        State::Off | State::Rejected => {}
    }
}

/// So many bytes have passed each way of a connection that became something else; none is kept.
pub(crate) fn tunnelled(exchange: &mut Exchange, up: u64, down: u64) {
    if exchange.recording.state == State::Off {
        return;
    }
    if let Some(request) = &exchange.recording.request {
        request.borrow_mut().passed(up);
    }
    let mut response = take_response(exchange, CaptureLevel::Meta);
    response.passed(down);
    exchange.recording.response = Some(response);
}

/// Keeps room for the one record of what is only counted.
fn promised(exchange: &mut Exchange) -> Result<State, Problem> {
    let Some(lane) = &exchange.worker.lane else { return Ok(State::Off) };
    let Received { api, operation, consumer, plan, .. } =
        who_and_what(exchange, &exchange.live().site.config);
    let names = api.len() + operation.len() + consumer.len() + plan.len();
    let room = lane.borrow_mut().reserve(names + COUNT_LENGTH);
    room.map(State::Promised).map_err(|_| {
        exchange.recording.state = State::Off;
        not_written(exchange);
        Problem::JournalFull
    })
}

/// Writes `received`. Where there is no room for it the request is refused, or its headers and
/// bodies are not recorded, as the configuration says.
fn open(exchange: &mut Exchange) -> Option<TransactionHandle> {
    let lane = exchange.worker.lane.as_ref()?;
    let level = exchange.recording.capture.level;
    let written = with_received(exchange, level, |received| lane.borrow_mut().start(received));
    let sheds = exchange.live().site.config.journal.when_full == WhenFull::Shed;
    exchange.recording.state = match &written {
        Ok(handle) => State::Open(*handle),
        Err(_) if sheds => State::Shed,
        Err(_) => State::Off,
    };
    if written.is_err() && !sheds {
        not_written(exchange);
    }
    written.ok()
}

/// There was no room for a record: that is counted, and whether a call is not counted for it.
fn not_written(exchange: &Exchange) {
    let (stats, recording) = (&exchange.worker.stats, &exchange.recording);
    if !recording.alone {
        stats.unrecorded.add(1);
    }
    if recording.counted != 0 {
        stats.uncounted.add(1);
    }
}

/// Writes the end of a transaction, or all of it.
fn write_record(exchange: &Exchange, state: State, level: CaptureLevel, completed: &Completed<'_>) {
    let Some(lane) = &exchange.worker.lane else { return };
    let written = match state {
        State::Open(handle) => lane.borrow_mut().complete(handle, completed).map(|_| ()),
        State::Whole | State::Rejected | State::Shed => {
            write_whole(exchange, lane, level, completed);
            Ok(())
        }
        State::Promised(room) => {
            let write = |received: &Received<'_>| {
                lane.borrow_mut().append_reserved(room, received, completed)
            };
            with_received(exchange, level, write).map(|_| ())
        }
        State::Off => Ok(()),
    };
    if written.is_err() {
        not_written(exchange);
    }
}

/// Writes a transaction in one record, or what there is room for: without headers and bodies, or
/// else that there was a call.
fn write_whole(
    exchange: &Exchange,
    lane: &RefCell<Lane>,
    level: CaptureLevel,
    completed: &Completed<'_>,
) {
    let write = |level, completed: &Completed<'_>| {
        let write = |received: &Received<'_>| lane.borrow_mut().append(received, completed);
        with_received(exchange, level, write).is_ok()
    };
    let Recording { alone, counted, .. } = exchange.recording;
    if !alone {
        let reduced = completed.reduced();
        if write(level, completed) || write(CaptureLevel::Meta, &reduced) {
            return;
        }
        exchange.worker.stats.unrecorded.add(1);
    }
    if counted == 0 {
        return;
    }
    let config = &exchange.live().site.config;
    let call = Completed { problem: "", upstream: "", shortened: false, ..completed.reduced() };
    if lane.borrow_mut().count_call(&who_and_what(exchange, config), &call).is_err() {
        exchange.worker.stats.uncounted.add(1);
    }
}

/// The answer's body so far; it begins when its headers are known.
fn take_response(exchange: &mut Exchange, level: CaptureLevel) -> Passing {
    exchange.recording.response.take().unwrap_or_else(|| {
        let settings = &exchange.live().site.config.tracker;
        Passing::new(exchange.worker, level, settings, &exchange.response.headers)
    })
}

/// Nothing of the answer has left, and another one is given instead.
pub(crate) fn restart(exchange: &mut Exchange) {
    let before = exchange.recording.response.take();
    exchange.recording.void |= before.is_some_and(|body| body.is_stored());
}

/// Everything about the answer is known; `last` are the bytes of its body that have not
/// [`pass`]ed.
pub(crate) fn end(exchange: &mut Exchange, last: &[u8], now: Instant, total: Duration) {
    if exchange.recording.state == State::Off {
        return;
    }
    let (front, last) = last.split_at(last.len().saturating_sub(PIECE));
    front.chunks(PIECE).for_each(|piece| pass(exchange, piece));
    let outcome = if exchange.response.status >= 500 || exchange.recording.failed {
        Outcome::Failed
    } else {
        Outcome::Completed
    };
    write_end(exchange, outcome, last, now, total);
    exchange.recording.until = durable::wanted(exchange.worker);
}

/// The answer broke off; by the upstream if `upstream`, else by the client.
pub(crate) fn break_off(exchange: &mut Exchange, upstream: bool, now: Instant, total: Duration) {
    if exchange.recording.state == State::Off {
        return;
    }
    let mut body = take_response(exchange, exchange.recording.capture.level);
    body.broke_off();
    exchange.recording.response = Some(body);
    let outcome = if upstream { Outcome::Failed } else { Outcome::Interrupted };
    write_end(exchange, outcome, b"", now, total);
}

fn write_end(
    exchange: &mut Exchange,
    outcome: Outcome,
    last: &[u8],
    now: Instant,
    total: Duration,
) {
    let live = Rc::clone(exchange.live());
    let state = std::mem::take(&mut exchange.recording.state);
    if state == State::Rejected {
        exchange.recording.counted = counting::rejected(exchange);
    }
    let alone = exchange.recording.alone;
    if alone && exchange.recording.counted == 0 {
        return;
    }
    let Capture { level, .. } = exchange.recording.capture;
    let error = outcome != Outcome::Completed || exchange.response.status >= 400;
    let stored = !matches!(state, State::Rejected | State::Shed) && !alone;
    let kept = stored && exchange.recording.capture.keeps(error, total);
    let discarded = match state {
        State::Open(_) if !kept && level >= CaptureLevel::Headers => Discarded::Payload,
        State::Open(_) if exchange.recording.void => Discarded::Response,
        _ => Discarded::Nothing,
    };
    let level = match (alone, kept) {
        (true, _) => CaptureLevel::None,
        (false, true) => level,
        (false, false) => CaptureLevel::Meta,
    };
    let bodies = bodies(exchange, kept, level, last, &live.site.config);
    let mut stages = exchange.recording.stages;
    let exchange = &*exchange;
    let mut head = crate::buffer::take_vec();
    if level >= CaptureLevel::Headers {
        live.site.masks.write(&exchange.response.headers, &mut head);
    }
    let none = Notes::EMPTY;
    let said = exchange.notes.as_deref().filter(|_| !alone).unwrap_or(&none);
    let logs: Vec<&str> = said.logs.iter().map(String::as_str).collect();
    let completed = Completed {
        outcome,
        status: exchange.response.status,
        problem: exchange.problem.filter(|_| !alone).map(Problem::slug).unwrap_or_default(),
        detail: exchange.reason.as_deref().filter(|_| !alone).unwrap_or_default(),
        upstream: if alone { "" } else { upstream_name(exchange) },
        head: &head,
        stages: stages.finish(now, total),
        request: bodies.request,
        response: bodies.response,
        request_body: &bodies.request_body,
        response_body: &bodies.response_body,
        discarded,
        keys: &pairs(&said.keys),
        properties: &pairs(&said.properties),
        logs: &logs,
        retries: exchange.recording.retries,
        shortened: state == State::Shed,
        possible_end: None,
    };
    write_record(exchange, state, level, &completed);
    crate::buffer::give_back_vec(head);
}

/// What is written of the bodies with the end of a transaction.
#[derive(Default)]
struct Bodies<'b> {
    request: BodyMetadata,
    request_body: Cow<'b, [u8]>,
    response: BodyMetadata,
    response_body: Cow<'b, [u8]>,
}

fn bodies<'b>(
    exchange: &mut Exchange,
    kept: bool,
    level: CaptureLevel,
    last: &'b [u8],
    config: &Config,
) -> Bodies<'b> {
    let settings = &config.tracker;
    let mut bodies = Bodies::default();
    let response = take_response(exchange, level);
    if kept {
        (bodies.response, bodies.response_body) = response.finish(last, settings);
    } else {
        bodies.response = response.forget(last);
    }
    if let Some(request) = exchange.recording.request.take() {
        // What is left of it passes unseen.
        let nothing =
            Passing::new(exchange.worker, CaptureLevel::Meta, settings, &exchange.request.headers);
        let request = request.replace(nothing);
        if kept {
            (bodies.request, bodies.request_body) = request.finish(b"", settings);
        } else {
            bodies.request = request.forget(b"");
        }
    }
    bodies
}

/// Puts together what is known of a request before its answer.
fn with_received<T>(
    exchange: &Exchange,
    level: CaptureLevel,
    write: impl FnOnce(&Received<'_>) -> T,
) -> T {
    let live = exchange.live();
    let (config, masks) = (&live.site.config, &live.site.masks);
    let recording = &exchange.recording;
    if recording.alone {
        let received = Received {
            counted: recording.counted | counted::COUNT_ONLY,
            ..who_and_what(exchange, config)
        };
        return write(&received);
    }
    let mut head = crate::buffer::take_vec();
    if level >= CaptureLevel::Headers {
        masks.write(&exchange.request.headers, &mut head);
    }
    let target = masks.target(exchange.request.target());
    let mut address = [0; crate::forwarded::LONGEST_ADDRESS];
    let client = crate::forwarded::display(exchange.client.address, &mut address);
    let principal = exchange.principal.as_deref();
    let result = write(&Received {
        principal: principal.and_then(|p| p.subject()).unwrap_or_default(),
        client: std::str::from_utf8(client).unwrap_or_default(),
        https: exchange.client.https,
        method: exchange.request.method_name(),
        target: &target,
        head: &head,
        level: level as u8,
        auth: principal.and_then(|p| p.auth()).map_or("", |id| &config.auths[id.0].name),
        scopes: principal.map(|p| p.granted()).unwrap_or_default(),
        ..who_and_what(exchange, config)
    });
    crate::buffer::give_back_vec(head);
    result
}

/// What counting needs to know.
fn who_and_what<'a>(exchange: &'a Exchange, config: &'a Config) -> Received<'a> {
    let consumer = exchange.consumer();
    let (api, operation) = match (exchange.matched(), exchange.api) {
        (Some((api, route)), _) => (api.name.as_str(), route.operation.as_str()),
        (None, Some(api)) => (config.apis[api].name.as_str(), ""),
        (None, None) => ("", ""),
    };
    Received {
        id: exchange.id.bytes(),
        received_us: exchange.received_us,
        api,
        operation,
        consumer: consumer.map_or("", |id| config.consumers[id.0].name.as_str()),
        plan: counting::plan(exchange).map_or("", |plan| plan.name.as_str()),
        counted: exchange.recording.counted,
        resubmission_of: exchange.resubmission.as_ref().map_or([0; 16], |again| again.of),
        ..Received::default()
    }
}

/// Names and values as a record has them.
fn pairs(list: &[(String, String)]) -> Vec<(&str, &str)> {
    list.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn upstream_name(exchange: &Exchange) -> &str {
    match exchange.matched() {
        Some((_, Route { handler: Handler::Proxy(proxy), .. })) => {
            &exchange.live().site.config.upstreams[exchange.upstream_of(proxy).0].name
        }
        Some((_, Route { handler: Handler::Pool(handler), .. })) => {
            &exchange.live().site.config.pools[handler.pool.0].name
        }
        _ => "",
    }
}
