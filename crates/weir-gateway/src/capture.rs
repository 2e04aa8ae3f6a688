//! What of a transaction goes into the journal, and when.
//!
//! `received` is written when a request has been admitted, just before anything is done about it;
//! bytes of bodies follow as they pass; `completed` is written before the last byte of the answer
//! leaves. A declared reply to a request without a body waits for nothing in between, so all of it
//! is one record at the end. A request that is rejected leaves one record without headers or body.

mod durable;
mod heads;

pub(crate) use durable::{NotKept, poll_kept};
pub(crate) use heads::Masks;

use crate::exchange::Exchange;
use crate::problem::Problem;
use crate::worker::Worker;
use std::cell::Cell;
use std::rc::Rc;
use weir_config::{CaptureLevel, Handler, Route, WhenFull};
use weir_journal::{BodyFacts, Completed, Outcome, Position, Received, Side, Ticket, stage};

/// How far the record of one transaction has come.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    state: State,
    level: CaptureLevel,
    request: Option<Rc<Cell<BodyFacts>>>,
    response: BodyFacts,
    /// Microseconds to the head of the upstream's answer.
    first_byte: Option<u32>,
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
    /// `received` is written.
    Open(Ticket),
}

impl Recording {
    /// For a request that has just come.
    pub(crate) fn start(worker: &Worker) -> Self {
        let state = if worker.lane.is_some() { State::Rejected } else { State::Off };
        Self { state, level: CaptureLevel::Meta, ..Self::default() }
    }

    /// The head of an upstream's answer has come.
    pub(crate) fn answered(&mut self, after: std::time::Duration) {
        self.first_byte = Some(micros(after));
    }
}

/// The request is admitted: what is durable of it begins.
///
/// # Errors
/// The journal is full, and requests are to be refused then.
pub(crate) fn begin(exchange: &mut Exchange, route: &Route) -> Result<Option<Tee>, Problem> {
    let Some(lane) = &exchange.worker.lane else { return Ok(None) };
    exchange.recording.level = route.capture;
    if route.capture == CaptureLevel::None {
        exchange.recording.state = State::Off;
        return Ok(None);
    }
    // Where a request must not be answered without a record, room for it is made sure of first.
    let waits_for_nothing = matches!(route.handler, Handler::Reply(_))
        && exchange.live().site.config.journal.when_full == WhenFull::Shed;
    if waits_for_nothing && exchange.request.framing.is_empty() {
        exchange.recording.state = State::Whole;
        return Ok(None);
    }
    let written = with_received(exchange, |received| lane.borrow_mut().received(received));
    match written {
        Ok(ticket) => {
            let facts = Rc::new(Cell::new(BodyFacts::default()));
            exchange.recording.state = State::Open(ticket);
            exchange.recording.request = Some(Rc::clone(&facts));
            let limit = body_limit(exchange);
            Ok(Some(Tee { worker: exchange.worker, ticket, facts, limit }))
        }
        Err(_) => {
            exchange.recording.state = State::Off;
            exchange.worker.stats.unrecorded.add(1);
            match exchange.live().site.config.journal.when_full {
                WhenFull::Shed => Ok(None),
                WhenFull::Refuse => Err(Problem::JournalFull),
            }
        }
    }
}

/// Bytes of each body that are recorded.
fn body_limit(exchange: &Exchange) -> u64 {
    match exchange.recording.level {
        CaptureLevel::Body => exchange.live().site.config.tracker.body_limit,
        _ => 0,
    }
}

/// Bytes of the answer's body pass, but for the last ones, which go to [`end`].
pub(crate) fn pass(exchange: &mut Exchange, bytes: &[u8]) {
    let State::Open(ticket) = exchange.recording.state else {
        if exchange.recording.state == State::Whole {
            open(exchange);
            if matches!(exchange.recording.state, State::Open(_)) {
                pass(exchange, bytes);
            }
        }
        return;
    };
    let limit = body_limit(exchange);
    let facts = &mut exchange.recording.response;
    write_part(exchange.worker, ticket, Side::Response, facts, limit, bytes);
}

/// What was to be one record turns out to pass in pieces.
fn open(exchange: &mut Exchange) {
    let Some(lane) = &exchange.worker.lane else { return };
    let written = with_received(exchange, |received| lane.borrow_mut().received(received));
    exchange.recording.state = written.map_or(State::Off, State::Open);
}

/// Everything about the answer is known; `last` are the bytes of its body that have not
/// [`pass`]ed.
pub(crate) fn end(exchange: &mut Exchange, last: &[u8], total: std::time::Duration) {
    if exchange.recording.state == State::Off {
        return;
    }
    let outcome =
        if exchange.response.status >= 500 { Outcome::Failed } else { Outcome::Completed };
    write_end(exchange, outcome, last, total);
    exchange.recording.until = durable::wanted(exchange.worker);
}

/// The answer broke off; by the upstream if `upstream`, else by the client.
pub(crate) fn break_off(exchange: &mut Exchange, upstream: bool, total: std::time::Duration) {
    if exchange.recording.state == State::Off {
        return;
    }
    exchange.recording.response.aborted = true;
    let outcome = if upstream { Outcome::Failed } else { Outcome::Interrupted };
    write_end(exchange, outcome, b"", total);
}

