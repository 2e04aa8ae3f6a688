//! Holders of engines: a worker, or a separate thread. Both replace an engine that has died.

use super::plan::ScriptPlan;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use tokio::sync::{Notify, oneshot};
use weir_http::problem::Problem;
use weir_module::Program;
use weir_script::{CallId, Engine, EngineError, OpId, Outcome, Request, Step};

/// The engine of a worker.
#[derive(Debug, Default)]
pub(crate) struct EngineSlot {
    /// `None` without scripts, or if no engine could be created.
    engine: RefCell<Option<Engine>>,
    programs: Vec<Arc<Program>>,
    memory: usize,
    /// Number of engines created.
    generation: Cell<u64>,
    /// Notified when an engine has died.
    died: Notify,
}

impl EngineSlot {
    /// Creates an engine for the scripts of a plan.
    pub(crate) fn new(plan: &ScriptPlan) -> Self {
        let (programs, memory) = (plan.programs.clone(), plan.memory);
        let slot = Self { programs, memory, ..Self::default() };
        slot.make();
        slot
    }

    /// Whether the engine can be used for this plan.
    pub(crate) fn serves(&self, plan: &ScriptPlan) -> bool {
        self.programs == plan.programs && self.memory == plan.memory
    }

    fn make(&self) {
        if !self.programs.is_empty() {
            *self.engine.borrow_mut() = Engine::new(&self.programs, self.memory).ok();
        }
    }

    pub(crate) fn begin(
        &self,
        program: usize,
        export: usize,
        request: Request,
    ) -> Result<(u64, Step), Problem> {
        if self.engine.borrow().is_none() {
            self.make();
        }
        let generation = self.generation.get();
        let step = match self.engine.borrow_mut().as_mut() {
            Some(engine) => engine.start(program, export, request),
            None => return Err(Problem::ScriptMemory),
        };
        self.replace_dead();
        Ok((generation, step))
    }

    /// `None` if the call has ended, or its engine has died.
    pub(crate) fn resume(
        &self,
        generation: u64,
        call: CallId,
        op: OpId,
        outcome: Outcome,
    ) -> Option<Step> {
        if self.is_dead(generation) {
            return None;
        }
        let step = self.engine.borrow_mut().as_mut()?.resume(call, op, outcome);
        self.replace_dead();
        step
    }

    pub(crate) fn cancel(&self, generation: u64, call: CallId) {
        if !self.is_dead(generation)
            && let Some(engine) = self.engine.borrow_mut().as_mut()
        {
            engine.cancel(call);
        }
    }

    /// Whether the engine of this generation has died.
    pub(crate) fn is_dead(&self, generation: u64) -> bool {
        self.generation.get() != generation
    }

    /// Ready at the next death of an engine.
    pub(crate) fn death(&self) -> tokio::sync::futures::Notified<'_> {
        self.died.notified()
    }

    fn replace_dead(&self) {
        if self.engine.borrow().as_ref().is_some_and(Engine::is_dead) {
            // Frees the memory of the old engine first.
            *self.engine.borrow_mut() = None;
            self.make();
            self.generation.set(self.generation.get() + 1);
            self.died.notify_waiters();
        }
    }
}

/// Maximum number of concurrent calls on a thread; further ones are rejected.
const MAX_CALLS: usize = 64;

/// A thread with an engine for one script.
#[derive(Debug)]
pub(crate) struct Thread {
    program: Arc<Program>,
    memory: usize,
    commands: SyncSender<Command>,
    calls: AtomicUsize,
}

pub(crate) enum Command {
    Begin {
        export: usize,
        request: Box<Request>,
        reply: oneshot::Sender<(u64, Step)>,
    },
    /// The reply is dropped after the end of the call.
    Resume {
        generation: u64,
        call: CallId,
        op: OpId,
        outcome: Outcome,
        reply: oneshot::Sender<Step>,
    },
    Cancel {
        generation: u64,
        call: CallId,
    },
}

/// A permit for a call on a thread.
pub(crate) struct CallPermit<'t>(&'t Thread);

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Relaxed);
    }
}

impl Thread {
    pub(crate) fn start(program: &Arc<Program>, memory: usize) -> Result<Self, EngineError> {
        // A call has one command at a time, and a last one that cancels it.
        let (commands, receiver) = sync_channel(4 * MAX_CALLS);
        let program = Arc::clone(program);
        let calls = AtomicUsize::new(0);
        let thread = Self { program: Arc::clone(&program), memory, commands, calls };
        let (made, is_made) = sync_channel(1);
        std::thread::Builder::new()
            .name("script".to_owned())
            .spawn(move || {
                let slot = EngineSlot { programs: vec![program], memory, ..EngineSlot::default() };
                let tried = Engine::new(&slot.programs, slot.memory).map(|engine| {
                    *slot.engine.borrow_mut() = Some(engine);
                });
                let go_on = tried.is_ok();
                let _ = made.send(tried);
                if go_on {
                    serve(&slot, &receiver);
                }
            })
            .map_err(|error| EngineError::Setup(error.to_string()))?;
        let lost = || EngineError::Setup("the script thread has ended".to_owned());
        is_made.recv().map_err(|_| lost())??;
        Ok(thread)
    }

    pub(crate) fn runs(&self, program: &Program, memory: usize) -> bool {
        *self.program == *program && self.memory == memory
    }

    /// A permit for a call, if the maximum is not reached.
    pub(crate) fn permit(&self) -> Option<CallPermit<'_>> {
        let before = self.calls.fetch_add(1, Relaxed);
        let permit = CallPermit(self);
        (before < MAX_CALLS).then_some(permit)
    }

    /// Sends a command; the queue has room for the commands of all calls.
    pub(crate) fn send(&self, command: Command) -> bool {
        self.commands.try_send(command).is_ok()
    }
}

/// Runs until the thread is dropped.
fn serve(slot: &EngineSlot, commands: &Receiver<Command>) {
    for command in commands {
        match command {
            Command::Begin { export, request, reply } => {
                if reply.is_closed() {
                    continue;
                }
                let Ok((generation, step)) = slot.begin(0, export, *request) else { continue };
                if let Err((generation, step)) = reply.send((generation, step)) {
                    slot.cancel(generation, step.call);
                }
            }
            Command::Resume { generation, call, op, outcome, reply } => {
                if let Some(step) = slot.resume(generation, call, op, outcome) {
                    let _ = reply.send(step);
                }
            }
            Command::Cancel { generation, call } => slot.cancel(generation, call),
        }
    }
}
