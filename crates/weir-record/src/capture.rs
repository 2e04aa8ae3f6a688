//! Capture: which parts of a transaction go into the journal, and when.
//!
//! `received` is written when a request has been admitted, before its handler starts. Bytes of
//! bodies are written as they pass. `completed` is written before the last byte of the response is
//! sent. A static response to a request without a body has no waits in between, so a single record
//! is written at the end. A rejected request leaves a single record without headers or body.
//!
//! A transaction that is counted but not recorded leaves a small record at the end.
//!
//! If the journal lacks space for the complete record, bodies are left out first, then headers,
//! then everything but the count of the call. With `journal.when_full: refuse`, requests are
//! rejected instead.
//!
//! With `capture.when`, headers and bodies are written at once; the `completed` record states
//! whether they are kept. So nothing has to be buffered, except bodies that are redacted: each is
//! buffered until its end.

mod body;
mod counting;
mod durable;
mod mask;
mod recorder;
mod rest;
mod write;

pub use durable::NotRecorded;
pub use recorder::{Common, Recorder};
pub use rest::hash_key_is_whole;

use crate::client_request::ClientRequest;
use crate::transaction::Transaction;
use body::{BodyCapture, RequestTap};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weir_config::{Capture, CaptureLevel, Route, WhenFull};
use weir_http::body::BodyTap;
use weir_http::problem::Problem;
use weir_http::{clock, grpc};
use weir_journal::{Outcome, Position, Received, Reservation, Side, TransactionHandle};
use weir_model::Annotations;
use weir_telemetry::stage_times::StageTimes;
use weir_wire::Framing;

/// Maximum number of bytes of a response's body that are written with the `completed` record: a
/// record has to fit into a segment.
const LAST_BYTES: usize = 1 << 20;

/// Maximum length of a count-only record without its names, in bytes.
const COUNT_LENGTH: usize = 384;

/// State of the record of one transaction.
pub struct Recording {
    recorder: &'static Recorder,
    state: State,
    capture: Capture,
    request: Option<Rc<RequestTap>>,
    response: Option<BodyCapture>,
    /// The journal contains parts of a discarded response.
    discarded: bool,
    /// The transaction failed, whatever its status.
    failed: bool,
    stages: StageTimes,
    /// Reasons for counting the call: bits of the record, described in `weir_journal::counted`.
    counted: u8,
    /// The transaction is not shown by the Tracker: at most a count-only record is written.
    count_only: bool,
    /// End of the written record; the response waits until the journal is synced up to this
    /// position.
    until: Option<Position>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is recorded, or the record is finished.
    Off,
    /// The request has not been admitted.
    Rejected,
    /// A single record is written at the end.
    Whole,
    /// As `Whole`; its space in the journal is reserved.
    Reserved(Reservation),
    /// `received` is written.
    Open(TransactionHandle),
    /// The journal lacked space for headers and bodies: the rest is written in one record at the
    /// end.
    Shed,
}

impl Recording {
    /// A recording without a transaction.
    pub fn new(recorder: &'static Recorder) -> Self {
        Self {
            recorder,
            state: State::Off,
            capture: Capture::NONE,
            request: None,
            response: None,
            discarded: false,
            failed: false,
            stages: StageTimes::default(),
            counted: 0,
            count_only: false,
            until: None,
        }
    }

    /// Starts a new transaction; `shown` if the Tracker is on. Fields are set one by one: a new
    /// value would be built elsewhere and copied over this one.
    pub fn start(&mut self, shown: bool) {
        let Self {
            recorder,
            state,
            capture,
            request,
            response,
            discarded,
            failed,
            stages,
            counted,
            count_only,
            until,
        } = self;
        *state = if recorder.lane.is_some() { State::Rejected } else { State::Off };
        *capture = Capture::NONE;
        *request = None;
        *response = None;
        *discarded = false;
        *failed = false;
        *stages = StageTimes::default();
        *counted = 0;
        *count_only = !shown;
        *until = None;
    }

    /// Records the duration of a stage that has ended now. It started when the stage before it
    /// ended, or at `start` of the request. Reads the clock only if the transaction is recorded.
    pub fn stage_ended(&mut self, code: u8, start: Instant) {
        if self.is_shown() {
            self.stages.ended(code, start, clock::now());
        }
    }

