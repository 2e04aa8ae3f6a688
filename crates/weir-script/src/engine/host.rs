//! The running call and the output of its job.

use crate::call::{CallId, Console, End, Op, OpId, OpKind, Request, Role, Step, cut};
use std::cell::{Cell, RefCell};
use std::time::Duration;
use weir_model::{Annotation, Annotations};

/// Most pending operations of a call.
const MAX_PENDING: usize = 64;
/// Most log lines of a call, and the longest in bytes.
const MAX_LINES: usize = 64;
const MAX_LINE_BYTES: usize = 4096;

/// Number of the response to be transformed; operations have greater numbers, the request has 0.
const MAPPED_RESPONSE: u32 = 1;

/// Names and values.
type Headers = Vec<(String, String)>;

/// A running or waiting call.
#[derive(Default)]
pub(super) struct Call {
    pub(super) id: u32,
    pub(super) cpu: Duration,
    /// Indentation of JSON.
    indent: u8,
    pub(super) request: Request,
    /// Pending operations.
    pub(super) pending: Vec<u32>,
    /// Headers and bodies of responses to `fetch`, by operation.
    responses: Vec<(u32, Headers, Vec<u8>)>,
    pub(super) annotations: Option<Box<Annotations>>,
    lines: usize,
    /// Rejections without a handler.
    rejections: i32,
    pub(super) end: Option<End>,
}

impl Call {
    pub(super) fn new(id: u32, (cpu, indent): (Duration, u8), mut request: Request) -> Self {
        let responses = match std::mem::take(&mut request.role) {
            Role::ResponseMap(response) => vec![(MAPPED_RESPONSE, response.headers, response.body)],
            Role::Handler | Role::RequestMap => Vec::new(),
        };
        Self { id, cpu, indent, request, responses, ..Self::default() }
    }

    pub(super) fn waits(&self) -> bool {
        !self.pending.is_empty()
    }

    pub(super) fn take_pending(&mut self, op: OpId) -> bool {
        let found = self.pending.iter().position(|pending| *pending == op.0);
        found.map(|at| self.pending.swap_remove(at)).is_some()
    }

    /// Stores a response for the script.
    pub(super) fn store_response(&mut self, op: OpId, headers: Headers, body: Vec<u8>) {
        self.responses.push((op.0, headers, body));
    }

    /// Headers of a response.
    pub(super) fn headers(&self, number: u32) -> &[(String, String)] {
        self.response(number).map_or(&[], |(_, headers, _)| headers)
    }

    fn response(&self, number: u32) -> Option<&(u32, Headers, Vec<u8>)> {
        self.responses.iter().find(|(op, ..)| *op == number)
    }

    /// The body of the request (0) or of a response.
    pub(super) fn body(&self, number: u32) -> &[u8] {
        if number == 0 {
            return &self.request.body;
        }
        self.response(number).map_or(&[], |(_, _, body)| body)
    }
}

/// State of the native functions.
#[derive(Default)]
pub(super) struct Host {
    current: RefCell<Option<Box<Call>>>,
    /// Output of the job.
    output: RefCell<Step>,
    next_op: Cell<u32>,
}

impl Host {
    pub(super) fn enter(&self, call: Box<Call>) {
        *self.current.borrow_mut() = Some(call);
    }

    /// Ends the job.
    pub(super) fn leave(&self) -> (Box<Call>, Step) {
        let mut call = self.current.borrow_mut().take().unwrap_or_default();
        let mut output = Step { call: CallId(call.id), ..self.output.take() };
        if call.end.is_some() && call.rejections > 0 {
            call.lines = 0;
            let text = format!("{} rejected promises were not handled", call.rejections);
            output.console.push(Console { level: "warn", text });
        }
        (call, output)
    }

    /// The call with this number, if it is running.
    pub(super) fn with<T>(&self, id: u32, look: impl FnOnce(&Call) -> T) -> Option<T> {
        self.current.borrow().as_deref().filter(|call| call.id == id).map(look)
    }

    /// Ends the call, unless it has ended.
    pub(super) fn end(&self, end: Option<End>) {
        if let (Some(call), Some(end)) = (self.current.borrow_mut().as_mut(), end) {
            call.end.get_or_insert(end);
        }
    }

    /// JSON indentation of the running call.
    pub(super) fn indent(&self) -> u8 {
        self.current.borrow().as_deref().map_or(0, |call| call.indent)
    }

    pub(super) fn is_current(&self, id: u32) -> bool {
        self.with(id, |_| ()).is_some()
    }

    pub(super) fn take_body(&self, number: u32) -> Vec<u8> {
        let mut current = self.current.borrow_mut();
        let responses = current.as_mut().map(|call| &mut call.responses);
        let found =
            responses.and_then(|responses| responses.iter_mut().find(|(op, ..)| *op == number));
        found.map(|(_, _, body)| std::mem::take(body)).unwrap_or_default()
    }

    /// Starts an operation; returns the numbers of the call and the operation. `None` if no call
    /// runs or it has too many pending operations.
    pub(super) fn start(&self, kind: OpKind) -> Option<(u32, u32)> {
        let mut current = self.current.borrow_mut();
        let call = current.as_mut().filter(|call| call.pending.len() < MAX_PENDING)?;
        let id = self.next_op.get().wrapping_add(1).max(MAPPED_RESPONSE + 1);
        self.next_op.set(id);
        call.pending.push(id);
        self.output.borrow_mut().ops.push(Op { id: OpId(id), kind });
        Some((call.id, id))
    }

    pub(super) fn drop_op(&self, id: u32) {
        if let Some(call) = self.current.borrow_mut().as_mut()
            && call.take_pending(OpId(id))
        {
            let mut output = self.output.borrow_mut();
            output.ops.retain(|op| op.id != OpId(id));
            output.dropped.push(OpId(id));
        }
    }

    /// A promise was rejected without a handler, or got one later.
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
            0..=MAX_LINES => cut(text, MAX_LINE_BYTES).to_owned(),
            lines if lines == MAX_LINES + 1 => "further lines of this call are left out".to_owned(),
            _ => return,
        };
        self.output.borrow_mut().console.push(Console { level, text: line });
    }

    pub(super) fn annotate(&self, kind: Annotation, name: &str, text: &str) -> bool {
        let mut current = self.current.borrow_mut();
        let Some(call) = current.as_mut() else { return false };
        call.annotations.get_or_insert_default().add(kind, name, text)
    }
}
