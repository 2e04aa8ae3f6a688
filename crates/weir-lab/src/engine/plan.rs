//! A program made ready: steps in one row, requests without variables as bytes.

use super::encode::{self, Encoded, Extra, Message};
use super::fault::Fault;
use crate::program::{
    Body, Check, CheckKind, Cookies, CounterId, FeederId, Label, OnError, Origin, Pause, Program,
    Request, Scope, State, Step, Text, ThroughputOf, Times, Values, Variable,
};
use std::sync::Arc;
use std::time::Duration;
use weir_wire::Method;

/// A program made ready.
pub(super) struct Plan {
    pub(super) program: Arc<Program>,
    pub(super) groups: Vec<GroupPlan>,
    pub(super) requests: Vec<Prepared>,
    pub(super) origins: Vec<Arc<Origin>>,
}

/// A group's steps in one row, with jumps: users go along it without recursion.
#[derive(Default)]
pub(super) struct GroupPlan {
    pub(super) ops: Vec<Op>,
    /// How many numbers its users keep for loops and paces.
    pub(super) slots: usize,
    pub(super) cookies: Cookies,
    pub(super) on_error: OnError,
    pub(super) fresh_user: bool,
}

/// A step.
pub(super) enum Op {
    /// Index into [`Plan::requests`].
    Request(usize),
    /// Goes to `end` if it is not to be gone round.
    LoopBegin {
        times: Times,
        slot: usize,
        end: usize,
    },
    /// Goes to `begin` if it is to be gone round once more.
    LoopEnd {
        slot: usize,
        begin: usize,
    },
    /// Goes to `end` unless it is the first iteration.
    Once {
        end: usize,
    },
    TransactionBegin {
        label: Label,
        with_pauses: bool,
        instead: bool,
    },
    TransactionEnd,
    Pause(Pause),
    Pacing {
        every: Duration,
        slot: usize,
    },
    Throughput {
        per_minute: Text,
        of: ThroughputOf,
        slot: usize,
    },
    Set(Vec<(Variable, Text)>),
    SetByUser(Vec<Vec<(Variable, Text)>>),
    Feed(FeederId),
    Count(CounterId),
}

/// A request made ready.
pub(super) struct Prepared {
    pub(super) request: Arc<Request>,
    pub(super) method: Method,
    pub(super) encoded: Option<Encoded>,
    pub(super) keep: Keep,
    /// A check of the status stands in for the set of successful ones.
    pub(super) status_is_checked: bool,
}

/// What of an answer is kept until it is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Keep {
    Nothing,
    Head,
    Body,
}

impl Plan {
    /// Makes a program ready.
    ///
    /// # Errors
    /// A request without variables can never be sent.
    pub(super) fn new(program: Arc<Program>) -> Result<Self, (Label, Fault)> {
        let mut plan = Self {
            groups: Vec::new(),
            requests: Vec::new(),
            origins: Vec::new(),
            program: program.clone(),
        };
        for group in &program.groups {
            let mut row = GroupPlan {
                cookies: group.cookies,
                on_error: group.on_error,
                fresh_user: group.fresh_user,
                ..GroupPlan::default()
            };
            plan.lay(&group.steps, &mut row)?;
            plan.groups.push(row);
        }
        Ok(plan)
    }

