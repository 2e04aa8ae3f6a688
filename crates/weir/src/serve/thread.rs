//! Background threads: restart after a panic, stop and join.
//!
//! If a follower of the journal stopped, the journal would keep all unread records until it is full.
//! Therefore a panic does not end a thread.

use super::messages::Messages;
use super::post::Upstreams;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::Notify;

/// Properties of a thread.
pub(super) struct Thread {
    pub(super) name: &'static str,
    /// Its task, as in messages.
    pub(super) task: &'static str,
    /// Nice value relative to a worker.
    pub(super) nice: i32,
}

/// A running thread. On drop it is stopped, and its end is awaited.
pub(super) struct Running {
    stop: Arc<AtomicBool>,
    wake: Box<dyn Fn() + Send + Sync>,
    thread: Option<JoinHandle<()>>,
}

/// The stop signal and the messages of a thread.
#[derive(Clone)]
pub(super) struct ThreadContext {
    pub(super) stop: Arc<AtomicBool>,
    messages: Messages,
    pub(super) failing: bool,
}

impl ThreadContext {
    pub(super) fn new(messages: &Messages) -> Self {
        Self { stop: Arc::default(), messages: messages.clone(), failing: false }
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Writes a message.
    pub(super) fn note(&self, text: &str) {
        self.messages.err(format!("weir: {text}"));
    }

    /// Writes a message about a failure: once, until the next success.
    pub(super) fn failed(&mut self, text: &str) {
        if !std::mem::replace(&mut self.failing, true) {
            self.note(text);
        }
    }

    pub(super) fn succeeded(&mut self) {
        self.failing = false;
    }
}

impl Thread {
    /// Starts the thread: it calls `run`, which ends when the context is stopped; after a panic,
    /// `recover` and `run` again. `wake` ends a pause, unless the thread is parked.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start<S: Send + 'static>(
        &self,
        context: &ThreadContext,
        wake: impl Fn() + Send + Sync + 'static,
        mut state: S,
        run: fn(&mut S),
        recover: fn(&mut S),
    ) -> std::io::Result<Running> {
        report_panics(context.messages.clone(), self.name);
        let (stop, context) = (Arc::clone(&context.stop), context.clone());
        let Self { name, task, nice } = *self;
        let body = move || {
            // Without permission the priority stays.
            let _ = rustix::process::nice(nice);
            loop {
                let ended = catch_unwind(AssertUnwindSafe(|| run(&mut state)));
                if ended.is_ok() || context.stopped() {
                    return;
                }
                context.note(&format!("{task} panicked; restarting"));
                recover(&mut state);
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Running { stop, wake: Box::new(wake), thread: Some(thread) })
    }
}

impl Thread {
    /// The same for a task that waits in a runtime of its own.
    ///
    /// # Errors
    /// The runtime or the thread cannot be started.
    pub(super) fn start_async<S: Send + 'static>(
        &self,
        context: &ThreadContext,
        wake: impl Fn() + Send + Sync + 'static,
        state: S,
        run: impl AsyncFn(&mut S) + Send + 'static,
        recover: fn(&mut S),
    ) -> std::io::Result<Running> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        self.start(
            context,
            wake,
            (state, runtime, run, recover),
            |(state, runtime, run, _)| runtime.block_on(run(state)),
            |(state, _, _, recover)| recover(state),
        )
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        (self.wake)();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic has been reported already.
            let _ = thread.join();
        }
    }
}

/// Reports panics of a thread as messages, with their location only: their text may contain a part of
/// a payload.
fn report_panics(messages: Messages, thread: &'static str) {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let location = panic.location().filter(|_| std::thread::current().name() == Some(thread));
        match location {
            Some(location) => messages.err(format!("weir: {thread} panicked at {location}")),
            None => default(panic),
        }
    }));
}

/// The current Config of a thread with its TLS, and the notification of its changes.
pub(super) struct Settings {
    upstreams: Mutex<Upstreams>,
    pub(super) changed: Notify,
}

impl Settings {
    pub(super) fn new(upstreams: &Upstreams) -> Self {
        Self { upstreams: Mutex::new(upstreams.clone()), changed: Notify::new() }
    }

    /// Applies a new Config.
    pub(super) fn reload(&self, upstreams: &Upstreams) {
        *self.upstreams.lock().unwrap_or_else(PoisonError::into_inner) = upstreams.clone();
        self.changed.notify_one();
    }

    pub(super) fn upstreams(&self) -> Upstreams {
        self.upstreams.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
