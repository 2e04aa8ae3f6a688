//! An engine: one QuickJS runtime with programs compiled in it, for one thread.

mod bounds;
mod host;
mod native;
#[cfg(test)]
mod tests;
mod watch;

use crate::call::{
    Answer, AnswerBody, CallId, Changed, End, Fetched, Op, OpId, Outcome, Request, Role, Step,
};
use crate::program::{Fault, Program, Settings};
use host::{Call, Host};
use rquickjs::context::EvalOptions;
use rquickjs::{Array, Context, Ctx, Error, FromJs, Function, Object, Persistent, Runtime, Value};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use watch::Watch;

const PRELUDE: &str = include_str!("engine/prelude.js");
const BOUNDS: &str = include_str!("engine/bounds.js");
/// Longest CPU time of a program's top level when it is compiled.
const COMPILING: Duration = Duration::from_secs(1);
/// Jobs that are run after a call was stopped, to have none left that belongs to it.
const LEFT_OVER: usize = 10_000;

/// Bounds of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory.
    pub memory: usize,
}

impl Default for Limits {
    /// 32 MiB.
    fn default() -> Self {
        Self { memory: 32 << 20 }
    }
}

/// Bytes of the native stack that a script may use; a worker's thread has 2 MiB.
const STACK: usize = 256 << 10;

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// QuickJS could not be set up; its memory limit is too small, or there is no memory.
    #[error("the script engine cannot be set up: {0}")]
    Setup(String),
    /// A program cannot be compiled.
    #[error(transparent)]
    Program(#[from] Fault),
}

/// Programs compiled and running. Belongs to one thread.
pub struct Engine {
    // Dropped first: it refers to values of the context.
    functions: Functions,
    context: Context,
    runtime: Runtime,
    host: Rc<Host>,
    watch: Rc<Watch>,
    /// Longest CPU time, and spaces a level in JSON, by program.
    settings: Vec<(Duration, u8)>,
    waiting: HashMap<u32, Box<Call>>,
    next_call: u32,
    memory: usize,
    dead: bool,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("waiting", &self.waiting.len()).finish_non_exhaustive()
    }
}

type Kept = Persistent<Function<'static>>;

/// What the prelude gives.
struct Functions {
    run: Kept,
    map: Kept,
    complete: Kept,
    forget: Kept,
    described: Kept,
    unusable: Kept,
}

impl Engine {
    /// Compiles programs; calls name them by their place in the list.
    ///
    /// # Errors
    /// One of them cannot be compiled, which does not happen to one that was loaded, or memory is
    /// too little.
    pub fn new(programs: &[Arc<Program>], limits: &Limits) -> Result<Self, EngineError> {
        let programs: Vec<&Program> = programs.iter().map(|program| &**program).collect();
        Self::of(&programs, limits)
    }

