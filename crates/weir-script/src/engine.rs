//! An engine: a QuickJS runtime with compiled programs, for one thread.

mod bounds;
mod cpu_watchdog;
mod host;
mod native;
#[cfg(test)]
mod tests;

use crate::call::{
    CallId, Changes, End, FetchedResponse, OpId, Outcome, Request, Role, ScriptBody,
    ScriptResponse, Step,
};
use cpu_watchdog::CpuWatchdog;
use host::{Call, Host};
use rquickjs::context::EvalOptions;
use rquickjs::{Array, Context, Ctx, Error, FromJs, Function, Object, Persistent, Runtime, Value};
use std::borrow::Borrow;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;
use weir_module::{LoadError, Program, Settings};

const PRELUDE: &str = include_str!("engine/prelude.js");
const BOUNDS: &str = include_str!("engine/bounds.js");
/// Limit of the CPU time of a program's top level when it is compiled.
const COMPILE_CPU_LIMIT: Duration = Duration::from_secs(1);
/// Most jobs of a stopped call that are run to remove them.
const MAX_LEFTOVER_JOBS: usize = 10_000;

/// Default memory of an engine in bytes.
pub const DEFAULT_MEMORY: usize = 32 << 20;
/// Bytes of the native stack that a script may use; the thread of a worker has 2 MiB.
const MAX_STACK_BYTES: usize = 256 << 10;

/// Why an engine cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// QuickJS could not be initialised: the memory limit is too small, or there is no memory.
    #[error("the script engine cannot be set up: {0}")]
    Setup(String),
    /// A program cannot be compiled.
    #[error(transparent)]
    Program(#[from] LoadError),
}

/// Compiled programs and their calls. Belongs to one thread.
pub struct Engine {
    // Dropped first: it refers to values of the context.
    functions: Functions,
    context: Context,
    runtime: Runtime,
    host: Rc<Host>,
    watch: Rc<CpuWatchdog>,
    /// CPU time limit and JSON indentation of each program.
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

type SavedFunction = Persistent<Function<'static>>;

/// Functions of the prelude.
struct Functions {
    run: SavedFunction,
    map: SavedFunction,
    complete: SavedFunction,
    forget: SavedFunction,
    described: SavedFunction,
    unusable: SavedFunction,
}

impl Engine {
    /// Compiles programs; calls identify them by their index. `memory` is the limit in bytes.
    ///
    /// # Errors
    /// A program cannot be compiled, which cannot happen after [`check`], or memory is
    /// short.
    pub fn new<P: Borrow<Program>>(programs: &[P], memory: usize) -> Result<Self, EngineError> {
        let programs = || programs.iter().map(|program| -> &Program { program.borrow() });
        let setup = |error: Error| EngineError::Setup(error.to_string());
        let runtime = Runtime::new().map_err(setup)?;
        runtime.set_memory_limit(memory);
        runtime.set_max_stack_size(MAX_STACK_BYTES);
        let (watch, host) = (Rc::new(CpuWatchdog::default()), Rc::new(Host::default()));
        watch.start(COMPILE_CPU_LIMIT);
        let watching = Rc::clone(&watch);
        runtime.set_interrupt_handler(Some(Box::new(move || watching.is_exceeded())));
        let rejections = Rc::clone(&host);
        runtime.set_host_promise_rejection_tracker(Some(Box::new(move |_, _, _, handled| {
            rejections.rejected(handled);
        })));
        let context = Context::full(&runtime).map_err(setup)?;
        let functions = context.with(|ctx| {
            let (adds, functions) = prelude(&ctx, &host, &watch, memory)
                .map_err(|error| EngineError::Setup(format!("{error}: {:?}", ctx.catch())))?;
            for program in programs() {
                add(&ctx, &adds, program).map_err(|error| fault(&ctx, program, &watch, &error))?;
            }
            Ok::<_, EngineError>(functions)
        })?;
        Ok(Self {
            functions,
            context,
            runtime,
            host,
            watch,
            settings: programs().map(|p| (p.settings.cpu, p.settings.indent)).collect(),
            waiting: HashMap::new(),
            next_call: 0,
            memory,
            dead: false,
        })
    }

