//! The call that is running, and what it leaves behind when its turn is over.

use crate::call::{Console, End, Note, Notes, Op, OpId, OpKind, Request, Role, cut};
use std::cell::{Cell, RefCell};
use std::time::Duration;

/// Most operations that a call waits for at once.
const WAITING: usize = 64;
/// Most lines of a call for the log, and the longest of them in bytes.
const LINES: usize = 64;
const LINE: usize = 4096;

/// Number of the answer that a map is given; operations have greater ones, the request has 0.
const MAPPED: u32 = 1;

/// Names and values.
type Headers = Vec<(String, String)>;

/// A call, running or waiting.
pub(super) struct Call {
    pub(super) id: u32,
    pub(super) cpu: Duration,
    /// Spaces a level in JSON.
    indent: u8,
    pub(super) request: Request,
    /// Operations it waits for.
    pub(super) pending: Vec<u32>,
    /// Headers and bodies of answers to `fetch`, by operation.
    answers: Vec<(u32, Headers, Vec<u8>)>,
    pub(super) notes: Option<Box<Notes>>,
    lines: usize,
    /// Rejections that nobody has handled.
    rejections: i32,
    pub(super) end: Option<End>,
}

impl Call {
    pub(super) fn new(id: u32, (cpu, indent): (Duration, u8), mut request: Request) -> Self {
        let answers = match std::mem::take(&mut request.role) {
            Role::ResponseMap(answer) => vec![(MAPPED, answer.headers, answer.body)],
            Role::Handler | Role::RequestMap => Vec::new(),
        };
        Self {
            id,
            cpu,
            indent,
            request,
            pending: Vec::new(),
            answers,
            notes: None,
            lines: 0,
            rejections: 0,
            end: None,
        }
    }

    pub(super) fn waits(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn take_pending(&mut self, op: OpId) -> bool {
        let found = self.pending.iter().position(|pending| *pending == op.0);
        found.map(|at| self.pending.swap_remove(at)).is_some()
    }

    /// Keeps what a script may look at.
    pub(super) fn keep_answer(&mut self, op: OpId, headers: Headers, body: Vec<u8>) {
        self.answers.push((op.0, headers, body));
    }

    /// Headers of an answer to `fetch`.
    pub(super) fn headers(&self, number: u32) -> &[(String, String)] {
        self.answer(number).map_or(&[], |(_, headers, _)| headers)
    }

    fn answer(&self, number: u32) -> Option<&(u32, Headers, Vec<u8>)> {
        self.answers.iter().find(|(op, ..)| *op == number)
    }

    /// The body of the request (0) or of an answer to `fetch`.
    pub(super) fn body(&self, number: u32) -> &[u8] {
        if number == 0 {
            return &self.request.body;
        }
        self.answer(number).map_or(&[], |(_, _, body)| body)
    }
}

/// What a turn leaves behind.
#[derive(Default)]
pub(super) struct Turn {
    pub(super) ops: Vec<Op>,
    pub(super) dropped: Vec<OpId>,
    pub(super) console: Vec<Console>,
}

/// What the native functions work on.
#[derive(Default)]
pub(super) struct Host {
    current: RefCell<Option<Box<Call>>>,
    turn: RefCell<Turn>,
    next_op: Cell<u32>,
}

impl Host {
    pub(super) fn enter(&self, call: Box<Call>) {
        *self.current.borrow_mut() = Some(call);
    }

    /// Ends the turn.
    pub(super) fn leave(&self) -> (Box<Call>, Turn) {
        let call = self.current.borrow_mut().take();
        let mut call =
            call.unwrap_or_else(|| Box::new(Call::new(0, (Duration::ZERO, 0), Request::default())));
        let mut turn = std::mem::take(&mut *self.turn.borrow_mut());
        if call.end.is_some() && call.rejections > 0 {
            call.lines = 0;
            let text = format!("{} rejected promises were not handled", call.rejections);
            turn.console.push(Console { level: "warn", text });
        }
        (call, turn)
    }

    /// The call with this number, if it is the one running.
    pub(super) fn with<T>(&self, id: u32, look: impl FnOnce(&Call) -> T) -> Option<T> {
        self.current.borrow().as_deref().filter(|call| call.id == id).map(look)
    }

    /// The call ends, unless it has.
    pub(super) fn end(&self, end: Option<End>) {
        if let (Some(call), Some(end)) = (self.current.borrow_mut().as_mut(), end) {
            call.end.get_or_insert(end);
        }
    }

    /// Spaces a level in the JSON of the call that is running.
    pub(super) fn indent(&self) -> u8 {
        self.current.borrow().as_deref().map_or(0, |call| call.indent)
    }

    pub(super) fn is_current(&self, id: u32) -> bool {
        self.with(id, |_| ()).is_some()
    }

    pub(super) fn take_body(&self, number: u32) -> Vec<u8> {
        let mut current = self.current.borrow_mut();
        let answers = current.as_mut().map(|call| &mut call.answers);
        let found = answers.and_then(|answers| answers.iter_mut().find(|(op, ..)| *op == number));
        found.map(|(_, _, body)| std::mem::take(body)).unwrap_or_default()
    }

    /// Begins an operation; gives the call and its number, `None` if there is no call or it waits
    /// for too much.
    pub(super) fn start(&self, kind: OpKind) -> Option<(u32, u32)> {
        let mut current = self.current.borrow_mut();
        let call = current.as_mut().filter(|call| call.pending.len() < WAITING)?;
        let id = self.next_op.get().wrapping_add(1).max(MAPPED + 1);
        self.next_op.set(id);
        call.pending.push(id);
        self.turn.borrow_mut().ops.push(super::op(id, kind));
        Some((call.id, id))
    }

    pub(super) fn drop_op(&self, id: u32) {
        if let Some(call) = self.current.borrow_mut().as_mut()
            && call.take_pending(OpId(id))
        {
            let mut turn = self.turn.borrow_mut();
            turn.ops.retain(|op| op.id != OpId(id));
            turn.dropped.push(OpId(id));
        }
    }

    /// A promise was rejected without a handler, or got one after all.
    pub(super) fn rejected(&self, handled: bool) {
        if let Ok(mut current) = self.current.try_borrow_mut()
            && let Some(call) = current.as_mut()
        {
            call.rejections += if handled { -1 } else { 1 };
        }
    }

    pub(super) fn log(&self, level: &'static str, text: &str) {
        let mut current = self.current.borrow_mut();
        let Some(call) = current.as_mut() else { return };
        call.lines += 1;
        let line = match call.lines {
            0..=LINES => cut(text, LINE).to_owned(),
            lines if lines == LINES + 1 => "further lines of this call are left out".to_owned(),
            _ => return,
        };
        self.turn.borrow_mut().console.push(Console { level, text: line });
    }

    pub(super) fn note(&self, kind: Note, name: &str, text: &str) -> bool {
        let mut current = self.current.borrow_mut();
        let Some(call) = current.as_mut() else { return false };
        call.notes.get_or_insert_default().add(kind, name, text)
    }
}