    fn of(programs: &[&Program], limits: &Limits) -> Result<Self, EngineError> {
        let setup = |error: Error| EngineError::Setup(error.to_string());
        let runtime = Runtime::new().map_err(setup)?;
        runtime.set_memory_limit(limits.memory);
        runtime.set_max_stack_size(STACK);
        let (watch, host) = (Rc::new(Watch::default()), Rc::new(Host::default()));
        watch.arm(COMPILING);
        let watching = Rc::clone(&watch);
        runtime.set_interrupt_handler(Some(Box::new(move || watching.is_over())));
        let rejections = Rc::clone(&host);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(move |_, _, _, handled| {
            rejections.rejected(handled);
        })));
        let context = Context::full(&runtime).map_err(setup)?;
        let functions = context.with(|ctx| {
            let functions = prelude(&ctx, &host, &watch, limits.memory)
                .map_err(|error| EngineError::Setup(format!("{error}: {:?}", ctx.catch())))?;
            for program in programs {
                add(&ctx, &functions.add, program)
                    .map_err(|error| fault(&ctx, program, &watch, &error))?;
            }
            Ok::<_, EngineError>(functions.functions)
        })?;
        Ok(Self {
            functions,
            context,
            runtime,
            host,
            watch,
            settings: programs.iter().map(|p| (p.settings.cpu, p.settings.indent)).collect(),
            waiting: HashMap::new(),
            next_call: 0,
            memory: limits.memory,
            dead: false,
        })
    }

    /// Compiles a program and runs its top level.
    pub(crate) fn check(program: &Program, limits: &Limits) -> Result<(), Fault> {
        let engine = Self::of(&[program], limits).map_err(|error| match error {
            EngineError::Program(fault) => fault,
            EngineError::Setup(message) => {
                Fault { module: program.name().to_owned(), line: 0, message }
            }
        })?;
        engine.watch.arm(COMPILING);
        engine.context.with(|ctx| {
            let unusable: Result<Vec<String>, Error> =
                engine.functions.unusable.clone().restore(&ctx).and_then(|f| f.call((0,)));
            let names = unusable.map_err(|error| fault(&ctx, program, &engine.watch, &error))?;
            match names.first() {
                None => Ok(()),
                Some(name) => {
                    let message = format!("its export `{name}` is no function");
                    Err(Fault { module: program.name().to_owned(), line: 0, message })
                }
            }
        })
    }

    /// Starts a call of a program's export (see [`Program::export_for`]).
    pub fn begin(&mut self, program: usize, export: usize, request: Request) -> Step {
        self.next_call = self.next_call.wrapping_add(1);
        let id = self.next_call;
        let settings = self.settings.get(program).copied().unwrap_or_default();
        // The status of an answer that is mapped, 0 for a request.
        let mapped = match &request.role {
            Role::Handler => None,
            Role::RequestMap => Some(0),
            Role::ResponseMap(answer) => Some(answer.status),
        };
        let call = Box::new(Call::new(id, settings, request));
        self.turn(call, |ctx, functions| {
            let value: Value<'_> = match mapped {
                None => functions.run.clone().restore(ctx)?.call((program, export, id))?,
                Some(status) => {
                    functions.map.clone().restore(ctx)?.call((program, export, id, status))?
                }
            };
            if value.is_undefined() { Ok(None) } else { Ok(Some(value)) }
        })
    }

    /// Goes on with a call: something it waits for is there. `None` if there is no such call any
    /// more, or it does not wait for this.
    pub fn resume(&mut self, call: CallId, op: OpId, outcome: Outcome) -> Option<Step> {
        let mut call = self.waiting.remove(&call.0)?;
        if !call.take_pending(op) {
            self.waiting.insert(call.id, call);
            return None;
        }
        let told = match outcome {
            Outcome::Elapsed => Ok(0),
            Outcome::Failed(why) => Err(why),
            Outcome::Fetched(Fetched { status, headers, body }) => {
                call.keep_answer(op, headers, body);
                Ok(status)
            }
        };
        Some(self.turn(call, |ctx, functions| {
            let complete = functions.complete.clone().restore(ctx)?;
            match told {
                Ok(status) => complete.call::<_, ()>((op.0, true, status))?,
                Err(why) => complete.call::<_, ()>((op.0, false, why))?,
            }
            Ok(None)
        }))
    }

    /// Ends a call that nobody waits for any more.
    pub fn cancel(&mut self, call: CallId) {
        if let Some(mut call) = self.waiting.remove(&call.0) {
            self.forget(&mut call);
        }
    }

    /// It ran out of memory, or a call left something behind that cannot be stopped: every call
    /// is over, and another engine has to take its place.
    pub fn is_dead(&self) -> bool {
        self.dead
    }

    /// Bytes that QuickJS has in use.
    pub fn memory(&self) -> usize {
        usize::try_from(self.runtime.memory_usage().malloc_size).unwrap_or(0)
    }

    /// Runs a call until it has an end or waits.
    fn turn(
        &mut self,
        call: Box<Call>,
        enter: impl for<'js> FnOnce(&Ctx<'js>, &Functions) -> Result<Option<Value<'js>>, Error>,
    ) -> Step {
        let id = call.id;
        self.watch.arm(call.cpu);
        self.host.enter(call);
        self.context.with(|ctx| {
            let end = match enter(&ctx, &self.functions) {
                Ok(None) => None,
                Ok(Some(value)) => Some(self.answer(&ctx, value)),
                Err(error) => Some(self.threw(&ctx, &error)),
            };
            self.host.end(end);
            let mut count = 0_u32;
            while !self.watch.is_stopped() && ctx.execute_pending_job() {
                count += 1;
                // A chain of small jobs may pass between two looks of the engine's own.
                if count.is_multiple_of(256) {
                    self.watch.is_over();
                }
            }
        });
        if self.watch.is_stopped() {
            self.clean_up();
        }
        let (mut call, turn) = self.host.leave();
        let mut end = match (self.watch.is_stopped(), call.end.take()) {
            (true, _) => Some(End::Stopped),
            (false, None) if call.waits() => None,
            (false, None) => Some(End::Stuck),
            (false, end) => end,
        };
        if matches!(end, Some(End::Threw(_) | End::Stuck)) && self.is_full() {
            end = Some(End::OutOfMemory);
        }
        self.dead |= end == Some(End::OutOfMemory);
        let mut step = Step {
            call: CallId(id),
            ops: turn.ops,
            dropped: turn.dropped,
            console: turn.console,
            notes: None,
            end,
        };
        if step.end.is_some() {
            step.ops.clear();
            step.notes = call.notes.take();
            self.forget(&mut call);
        } else {
            self.waiting.insert(id, call);
        }
        step
    }

    /// After a call was stopped: has its jobs run into the same, so that none is left for another.
    fn clean_up(&mut self) {
        self.watch.stop_everything(true);
        let left = self.context.with(|ctx| {
            for _ in 0..LEFT_OVER {
                if !ctx.execute_pending_job() {
                    return false;
                }
            }
            true
        });
        self.watch.stop_everything(false);
        self.dead |= left;
    }

    fn is_full(&self) -> bool {
        let much = || self.memory() > self.memory / 4 * 3;
        much() && {
            self.runtime.run_gc();
            much()
        }
    }

    /// What a call waited for is of no more interest.
    fn forget(&self, call: &mut Call) {
        if !call.waits() || self.dead {
            return;
        }
        self.watch.arm(COMPILING);
        self.context.with(|ctx| {
            let Ok(forget) = self.functions.forget.clone().restore(&ctx) else { return };
            for op in call.pending.drain(..) {
                // It deletes an entry of a table, nothing of a script's is run.
                let _ = forget.call::<_, ()>((op,));
            }
        });
    }

    fn answer<'js>(&self, ctx: &Ctx<'js>, value: Value<'js>) -> End {
        match self.host.answer(value) {
            Ok(end) => end,
            Err(error) => self.threw(ctx, &error),
        }
    }

    /// What a call ends with that threw.
    fn threw(&self, ctx: &Ctx<'_>, error: &Error) -> End {
        if !error.is_exception() {
            return End::Threw(error.to_string());
        }
        let thrown = ctx.catch();
        let described = self.functions.described.clone().restore(ctx);
        match described
            .and_then(|described| described.call::<_, Value<'_>>((thrown, self.host.indent())))
        {
            Ok(value) => self.host.failure(value),
            // Describing takes next to nothing. If there is no memory for that, there is none.
            Err(_) => {
                ctx.catch();
                End::OutOfMemory
            }
        }
    }
}

