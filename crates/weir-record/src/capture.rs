//! What of a transaction goes into the journal, and when.
//!
//! `received` is written when a request has been admitted, just before anything is done about it;
//! bytes of bodies follow as they pass; `completed` is written before the last byte of the response
//! leaves. A static response to a request without a body waits for nothing in between, so all of it
//! is one record at the end. A request that is rejected leaves one record without headers or body.
//!
//! What is not recorded but counted leaves one small record at the end.
//!
//! Where the journal has no room for all of it, bodies are left out first, then headers, then all but
//! the count of the call; unless requests are to be rejected then.
//!
//! Where headers and bodies are kept only of what went wrong, they are written all the same, and
//! the end says whether they count: nothing has to wait in memory for it. Where bodies are redacted,
//! each does have to, until it is over.

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

/// Most bytes of a response's body that are written with its end: a record has to fit into a
/// segment.
const LAST_BYTES: usize = 1 << 20;

/// Most bytes of a record that is there to be counted, beside its names.
const COUNT_LENGTH: usize = 384;

/// How far the record of one transaction has come.
#[derive(Debug)]
pub struct Recording {
    recorder: &'static Recorder,
    state: State,
    capture: Capture,
    request: Option<Rc<RequestTap>>,
    response: Option<BodyCapture>,
    /// Parts of another response are in the journal.
    discarded: bool,
    /// It failed, whatever its status.
    failed: bool,
    stages: StageTimes,
    /// Why it is counted: bits of the record, described in `weir_journal::counted`.
    counted: u8,
    /// It is recorded only if it is counted, and then to be counted and for nothing else.
    count_only: bool,
    /// The record is written up to here, and the response waits until that is on the disk.
    until: Option<Position>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is recorded, or nothing more.
    Off,
    /// The request has not been admitted.
    Rejected,
    /// One record at the end will say it all.
    Whole,
    /// So it will, and there is room for it.
    Reserved(Reservation),
    /// `received` is written.
    Open(TransactionHandle),
    /// There was no room for headers and bodies: one record at the end says the rest.
    Shed,
}

impl Recording {
    /// Of no transaction yet.
    pub fn new(recorder: &'static Recorder) -> Self {
        Self {
            recorder,
            state: State::Off,
            capture: Capture::default(),
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

    /// Begins a new transaction; `shown` if the Tracker is on. Field by field: a new value would be
    /// copied over this one.
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
        *capture = Capture::default();
        *request = None;
        *response = None;
        *discarded = false;
        *failed = false;
        *stages = StageTimes::default();
        *counted = 0;
        *count_only = !shown;
        *until = None;
    }

    /// A stage has ended that did something: now, and the one before it or the request at `start`.
    /// Asks the clock, unless nothing is recorded.
    pub fn stage_ended(&mut self, code: u8, start: Instant) {
        if self.is_shown() {
            self.stages.ended(code, start, clock::now());
        }
    }

    /// What is recorded of it, as far as its route says; nothing before that is known.
    pub fn capture(&self) -> Capture {
        self.capture
    }

    /// When the last stage ended that was measured.
    pub fn mark(&self) -> Option<Instant> {
        self.stages.mark()
    }

    /// The head of an upstream's response has come to a request made at `called`.
    pub fn responded(&mut self, called: Instant) {
        if self.is_shown() {
            self.stages.responded(called, clock::now());
        }
    }

    /// Where durations of stages go, if they are recorded.
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

    /// An upstream has ended a gRPC call with this status code, which decides whether it failed,
    /// whatever its status.
    pub fn end_grpc_call(&mut self, code: usize, notes: &mut Option<Box<Annotations>>) {
        self.note_grpc_status(code, notes);
        self.failed |= grpc::is_failure(code);
    }

    /// Whether the Tracker shows it.
    pub fn is_shown(&self) -> bool {
        self.state != State::Off && !self.count_only
    }

    /// The route of the request is known, and with it what is recorded.
    pub fn found(&mut self, route: &Route) {
        self.capture = route.capture;
        self.count_only |= route.capture.level == CaptureLevel::None;
        if self.count_only {
            self.capture = Capture { level: CaptureLevel::None, when: None };
        }
    }

    /// The limits have admitted the call.
    pub fn admitted(&mut self, request: &ClientRequest<'_>, is_replay: bool) {
        self.counted = counting::admitted(request, is_replay);
    }

    /// The request is admitted: returns whether something of its record is durable from now on, by
    /// [`Recording::begin`]. Otherwise one record at the end has all of it, or there is none.
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

    /// Begins what is durable of the record. `framing` is that of the request's body.
    ///
    /// # Errors
    /// The journal is full, and requests are to be rejected then.
    pub fn begin(
        &mut self,
        of: &Transaction<'_>,
        framing: Framing,
    ) -> Result<Option<Rc<dyn BodyTap>>, Problem> {
        let (count_only, level) = (self.count_only, self.capture.level);
        // Where a request must not be answered without a record, room for it is made sure of first.
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

    /// Bytes of the response's body pass, but for the last ones, which go to [`Recording::end`].
    pub fn pass(&mut self, of: &Transaction<'_>, bytes: &[u8]) {
        if self.state == State::Whole && !self.count_only {
            // What was to be one record turns out to pass in parts.
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

    /// So many bytes have passed each way of a connection that became something else; none is kept.
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

    /// Keeps room for the one record of what is only counted.
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

    /// Writes `received`. Where there is no room for it the request is rejected, or its headers and
    /// bodies are not recorded, as the configuration says.
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

    /// There was no room for a record: that is counted, and whether a call is not counted for it.
    fn not_written(&self) {
        let stats = &self.recorder.stats;
        if !self.count_only {
            stats.unrecorded.add(1);
        }
        if self.counted != 0 {
            stats.uncounted.add(1);
        }
    }

    /// The response's body so far; it begins when its headers are known.
    fn take_response(&mut self, of: &Transaction<'_>, level: CaptureLevel) -> BodyCapture {
        let headers = &of.response.headers;
        let recorder = self.recorder;
        let new = || BodyCapture::new(recorder, level, of.bodies, headers);
        self.response.take().unwrap_or_else(new)
    }

    /// Nothing of the response has left, and another one is given instead.
    pub fn restart(&mut self) {
        let before = self.response.take();
        self.discarded |= before.is_some_and(|body| body.is_stored());
    }

    /// Everything about the response is known; `last` are the bytes of its body that have not
    /// passed.
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

    /// The response broke off; by the upstream if `upstream`, else by the client.
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