    /// What is captured of the transaction, by its route; nothing before the route is known.
    pub fn capture(&self) -> Capture {
        self.capture
    }

    /// End of the last measured stage.
    pub fn mark(&self) -> Option<Instant> {
        self.stages.mark()
    }

    /// The head of an upstream's response has arrived, for a request sent at `called`.
    pub fn responded(&mut self, called: Instant) {
        if self.is_shown() {
            self.stages.responded(called, clock::now());
        }
    }

    /// Destination of stage durations, if they are recorded.
    pub fn times(&mut self) -> Option<&mut StageTimes> {
        self.is_shown().then_some(&mut self.stages)
    }

    /// Notes the status code of a gRPC call as a property of the transaction.
    pub fn note_grpc_status(&self, code: usize, notes: &mut Option<Box<Annotations>>) {
        if self.is_shown() {
            let properties = &mut notes.get_or_insert_default().properties;
            properties.push(("grpc_status".to_owned(), code.to_string()));
        }
    }

    /// An upstream has ended a gRPC call with this status code. The code decides whether the call
    /// failed, whatever the HTTP status.
    pub fn end_grpc_call(&mut self, code: usize, notes: &mut Option<Box<Annotations>>) {
        self.note_grpc_status(code, notes);
        self.failed |= grpc::is_failure(code);
    }

    /// Whether the Tracker shows the transaction.
    pub fn is_shown(&self) -> bool {
        self.state != State::Off && !self.count_only
    }

    /// The route of the request has been matched; it decides what is captured.
    pub fn found(&mut self, route: &Route) {
        self.capture = route.capture;
        self.count_only |= route.capture.level == CaptureLevel::None;
        if self.count_only {
            self.capture = Capture::NONE;
        }
    }

    /// The limits have admitted the call.
    pub fn admitted(&mut self, request: &ClientRequest<'_>, is_replay: bool) {
        self.counted = counting::admitted(request, is_replay);
    }

    /// The request has been admitted. Returns whether a part of its record has to be durable now,
    /// by [`Recording::begin`]; otherwise the record, if any, is written at the end.
    pub fn begins_now(&mut self, route: &Route, framing: Framing, when_full: WhenFull) -> bool {
        if self.count_only && self.counted == 0 {
            self.state = State::Off;
        }
        if self.state == State::Off {
            return false;
        }
        let local = self.count_only || route.handler.is_local();
        if when_full == WhenFull::Shed && local && framing.is_empty() {
            self.state = State::Whole;
            return false;
        }
        true
    }

    /// Writes the durable start of the record. `framing` is that of the request's body.
    ///
    /// # Errors
    /// The journal is full, and `when_full` rejects requests.
    pub fn begin(
        &mut self,
        of: &Transaction<'_>,
        framing: Framing,
    ) -> Result<Option<Rc<dyn BodyTap>>, Problem> {
        let (count_only, level) = (self.count_only, self.capture.level);
        // If requests must not be served without a record, space for the record is reserved first.
        let sheds = of.request.config.journal.when_full == WhenFull::Shed;
        let handle = if count_only {
            self.state = if sheds { State::Whole } else { self.reserved(of)? };
            None
        } else {
            match self.open(of) {
                None if sheds && framing.is_empty() => return Ok(None),
                None if !sheds => return Err(Problem::JournalFull),
                handle => handle,
            }
        };
        let level = if handle.is_some() || count_only { level } else { CaptureLevel::Meta };
        let headers = &of.request.head.headers;
        let body = BodyCapture::new(self.recorder, level, of.bodies, headers);
        let body = RefCell::new(body.of_request(framing));
        let tap = Rc::new(RequestTap { handle, body, settings: Rc::clone(of.bodies) });
        self.request = Some(Rc::clone(&tap));
        Ok(Some(tap))
    }

    /// Bytes of the response's body pass, except for the last ones, which go to [`Recording::end`].
    pub fn pass(&mut self, of: &Transaction<'_>, bytes: &[u8]) {
        if self.state == State::Whole && !self.count_only {
            // The response arrives in parts, so a single record is no longer possible.
            self.open(of);
        }
        match self.state {
            State::Open(handle) => {
                let mut body = self.take_response(of, self.capture.level);
                body.pass(handle, Side::Response, bytes, of.bodies);
                self.response = Some(body);
            }
            State::Whole | State::Reserved(_) | State::Shed => {
                let mut body = self.take_response(of, CaptureLevel::None);
                body.count(bytes);
                self.response = Some(body);
            }
            State::Off | State::Rejected => {}
        }
    }