struct Prelude<'js> {
    add: Function<'js>,
    functions: Functions,
}

fn prelude<'js>(
    ctx: &Ctx<'js>,
    host: &Rc<Host>,
    watch: &Rc<Watch>,
    memory: usize,
) -> Result<Prelude<'js>, Error> {
    let evaluated = |text: &str| -> Result<Function<'js>, Error> {
        let mut options = EvalOptions::default();
        options.filename = Some("weir".to_owned());
        ctx.eval_with_options(text, options)
    };
    let native = native::object(ctx, host)?;
    bounds::add(&native, watch, memory)?;
    let given: Object<'_> = evaluated(PRELUDE)?.call((native, evaluated(BOUNDS)?))?;
    let kept = |name: &str| -> Result<Kept, Error> {
        Ok(Persistent::save(ctx, given.get::<_, Function<'_>>(name)?))
    };
    Ok(Prelude {
        add: given.get("add")?,
        functions: Functions {
            run: kept("run")?,
            map: kept("map")?,
            complete: kept("complete")?,
            forget: kept("forget")?,
            described: kept("described")?,
            unusable: kept("unusable")?,
        },
    })
}

fn add<'js>(ctx: &Ctx<'js>, add: &Function<'js>, program: &Program) -> Result<(), Error> {
    let mut factories = Vec::with_capacity(program.modules.len());
    for (name, text) in &program.modules {
        let mut options = EvalOptions::default();
        options.filename = Some(name.clone());
        factories.push(ctx.eval_with_options::<Function<'_>, _>(text.as_str(), options)?);
    }
    let names: Vec<&str> = program.exports().iter().map(String::as_str).collect();
    let Settings { shared, config, indent, .. } = &program.settings;
    add.call((factories, names, *shared, config.as_str(), *indent))
}

/// What is wrong with a program that cannot be compiled.
fn fault(ctx: &Ctx<'_>, program: &Program, watch: &Watch, error: &Error) -> Fault {
    let of = |line: usize, module: &str, message: String| Fault {
        module: module.to_owned(),
        line,
        message,
    };
    let thrown = ctx.catch();
    if watch.is_stopped() {
        return of(0, program.name(), "its top level takes longer than a second".to_owned());
    }
    let Some(object) = thrown.as_object() else {
        return of(0, program.name(), format!("its top level throws ({error})"));
    };
    let text = |name: &str| object.get::<_, String>(name).unwrap_or_default();
    let (stack, message) = (text("stack"), format!("{}: {}", text("name"), text("message")));
    let places = program.modules.iter().filter_map(|(name, _)| {
        let at = stack.find(&format!("{name}:"))?;
        let digits = stack[at + name.len() + 1..].split(|c: char| !c.is_ascii_digit()).next()?;
        Some((at, name, digits.parse().ok()?))
    });
    match places.min_by_key(|(at, ..)| *at) {
        Some((_, module, line)) => of(line, module, message),
        None => of(0, program.name(), message),
    }
}

impl Host {
    /// The answer that the prelude has rendered.
    fn answer(&self, value: Value<'_>) -> Result<End, Error> {
        if let Some(text) = value.as_string() {
            let body = AnswerBody::Value(text.to_string()?.into_bytes());
            return Ok(End::Answer(Box::new(Answer { status: 200, headers: Vec::new(), body })));
        }
        let row = Array::from_value(value)?;
        let (kind, status): (u8, u16) = (row.get(0)?, row.get(1)?);
        let flat: Vec<String> = row.get(2)?;
        let mut headers = Vec::with_capacity(flat.len() / 2);
        let mut flat = flat.into_iter();
        while let (Some(name), Some(value)) = (flat.next(), flat.next()) {
            headers.push((name, value));
        }
        let body = self.body_of(kind, &row)?;
        // Of a map, what it changes: with the names of headers to remove.
        let remove: Option<Vec<String>> = row.get(4)?;
        Ok(match (remove, body) {
            (None, body) => {
                let body = body.unwrap_or(AnswerBody::Empty);
                End::Answer(Box::new(Answer { status, headers, body }))
            }
            (Some(remove), body) => End::Changed(Box::new(Changed { set: headers, remove, body })),
        })
    }

    /// The body in a row; none if it is left as it is.
    fn body_of(&self, kind: u8, row: &Array<'_>) -> Result<Option<AnswerBody>, Error> {
        let text = || row.get::<String>(3);
        Ok(Some(match kind {
            1 => AnswerBody::Value(text()?.into_bytes()),
            2 => AnswerBody::Text(text()?),
            3 => AnswerBody::Bytes(native::unpacked(&text()?)),
            4 => AnswerBody::Empty,
            5 => AnswerBody::Bytes(self.take_body(row.get(3)?)),
            _ => return Ok(None),
        }))
    }

    /// What the prelude makes of something thrown: a text, or the answer that was thrown.
    fn failure(&self, value: Value<'_>) -> End {
        if value.is_array() {
            return self.answer(value).unwrap_or_else(|error| End::Threw(error.to_string()));
        }
        let text = String::from_js(&value.ctx().clone(), value).unwrap_or_default();
        // The name and the text of what QuickJS throws when it gets no memory.
        if text.starts_with("InternalError: out of memory") {
            return End::OutOfMemory;
        }
        End::Threw(crate::call::cut(&text, 4096).to_owned())
    }
}

/// An operation that begins.
pub(crate) fn op(id: u32, kind: crate::call::OpKind) -> Op {
    Op { id: OpId(id), kind }
}