    fn lay(&mut self, steps: &[Step], row: &mut GroupPlan) -> Result<(), (Label, Fault)> {
        for step in steps {
            match step {
                Step::Request(request) => {
                    let prepared = self.prepare(request).map_err(|e| (request.label, e))?;
                    self.requests.push(prepared);
                    row.ops.push(Op::Request(self.requests.len() - 1));
                }
                Step::Loop { times, steps } => {
                    let (begin, slot) = (row.ops.len(), row.slot());
                    row.ops.push(Op::LoopBegin { times: times.clone(), slot, end: 0 });
                    self.lay(steps, row)?;
                    row.ops.push(Op::LoopEnd { slot, begin: begin + 1 });
                    let behind = row.ops.len();
                    row.ops[begin] = Op::LoopBegin { times: times.clone(), slot, end: behind };
                }
                Step::Once(steps) => {
                    let begin = row.ops.len();
                    row.ops.push(Op::Once { end: 0 });
                    self.lay(steps, row)?;
                    row.ops[begin] = Op::Once { end: row.ops.len() };
                }
                Step::Transaction { label, with_pauses, instead, steps } => {
                    let (label, with_pauses, instead) = (*label, *with_pauses, *instead);
                    row.ops.push(Op::TransactionBegin { label, with_pauses, instead });
                    self.lay(steps, row)?;
                    row.ops.push(Op::TransactionEnd);
                }
                Step::Pause(pause) => row.ops.push(Op::Pause(pause.clone())),
                Step::Pacing(every) => {
                    let slot = row.slot();
                    row.ops.push(Op::Pacing { every: *every, slot });
                }
                Step::Throughput { per_minute, of } => {
                    let slot = row.slot();
                    let per_minute = per_minute.clone();
                    row.ops.push(Op::Throughput { per_minute, of: *of, slot });
                }
                Step::Set(values) => row.ops.push(Op::Set(values.clone())),
                Step::SetByUser(rows) => row.ops.push(Op::SetByUser(rows.clone())),
                Step::Feed(feeder) => row.ops.push(Op::Feed(*feeder)),
                Step::Count(counter) => row.ops.push(Op::Count(*counter)),
            }
        }
        Ok(())
    }

    fn prepare(&mut self, request: &Arc<Request>) -> Result<Prepared, Fault> {
        let body = |check: &Check| check.needs_body();
        let keep = if request.decode
            || request.checks.iter().any(body)
            || request.extractors.iter().any(crate::program::Extractor::needs_body)
        {
            Keep::Body
        } else if !request.checks.is_empty() || !request.extractors.is_empty() {
            Keep::Head
        } else {
            Keep::Nothing
        };
        let is_status = |check: &Check| match &check.kind {
            CheckKind::Status(_) => true,
            CheckKind::Text { ignore_status, .. } => *ignore_status,
            _ => false,
        };
        Ok(Prepared {
            method: Method::of(&request.method),
            encoded: self.encode(request)?,
            keep,
            status_is_checked: request.checks.iter().any(is_status),
            request: request.clone(),
        })
    }

    /// The request as bytes, if it is always the same.
    fn encode(&mut self, request: &Request) -> Result<Option<Encoded>, Fault> {
        if !request.method.bytes().all(weir_wire::is_token) || request.method.is_empty() {
            return Err(Fault::request(format!("{:?} is no method", request.method)));
        }
        if !encode::is_fixed(request) {
            return Ok(None);
        }
        let program = self.program.clone();
        // Nothing in it asks for a state or a user: there are no variables.
        let state = State::default();
        let mut values = Values::new(&program, &state, 0, 0, 0);
        let mut scope = Scope { program: &program, state: &state, values: &mut values };
        let (origin, target) = encode::place(request, &mut scope)?;
        let bodies = if let Body::Each(all) = &request.body { all.len() } else { 1 };
        let mut messages = Vec::with_capacity(bodies);
        for body in 0..bodies {
            let mut message = Message::default();
            let place = (&origin, target.as_str());
            encode::write(request, place, (body, Extra::default()), &mut scope, &mut message)?;
            message.bytes.shrink_to_fit();
            if request.http2 {
                message.http2 = Some(message.to_http2(&origin, &target)?);
            }
            messages.push(message);
        }
        let url = origin.url(&target);
        let known = self.origins.iter().position(|known| **known == origin);
        let origin = known.unwrap_or_else(|| {
            self.origins.push(Arc::new(origin));
            self.origins.len() - 1
        });
        Ok(Some(Encoded { origin, url, target, messages }))
    }
}

impl GroupPlan {
    fn slot(&mut self) -> usize {
        self.slots += 1;
        self.slots - 1
    }
}