    /// Starts a call of a program's export (see [`Program::export_for`]).
    pub fn start(&mut self, program: usize, export: usize, request: Request) -> Step {
        self.next_call = self.next_call.wrapping_add(1);
        let id = self.next_call;
        let settings = self.settings.get(program).copied().unwrap_or_default();
        // The status of a response that is transformed, 0 for a request.
        let mapped = match &request.role {
            Role::Handler => None,
            Role::RequestMap => Some(0),
            Role::ResponseMap(response) => Some(response.status),
        };
        let call = Box::new(Call::new(id, settings, request));
        self.run_job(call, |ctx, functions| {
            let value: Value<'_> = match mapped {
                None => functions.run.clone().restore(ctx)?.call((program, export, id))?,
                Some(status) => {
                    functions.map.clone().restore(ctx)?.call((program, export, id, status))?
                }
            };
            if value.is_undefined() { Ok(None) } else { Ok(Some(value)) }
        })
    }

    /// Continues a call with the outcome of an operation. `None` if the call does not exist any
    /// more, or does not wait for this operation.
    pub fn resume(&mut self, call: CallId, op: OpId, outcome: Outcome) -> Option<Step> {
        let mut call = self.waiting.remove(&call.0)?;
        if !call.take_pending(op) {
            self.waiting.insert(call.id, call);
            return None;
        }
        let result = match outcome {
            Outcome::Elapsed => Ok(0),
            Outcome::Failed(why) => Err(why),
            Outcome::Fetched(FetchedResponse { status, headers, body }) => {
                call.store_response(op, headers, body);
                Ok(status)
            }
        };
        Some(self.run_job(call, |ctx, functions| {
            let complete = functions.complete.clone().restore(ctx)?;
            match result {
                Ok(status) => complete.call::<_, ()>((op.0, true, status))?,
                Err(why) => complete.call::<_, ()>((op.0, false, why))?,
            }
            Ok(None)
        }))
    }

    /// Ends a call whose result is not needed any more.
    pub fn cancel(&mut self, call: CallId) {
        if let Some(mut call) = self.waiting.remove(&call.0) {
            self.drop_pending(&mut call);
        }
    }

    /// The engine ran out of memory, or jobs of a stopped call are left: all calls have ended, and
    /// the engine has to be replaced.
    pub fn is_dead(&self) -> bool {
        self.dead
    }

    /// Memory used by QuickJS in bytes.
    pub fn memory(&self) -> usize {
        usize::try_from(self.runtime.memory_usage().malloc_size).unwrap_or(0)
    }

