//! A call that waits: what it waits for is done here, in the task of its request.

use super::{console, finished};
use crate::exchange::Exchange;
use crate::headers;
use crate::problem::Problem;
use crate::rejection::Rejection;
use crate::script_engine::{Command, EngineSlot, Thread};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::Poll;
use tokio::sync::oneshot;
use weir_config::{Route, Script};
use weir_script::{CallId, End, Fetch, Op, OpId, OpKind, Outcome, Request, Step};

type Doing = Pin<Box<dyn Future<Output = Outcome>>>;

/// What a call waits for.
#[derive(Default)]
struct Doings(Vec<(OpId, Doing)>);

impl Doings {
    fn follow(&mut self, exchange: &Exchange, route: &Route, script: &Script, step: &mut Step) {
        self.0.retain(|(id, _)| !step.dropped.contains(id));
        for Op { id, kind } in std::mem::take(&mut step.ops) {
            let doing: Doing = match kind {
                OpKind::Timer(time) => Box::pin(async move {
                    tokio::time::sleep(time).await;
                    Outcome::Elapsed
                }),
                OpKind::Fetch(fetch) => fetching(exchange, route, script, *fetch),
            };
            self.0.push((id, doing));
        }
    }

    /// The first that is done. An error when the request's time is over, or `lost` is ready.
    async fn next(
        &mut self,
        exchange: &Exchange,
        lost: impl Future<Output = ()>,
    ) -> Result<(OpId, Outcome), Rejection> {
        let mut lost = pin!(lost);
        exchange.deadline.progress();
        poll_fn(|cx| {
            for at in 0..self.0.len() {
                if let Poll::Ready(outcome) = self.0[at].1.as_mut().poll(cx) {
                    let (id, _) = self.0.swap_remove(at);
                    return Poll::Ready(Ok((id, outcome)));
                }
            }
            if lost.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Err(Problem::ScriptMemory.into()));
            }
            let late = exchange.deadline.poll_request(cx);
            late.map(|_| Err(Problem::DeadlineExceeded.into()))
        })
        .await
    }
}

fn fetching(exchange: &Exchange, route: &Route, script: &Script, mut fetch: Fetch) -> Doing {
    let found = script.fetch.iter().find(|(name, _)| *name == fetch.upstream);
    let Some(&(_, upstream)) = found else {
        let names: Vec<&str> = script.fetch.iter().map(|(name, _)| name.as_str()).collect();
        let allowed = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        let why = format!("upstream `{}` is not allowed; `fetch` lists {allowed}", fetch.upstream);
        return Box::pin(std::future::ready(Outcome::Failed(why)));
    };
    let (live, limit) = (Rc::clone(exchange.live()), route.body_limit);
    let passed = &live.site.config.upstreams[upstream.0].underscores_in_headers;
    let before = fetch.headers.len();
    fetch.headers.retain(|(name, _)| !headers::is_underscored(name.as_bytes(), passed));
    exchange.worker.stats.dropped_headers.add((before - fetch.headers.len()) as u64);
    let (id, span) = (exchange.id, exchange.span.clone());
    Box::pin(async move {
        match crate::fetch::fetch(&live.upstreams[upstream.0], fetch, id, limit, span).await {
            Ok(fetched) => Outcome::Fetched(fetched),
            Err(rejection) => Outcome::Failed(match rejection.detail {
                Some(detail) => format!("{}: {detail}", rejection.problem.title()),
                None => rejection.problem.title().to_owned(),
            }),
        }
    })
}

/// Ends a call in the worker's engine if nobody waits for it any more.
struct Held<'s> {
    slot: &'s EngineSlot,
    generation: u64,
    call: CallId,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.slot.cancel(self.generation, self.call);
    }
}

/// Goes on with a call in the worker's engine.
pub(super) async fn here(
    exchange: &mut Exchange,
    route: &Route,
    script: &Script,
    slot: &EngineSlot,
    generation: u64,
    mut step: Step,
) -> Result<End, Rejection> {
    let held = Held { slot, generation, call: step.call };
    let mut doings = Doings::default();
    while step.end.is_none() {
        console(exchange, script, &step);
        doings.follow(exchange, route, script, &mut step);
        // Nothing else runs on this thread between the look and the wait.
        if slot.is_over(generation) {
            return Err(Problem::ScriptMemory.into());
        }
        let (op, outcome) = doings.next(exchange, slot.death()).await?;
        let resumed = slot.resume(generation, held.call, op, outcome);
        step = resumed.ok_or(Problem::ScriptMemory)?;
    }
    Ok(finished(exchange, script, step))
}

/// Ends a call on another thread if nobody waits for it any more.
struct Away<'t> {
    thread: &'t Thread,
    generation: u64,
    call: Option<CallId>,
}

impl Drop for Away<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            self.thread.order(Command::Cancel { generation: self.generation, call });
        }
    }
}

/// A whole call on a thread of its own.
pub(super) async fn elsewhere(
    exchange: &mut Exchange,
    route: &Route,
    script: &Script,
    thread: &Thread,
    export: usize,
    request: Request,
) -> Result<End, Rejection> {
    let busy = || Rejection::new(Problem::ScriptBusy).header("retry-after", "1".to_owned());
    let _ticket = thread.ticket().ok_or_else(busy)?;
    let (reply, answer) = oneshot::channel();
    if !thread.order(Command::Begin { export, request: Box::new(request), reply }) {
        return Err(busy());
    }
    let (generation, mut step) = in_time(exchange, answer).await?;
    let mut away = Away { thread, generation, call: Some(step.call) };
    let mut doings = Doings::default();
    while step.end.is_none() {
        console(exchange, script, &step);
        doings.follow(exchange, route, script, &mut step);
        let (op, outcome) = doings.next(exchange, std::future::pending()).await?;
        let (reply, answer) = oneshot::channel();
        let call = step.call;
        if !thread.order(Command::Resume { generation, call, op, outcome, reply }) {
            return Err(busy());
        }
        step = in_time(exchange, answer).await?;
    }
    away.call = None;
    Ok(finished(exchange, script, step))
}

/// Waits for the thread, as long as the request may take. No answer means that the engine with
/// this call has died.
async fn in_time<T>(exchange: &Exchange, answer: oneshot::Receiver<T>) -> Result<T, Rejection> {
    let mut answer = pin!(answer);
    exchange.deadline.progress();
    poll_fn(|cx| {
        if let Poll::Ready(answer) = answer.as_mut().poll(cx) {
            return Poll::Ready(answer.map_err(|_| Problem::ScriptMemory.into()));
        }
        let late = exchange.deadline.poll_request(cx);
        late.map(|_| Err(Problem::DeadlineExceeded.into()))
    })
    .await
}
