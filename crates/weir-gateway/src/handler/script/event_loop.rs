//! The event loop of a call: its operations run here, in the task of its request.

use super::{finish, log_console};
use crate::context::Context;
use crate::handler::HandlerInput;
use crate::script_engine::{Command, EngineSlot, Thread};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use tokio::sync::oneshot;
use weir_config::Script;
use weir_http::deadline::{Deadline, EVER, Wait};
use weir_http::headers;
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_script::{CallId, End, Fetch, Op, OpId, OpKind, Outcome, Request, Step};

type Operation = Pin<Box<dyn Future<Output = Outcome>>>;

/// The pending operations of a call.
#[derive(Default)]
struct Operations(Vec<(OpId, Operation)>);

impl Operations {
    /// Starts the operations of a step, and drops those that the step does not await any more.
    fn start(&mut self, context: &Context<'_>, script: &Script, step: &mut Step) {
        self.0.retain(|(id, _)| !step.dropped.contains(id));
        for Op { id, kind } in std::mem::take(&mut step.ops) {
            let operation: Operation = match kind {
                OpKind::Timer(time) => Box::pin(async move {
                    tokio::time::sleep(time).await;
                    Outcome::Elapsed
                }),
                OpKind::Fetch(fetch) => start_fetch(context, script, *fetch),
            };
            self.0.push((id, operation));
        }
    }

    /// Waits for the first operation that ends. An error if the deadline of the request expires, or
    /// `lost` is ready.
    async fn next(
        &mut self,
        deadline: &Deadline,
        lost: impl Future<Output = ()>,
    ) -> Result<(OpId, Outcome), Rejection> {
        let mut lost = pin!(lost);
        let next = poll_fn(|cx| {
            for at in 0..self.0.len() {
                if let Poll::Ready(outcome) = self.0[at].1.as_mut().poll(cx) {
                    let (id, _) = self.0.swap_remove(at);
                    return Poll::Ready(Ok((id, outcome)));
                }
            }
            lost.as_mut().poll(cx).map(|()| Err(Problem::ScriptMemory))
        });
        Ok(in_time(deadline, next).await??)
    }
}

fn start_fetch(context: &Context<'_>, script: &Script, mut fetch: Fetch) -> Operation {
    let found = script.fetch.iter().find(|(name, _)| *name == fetch.upstream);
    let Some(&(_, upstream)) = found else {
        let names: Vec<&str> = script.fetch.iter().map(|(name, _)| name.as_str()).collect();
        let allowed = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        let why = format!("upstream `{}` is not allowed; `fetch` lists {allowed}", fetch.upstream);
        return Box::pin(std::future::ready(Outcome::Failed(why)));
    };
    let (live, limit) = (Rc::clone(context.live), context.route.body_limit);
    let passed = &live.site.config.upstreams[upstream.0].underscores_in_headers;
    let before = fetch.headers.len();
    fetch.headers.retain(|(name, _)| !headers::is_underscored(name.as_bytes(), passed));
    context.worker.stats.dropped_headers.add((before - fetch.headers.len()) as u64);
    let (id, span) = (context.arrival.id, context.span.cloned());
    Box::pin(async move {
        match crate::fetch::fetch(&live.upstreams[upstream.0], fetch, id, limit, span).await {
            Ok(fetched) => Outcome::Fetched(fetched),
            Err(rejection) => Outcome::Failed(rejection.summary()),
        }
    })
}

/// A call in the worker's engine; cancelled on drop.
struct EngineCall<'s> {
    slot: &'s EngineSlot,
    generation: u64,
    call: CallId,
}

impl Drop for EngineCall<'_> {
    fn drop(&mut self) {
        self.slot.cancel(self.generation, self.call);
    }
}

/// Runs a waiting call in the worker's engine to its end.
pub(super) async fn run_here(
    input: &mut HandlerInput<'_>,
    script: &Script,
    slot: &EngineSlot,
    generation: u64,
    mut step: Step,
) -> Result<End, Rejection> {
    let running = EngineCall { slot, generation, call: step.call };
    let mut operations = Operations::default();
    while step.end.is_none() {
        log_console(&input.context, script, &step);
        operations.start(&input.context, script, &mut step);
        // No other code runs on this thread between this check and the wait.
        if slot.is_dead(generation) {
            return Err(Problem::ScriptMemory.into());
        }
        let (op, outcome) = operations.next(input.context.deadline, slot.death()).await?;
        let resumed = slot.resume(generation, running.call, op, outcome);
        step = resumed.ok_or(Problem::ScriptMemory)?;
    }
    Ok(finish(input, script, step))
}

/// A call on a script thread; cancelled on drop, unless it has ended.
struct ThreadCall<'t> {
    thread: &'t Thread,
    generation: u64,
    call: Option<CallId>,
}

impl Drop for ThreadCall<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.thread.send(Command::Cancel { generation: self.generation, call });
        }
    }
}

/// Runs a call on a script thread.
pub(super) async fn run_on(
    thread: &Thread,
    input: &mut HandlerInput<'_>,
    script: &Script,
    export: usize,
    request: Request,
) -> Result<End, Rejection> {
    let busy = || Rejection::new(Problem::ScriptBusy).header("retry-after", "1".to_owned());
    let _permit = thread.permit().ok_or_else(busy)?;
    let deadline = input.context.deadline;
    let (reply, result) = oneshot::channel();
    if !thread.send(Command::Begin { export, request: Box::new(request), reply }) {
        return Err(busy());
    }
    let lost = |_| Problem::ScriptMemory;
    let (generation, mut step) = in_time(deadline, result).await?.map_err(lost)?;
    let mut running = ThreadCall { thread, generation, call: Some(step.call) };
    let mut operations = Operations::default();
    while step.end.is_none() {
        log_console(&input.context, script, &step);
        operations.start(&input.context, script, &mut step);
        let (op, outcome) = operations.next(deadline, std::future::pending()).await?;
        let (reply, result) = oneshot::channel();
        let call = step.call;
        if !thread.send(Command::Resume { generation, call, op, outcome, reply }) {
            return Err(busy());
        }
        step = in_time(deadline, result).await?.map_err(lost)?;
    }
    running.call = None;
    Ok(finish(input, script, step))
}

/// Waits for the thread, within the deadline of the request. Without a result, the engine with this
/// call has died.
async fn in_time<T>(deadline: &Deadline, work: impl Future<Output = T>) -> Result<T, Problem> {
    let done = deadline.within(Wait::FirstByte, EVER, work).await;
    done.map_err(|_| Problem::DeadlineExceeded)
}