    /// Runs a call until it ends or waits.
    fn run_job(
        &mut self,
        call: Box<Call>,
        enter: impl for<'js> FnOnce(&Ctx<'js>, &Functions) -> Result<Option<Value<'js>>, Error>,
    ) -> Step {
        self.watch.start(call.cpu);
        self.host.enter(call);
        self.context.with(|ctx| {
            let end = match enter(&ctx, &self.functions) {
                Ok(None) => None,
                Ok(Some(value)) => Some(self.response(&ctx, value)),
                Err(error) => Some(self.describe_error(&ctx, &error)),
            };
            self.host.end(end);
            let mut count = 0_u32;
            while !self.watch.is_stopped() && ctx.execute_pending_job() {
                count += 1;
                // A chain of small jobs may run between two checks by QuickJS.
                if count.is_multiple_of(256) {
                    self.watch.is_exceeded();
                }
            }
        });
        if self.watch.is_stopped() {
            self.run_leftover_jobs();
        }
        let (mut call, mut step) = self.host.leave();
        let mut end = match (self.watch.is_stopped(), call.end.take()) {
            (true, _) => Some(End::CpuLimit),
            (false, None) if call.waits() => None,
            (false, None) => Some(End::Deadlocked),
            (false, end) => end,
        };
        if matches!(end, Some(End::Threw(_) | End::Deadlocked)) && self.is_full() {
            end = Some(End::OutOfMemory);
        }
        self.dead |= end == Some(End::OutOfMemory);
        step.end = end;
        if step.end.is_some() {
            step.ops.clear();
            step.annotations = call.annotations.take();
            self.drop_pending(&mut call);
        } else {
            self.waiting.insert(call.id, call);
        }
        step
    }

    /// Runs the remaining jobs of a stopped call, each of which is stopped as well, so that none is
    /// left for another call.
    fn run_leftover_jobs(&mut self) {
        self.watch.stop_always(true);
        let left = self.context.with(|ctx| {
            for _ in 0..MAX_LEFTOVER_JOBS {
                if !ctx.execute_pending_job() {
                    return false;
                }
            }
            true
        });
        self.watch.stop_always(false);
        self.dead |= left;
    }

    fn is_full(&self) -> bool {
        let much = || self.memory() > self.memory / 4 * 3;
        much() && {
            self.runtime.run_gc();
            much()
        }
    }

    /// Drops the operations of a call.
    fn drop_pending(&self, call: &mut Call) {
        if !call.waits() || self.dead {
            return;
        }
        self.watch.start(COMPILE_CPU_LIMIT);
        self.context.with(|ctx| {
            let Ok(forget) = self.functions.forget.clone().restore(&ctx) else { return };
            for op in call.pending.drain(..) {
                // This deletes an entry of a table and runs no code of a script.
                let _ = forget.call::<_, ()>((op,));
            }
        });
    }

    fn response<'js>(&self, ctx: &Ctx<'js>, value: Value<'js>) -> End {
        self.host.response(value).unwrap_or_else(|error| self.describe_error(ctx, &error))
    }

    /// The end of a call that threw.
    fn describe_error(&self, ctx: &Ctx<'_>, error: &Error) -> End {
        if !error.is_exception() {
            return End::Threw(error.to_string());
        }
        let thrown = ctx.catch();
        let described = self.functions.described.clone().restore(ctx);
        match described
            .and_then(|described| described.call::<_, Value<'_>>((thrown, self.host.indent())))
        {
            Ok(value) => self.host.failure(value),
            // A description needs little memory: without that, the engine is out of memory.
            Err(_) => {
                ctx.catch();
                End::OutOfMemory
            }
        }
    }
}