fn write_end(exchange: &mut Exchange, outcome: Outcome, last: &[u8], total: std::time::Duration) {
    let Some(lane) = &exchange.worker.lane else { return };
    let state = std::mem::take(&mut exchange.recording.state);
    let level =
        if state == State::Rejected { CaptureLevel::Meta } else { exchange.recording.level };
    let limit = if level == CaptureLevel::Body { body_limit(exchange) } else { 0 };
    let recording = &mut exchange.recording;
    let response_body = take(&mut recording.response, limit, last);
    let response = recording.response;
    let request = recording.request.take().map(|facts| facts.get()).unwrap_or_default();
    let stages = [
        (stage::TOTAL, micros(total)),
        (stage::FIRST_BYTE, recording.first_byte.unwrap_or_default()),
    ];
    let stages = &stages[..1 + usize::from(recording.first_byte.is_some())];
    recording.level = level;
    let exchange = &*exchange;
    let mut head = crate::buffer::take_vec();
    if level >= CaptureLevel::Headers {
        exchange.live().site.masks.write(&exchange.response.headers, &mut head);
    }
    let completed = Completed {
        outcome,
        status: exchange.response.status,
        problem: exchange.problem.map(Problem::slug).unwrap_or_default(),
        upstream: upstream_name(exchange),
        head: &head,
        stages,
        request,
        response,
        response_body,
        ..Completed::default()
    };
    let written = match state {
        State::Open(ticket) => lane.borrow_mut().completed(ticket, &completed).map(|_| ()),
        State::Whole | State::Rejected => {
            with_received(exchange, |received| lane.borrow_mut().whole(received, &completed))
                .map(|_| ())
        }
        State::Off => Ok(()),
    };
    if written.is_err() {
        exchange.worker.stats.unrecorded.add(1);
    }
    crate::buffer::give_back_vec(head);
}

/// Puts together what is known of a request before its answer.
fn with_received<T>(exchange: &Exchange, write: impl FnOnce(&Received<'_>) -> T) -> T {
    let live = exchange.live();
    let (config, masks) = (&live.site.config, &live.site.masks);
    let level = exchange.recording.level;
    let mut head = crate::buffer::take_vec();
    if level >= CaptureLevel::Headers {
        masks.write(&exchange.request.headers, &mut head);
    }
    let target = masks.target(exchange.request.target());
    let mut address = [0; crate::forwarded::LONGEST_ADDRESS];
    let client = crate::forwarded::display(exchange.client.address, &mut address);
    let principal = exchange.principal.as_deref();
    let consumer = principal.and_then(|p| p.consumer()).map(|id| &config.consumers[id.0].name);
    let (api, operation) = match (exchange.matched(), exchange.api) {
        (Some((api, route)), _) => (api.name.as_str(), route.operation.as_str()),
        (None, Some(api)) => (config.apis[api].name.as_str(), ""),
        (None, None) => ("", ""),
    };
    let result = write(&Received {
        id: exchange.id.bytes(),
        received_us: exchange.received_us,
        api,
        operation,
        consumer: consumer.map_or("", String::as_str),
        principal: principal.and_then(|p| p.subject()).unwrap_or_default(),
        client: std::str::from_utf8(client).unwrap_or_default(),
        method: exchange.request.method_name(),
        target: &target,
        head: &head,
        level: level as u8,
        ..Received::default()
    });
    crate::buffer::give_back_vec(head);
    result
}

fn upstream_name(exchange: &Exchange) -> &str {
    match exchange.matched() {
        Some((_, Route { handler: Handler::Proxy(proxy), .. })) => {
            &exchange.live().site.config.upstreams[proxy.upstream.0].name
        }
        _ => "",
    }
}

/// Counts bytes of a body and gives those of them that are recorded.
fn take<'b>(facts: &mut BodyFacts, limit: u64, bytes: &'b [u8]) -> &'b [u8] {
    let room = limit.saturating_sub(facts.stored).min(bytes.len() as u64);
    facts.length += bytes.len() as u64;
    facts.stored += room;
    facts.truncated = facts.stored < facts.length;
    &bytes[..room as usize]
}

fn write_part(
    worker: &Worker,
    ticket: Ticket,
    side: Side,
    facts: &mut BodyFacts,
    limit: u64,
    bytes: &[u8],
) {
    let before = facts.stored;
    let recorded = take(facts, limit, bytes);
    let Some(lane) = &worker.lane else { return };
    if !recorded.is_empty() && lane.borrow_mut().part(ticket, side, recorded).is_err() {
        facts.stored = before;
        facts.truncated = true;
    }
}

fn micros(duration: std::time::Duration) -> u32 {
    duration.as_micros().try_into().unwrap_or(u32::MAX)
}

/// Records a request's body as its bytes pass.
#[derive(Debug)]
pub(crate) struct Tee {
    worker: &'static Worker,
    ticket: Ticket,
    facts: Rc<Cell<BodyFacts>>,
    limit: u64,
}

impl Tee {
    pub(crate) fn pass(&self, bytes: &[u8]) {
        let mut facts = self.facts.get();
        write_part(self.worker, self.ticket, Side::Request, &mut facts, self.limit, bytes);
        self.facts.set(facts);
    }

    /// The body broke off.
    pub(crate) fn broke_off(&self) {
        self.facts.set(BodyFacts { aborted: true, ..self.facts.get() });
    }
}
