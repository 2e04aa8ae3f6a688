//! The thread that runs resubmission jobs and persists the outcomes of attempts.

use super::messages::Messages;
use super::thread::{Running, Thread};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use weir_resubmit::{GatewayClient, Resubmitter, Runner};
use weir_server::Gateway;
use weir_store::ledger::Ledger;
use weir_tracker::Index;

/// The thread.
const THREAD: Thread = Thread { name: "resubmit", task: "resubmission:", nice: 0 };
/// Pause after a panic.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Resubmission of a running server.
pub(super) struct Resubmit {
    pub(super) resubmitter: Resubmitter,
    _thread: Running,
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
    let (stop, wake) = (Arc::default(), runner.waker());
    let worker = Worker { runner, stop: Arc::clone(&stop), messages: messages.clone() };
    let thread = THREAD.start(messages, &stop, wake, worker, Worker::run, Worker::recover)?;
    Ok(Resubmit { resubmitter, _thread: thread })
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

/// State of the thread.
struct Worker {
    runner: Runner,
    stop: Arc<AtomicBool>,
    messages: Messages,
}

impl Worker {
    /// Runs jobs.
    fn run(&mut self) {
        let report = |error: &str| self.messages.err(format!("weir: resubmission: {error}"));
        self.runner.run(&self.stop, &report);
    }

    fn recover(&mut self) {
        std::thread::sleep(RETRY_INTERVAL);
    }
}