/// Runs the prelude; returns its function that adds a program, and those that an engine calls.
fn prelude<'js>(
    ctx: &Ctx<'js>,
    host: &Rc<Host>,
    watch: &Rc<CpuWatchdog>,
    memory: usize,
) -> Result<(Function<'js>, Functions), Error> {
    let evaluated = |text: &str| -> Result<Function<'js>, Error> {
        let mut options = EvalOptions::default();
        options.filename = Some("weir".to_owned());
        ctx.eval_with_options(text, options)
    };
    let native = native::object(ctx, host)?;
    bounds::add(&native, watch, memory)?;
    let exports: Object<'_> = evaluated(PRELUDE)?.call((native, evaluated(BOUNDS)?))?;
    let saved = |name: &str| -> Result<SavedFunction, Error> {
        Ok(Persistent::save(ctx, exports.get::<_, Function<'_>>(name)?))
    };
    let functions = Functions {
        run: saved("run")?,
        map: saved("map")?,
        complete: saved("complete")?,
        forget: saved("forget")?,
        described: saved("described")?,
        unusable: saved("unusable")?,
    };
    Ok((exports.get("add")?, functions))
}

/// Compiles a program and runs its top level once.
///
/// # Errors
/// A module cannot be compiled or its top level fails, or an export is no function.
pub fn check(program: &Program) -> Result<(), LoadError> {
    let engine = Engine::new(&[program], DEFAULT_MEMORY).map_err(|error| match error {
        EngineError::Program(fault) => fault,
        EngineError::Setup(message) => LoadError::new(program.name(), 0, message),
    })?;
    engine.watch.start(COMPILE_CPU_LIMIT);
    engine.context.with(|ctx| {
        let unusable: Result<Vec<String>, Error> =
            engine.functions.unusable.clone().restore(&ctx).and_then(|f| f.call((0,)));
        let names = unusable.map_err(|error| fault(&ctx, program, &engine.watch, &error))?;
        names.first().map_or(Ok(()), |name| {
            let message = format!("its export `{name}` is no function");
            Err(LoadError::new(program.name(), 0, message))
        })
    })
}

fn add<'js>(ctx: &Ctx<'js>, add: &Function<'js>, program: &Program) -> Result<(), Error> {
    let mut factories = Vec::with_capacity(program.modules.len());
    for (name, text) in &program.modules {
        let mut options = EvalOptions::default();
        options.filename = Some(name.clone());
        factories.push(ctx.eval_with_options::<Function<'_>, _>(text.as_str(), options)?);
    }
    let names: Vec<&str> = program.exports.iter().map(String::as_str).collect();
    let Settings { shared, config, indent, .. } = &program.settings;
    add.call((factories, names, *shared, config.as_str(), *indent))
}

/// Why a program cannot be compiled.
fn fault(ctx: &Ctx<'_>, program: &Program, watch: &CpuWatchdog, error: &Error) -> LoadError {
    let thrown = ctx.catch();
    if watch.is_stopped() {
        return LoadError::new(program.name(), 0, "its top level takes longer than a second");
    }
    let Some(object) = thrown.as_object() else {
        return LoadError::new(program.name(), 0, format!("its top level throws ({error})"));
    };
    let text = |name: &str| object.get::<_, String>(name).unwrap_or_default();
    let (stack, message) = (text("stack"), format!("{}: {}", text("name"), text("message")));
    let locations = program.modules.iter().filter_map(|(name, _)| {
        let at = stack.find(&format!("{name}:"))?;
        let digits = stack[at + name.len() + 1..].split(|c: char| !c.is_ascii_digit()).next()?;
        Some((at, name, digits.parse().ok()?))
    });
    let first = locations.min_by_key(|(at, ..)| *at);
    let (module, line) = first.map_or((program.name(), 0), |(_, module, line)| (module, line));
    LoadError::new(module, line, message)
}

impl Host {
    /// The response that the prelude has encoded.
    fn response(&self, value: Value<'_>) -> Result<End, Error> {
        if let Some(text) = value.as_string() {
            let body = ScriptBody::Value(text.to_string()?.into_bytes());
            let response = ScriptResponse { status: 200, headers: Vec::new(), body };
            return Ok(End::Response(Box::new(response)));
        }
        let row = Array::from_value(value)?;
        let (kind, status): (u8, u16) = (row.get(0)?, row.get(1)?);
        let mut flat = row.get::<Vec<String>>(2)?.into_iter();
        let headers = std::iter::from_fn(|| flat.next().zip(flat.next())).collect();
        let body = self.body_of(kind, &row)?;
        // A transformation also lists headers to remove.
        let remove: Option<Vec<String>> = row.get(4)?;
        Ok(match (remove, body) {
            (None, body) => {
                let body = body.unwrap_or(ScriptBody::Empty);
                End::Response(Box::new(ScriptResponse { status, headers, body }))
            }
            (Some(remove), body) => End::Changes(Box::new(Changes { set: headers, remove, body })),
        })
    }

    /// The response that the prelude has encoded, or why there is none.
    fn response_or_error(&self, value: Value<'_>) -> End {
        self.response(value).unwrap_or_else(|error| End::Threw(error.to_string()))
    }

    /// The body in a row; none if the body does not change.
    fn body_of(&self, kind: u8, row: &Array<'_>) -> Result<Option<ScriptBody>, Error> {
        let text = || row.get::<String>(3);
        Ok(Some(match kind {
            1 => ScriptBody::Value(text()?.into_bytes()),
            2 => ScriptBody::Text(text()?),
            3 => ScriptBody::Bytes(native::unpacked(&text()?)),
            4 => ScriptBody::Empty,
            5 => ScriptBody::Bytes(self.take_body(row.get(3)?)),
            _ => return Ok(None),
        }))
    }

    /// The end of a call from a thrown value: a description, or a thrown response.
    fn failure(&self, value: Value<'_>) -> End {
        if value.is_array() {
            return self.response_or_error(value);
        }
        let text = String::from_js(&value.ctx().clone(), value).unwrap_or_default();
        // QuickJS throws this name and text when an allocation fails.
        if text.starts_with("InternalError: out of memory") {
            return End::OutOfMemory;
        }
        End::Threw(crate::call::cut(&text, 4096).to_owned())
    }
}