    /// Adds the bytes that passed in each direction of an upgraded connection. None are stored.
    pub fn tunnelled(&mut self, of: &Transaction<'_>, up: u64, down: u64) {
        if self.state == State::Off {
            return;
        }
        if let Some(request) = &self.request {
            request.body.borrow_mut().passed(up);
        }
        let mut response = self.take_response(of, CaptureLevel::Meta);
        response.passed(down);
        self.response = Some(response);
    }

    /// Reserves space for a count-only record.
    fn reserved(&mut self, of: &Transaction<'_>) -> Result<State, Problem> {
        let Some(lane) = &self.recorder.lane else { return Ok(State::Off) };
        let Received { api, operation, consumer, plan, .. } = self.metering_fields(of);
        let names = api.len() + operation.len() + consumer.len() + plan.len();
        let room = lane.borrow_mut().reserve(names + COUNT_LENGTH);
        room.map(State::Reserved).map_err(|_| {
            self.state = State::Off;
            self.not_written();
            Problem::JournalFull
        })
    }

    /// Writes `received`. If the journal lacks space, the request is rejected, or its headers and
    /// bodies are not recorded, as `when_full` specifies.
    fn open(&mut self, of: &Transaction<'_>) -> Option<TransactionHandle> {
        let lane = self.recorder.lane.as_ref()?;
        let level = self.capture.level;
        let written = self.with_received(of, level, |received| lane.borrow_mut().start(received));
        let sheds = of.request.config.journal.when_full == WhenFull::Shed;
        self.state = match &written {
            Ok(handle) => State::Open(*handle),
            Err(_) if sheds => State::Shed,
            Err(_) => State::Off,
        };
        if written.is_err() && !sheds {
            self.not_written();
        }
        written.ok()
    }

    /// Counts a record that could not be written for lack of space, and a call that is therefore
    /// not counted.
    fn not_written(&self) {
        let stats = &self.recorder.stats;
        if !self.count_only {
            stats.unrecorded.add(1);
        }
        if self.counted != 0 {
            stats.uncounted.add(1);
        }
    }

    /// Takes the capture of the response's body; it starts when the response's headers are known.
    fn take_response(&mut self, of: &Transaction<'_>, level: CaptureLevel) -> BodyCapture {
        let headers = &of.response.headers;
        let recorder = self.recorder;
        let new = || BodyCapture::new(recorder, level, of.bodies, headers);
        self.response.take().unwrap_or_else(new)
    }

    /// Discards the response, of which nothing has been sent, for another one.
    pub fn restart(&mut self) {
        let before = self.response.take();
        self.discarded |= before.is_some_and(|body| body.is_stored());
    }

    /// The response is complete; `last` are the bytes of its body that have not passed yet.
    pub fn end(&mut self, of: &Transaction<'_>, last: &[u8], now: Instant, total: Duration) {
        if self.state == State::Off {
            return;
        }
        let (front, last) = last.split_at(last.len().saturating_sub(LAST_BYTES));
        front.chunks(LAST_BYTES).for_each(|chunk| self.pass(of, chunk));
        let failed = of.response.status >= 500 || self.failed;
        let outcome = if failed { Outcome::Failed } else { Outcome::Completed };
        self.write_end(of, outcome, last, now, total);
        self.until = self.recorder.position_to_wait_for();
    }

    /// The response was aborted: by the upstream if `upstream`, otherwise by the client.
    pub fn break_off(
        &mut self,
        of: &Transaction<'_>,
        upstream: bool,
        now: Instant,
        total: Duration,
    ) {
        if self.state == State::Off {
            return;
        }
        let mut body = self.take_response(of, self.capture.level);
        body.broke_off();
        self.response = Some(body);
        let outcome = if upstream { Outcome::Failed } else { Outcome::Interrupted };
        self.write_end(of, outcome, b"", now, total);
    }
}
