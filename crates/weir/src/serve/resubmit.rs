//! The thread that runs resubmission jobs and persists the outcomes of attempts.

use super::messages::Messages;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_resubmit::{GatewayClient, Resubmitter, Runner};
use weir_server::Gateway;
use weir_store::ledger::Ledger;
use weir_tracker::Index;

/// Name of the thread.
const THREAD: &str = "resubmit";
/// Pause after a panic.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Resubmission of a running server.
pub(super) struct Resubmit {
    pub(super) resubmitter: Resubmitter,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    wake: Box<dyn Fn() + Send + Sync>,
}

/// Starts the thread. If its database cannot be opened, traffic is served and resubmission is off.
pub(super) fn start(
    data: &Path,
    index: &Index,
    gateway: &Arc<Gateway>,
    messages: &Messages,
) -> Option<Resubmit> {
    match try_start(data, index, gateway, messages) {
        Ok(started) => Some(started),
        Err(error) => {
            messages.err(format!("weir: resubmission is unavailable: {error:#}"));
            None
        }
    }
}

fn try_start(
    data: &Path,
    index: &Index,
    gateway: &Arc<Gateway>,
    messages: &Messages,
) -> anyhow::Result<Resubmit> {
    let client = gateway_client(gateway);
    index.set_ledger(Ledger::open(data)?);
    let (resubmitter, runner) = Resubmitter::new(Ledger::open(data)?, index.clone(), client)?;
    let (stop, wake) = (Arc::new(AtomicBool::new(false)), runner.waker());
    let run = {
        let (stop, messages) = (Arc::clone(&stop), messages.clone());
        move || run(runner, &stop, &messages)
    };
    let thread = std::thread::Builder::new().name(THREAD.to_owned()).spawn(run)?;
    Ok(Resubmit { resubmitter, thread: Some(thread), stop, wake })
}

/// Access to the data path.
fn gateway_client(gateway: &Arc<Gateway>) -> GatewayClient {
    let (config, check, send) = (Arc::clone(gateway), Arc::clone(gateway), Arc::clone(gateway));
    GatewayClient {
        config: Box::new(move || config.config()),
        check: Box::new(move |request| check.would_resubmit(request)),
        send: Box::new(move |request, on_done| send.resubmit(request, on_done)),
    }
}

/// Runs jobs; restarts after a panic.
fn run(mut runner: Runner, stop: &AtomicBool, messages: &Messages) {
    let report = |error: &str| messages.err(format!("weir: resubmission: {error}"));
    loop {
        let work = || runner.run(stop, &report);
        let ended = catch_unwind(AssertUnwindSafe(work));
        if ended.is_ok() || stop.load(Ordering::Relaxed) {
            return;
        }
        report("panicked; restarting");
        std::thread::sleep(RETRY_INTERVAL);
    }
}

impl Drop for Resubmit {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        (self.wake)();
        if let Some(thread) = self.thread.take() {
            // A panic has been reported already.
            let _ = thread.join();
        }
    }
}
