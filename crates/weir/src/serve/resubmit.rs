//! The thread that runs resubmission jobs and persists the outcomes of attempts.

use super::handover::predecessor::Ended;
use super::messages::Messages;
use super::thread::{Running, Thread, ThreadContext};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weir_resubmit::{GatewayClient, Resubmitter, Runner};
use weir_server::Gateway;
use weir_store::ledger::Ledger;
use weir_tracker::Index;

/// The thread.
const THREAD: Thread = Thread { name: "resubmit", task: "resubmission:", nice: 0 };
/// Pause after a panic.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Interval of checks whether a predecessor has ended.
const PREDECESSOR_INTERVAL: Duration = Duration::from_millis(50);

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
    predecessor_ended: &Ended,
) -> Option<Resubmit> {
    let off = |error: &_| messages.err(format!("weir: resubmission is unavailable: {error:#}"));
    try_start(data, index, gateway, messages, predecessor_ended).inspect_err(off).ok()
}

fn try_start(
    data: &Path,
    index: &Index,
    gateway: &Arc<Gateway>,
    messages: &Messages,
    predecessor_ended: &Ended,
) -> anyhow::Result<Resubmit> {
    let client = gateway_client(gateway);
    index.set_ledger(Ledger::open(data)?);
    let (resubmitter, runner) = Resubmitter::new(Ledger::open(data)?, index.clone(), client)?;
    let (context, wake) = (ThreadContext::new(messages), runner.waker());
    let run = |(runner, context, predecessor_ended): &mut (Runner, ThreadContext, Ended)| {
        // A predecessor stores the outcomes of its own attempts until it has ended.
        while !predecessor_ended.get() && !context.stopped() {
            std::thread::sleep(PREDECESSOR_INTERVAL);
        }
        runner.run(&context.stop, &|error| context.note(&format!("resubmission: {error}")));
    };
    let recover = |_: &mut _| std::thread::sleep(RETRY_INTERVAL);
    let state = (runner, context.clone(), predecessor_ended.clone());
    let thread = THREAD.start(&context, wake, state, run, recover)?;
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
