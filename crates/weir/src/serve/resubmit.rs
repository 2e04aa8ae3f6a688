//! The thread that runs resubmission jobs and persists the outcomes of attempts.

use super::handover::predecessor::Ended;
use super::jobs;
use super::messages::Messages;
use super::thread::{Running, Thread, ThreadContext};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use weir_fleet::Handle;
use weir_fleet::claim::{Blocker, JobClaim};
use weir_model::RejectionReason;
use weir_resubmit::{
    Claim, Claims, GatewayClient, JobPart, NewResolution, Resubmitter, Runner, SingleNode,
};
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
    /// Jobs of the fleet. Ends first.
    _jobs: Option<Running>,
    _thread: Running,
}

/// Starts the thread. If its database cannot be opened, traffic is served and resubmission is off.
pub(super) fn start(
    data: &Path,
    (index, fleet): (&Index, Option<&Handle>),
    gateway: &Arc<Gateway>,
    messages: &Messages,
    predecessor_ended: &Ended,
) -> Option<Resubmit> {
    let off = |error: &_| messages.err(format!("weir: resubmission is unavailable: {error:#}"));
    try_start(data, (index, fleet), gateway, messages, predecessor_ended).inspect_err(off).ok()
}

fn try_start(
    data: &Path,
    (index, fleet): (&Index, Option<&Handle>),
    gateway: &Arc<Gateway>,
    messages: &Messages,
    predecessor_ended: &Ended,
) -> anyhow::Result<Resubmit> {
    let client = gateway_client(gateway);
    let claims: Box<dyn Claims> = match fleet {
        Some(fleet) => Box::new(FleetClaims(fleet.clone())),
        None => Box::new(SingleNode),
    };
    index.set_ledger(Ledger::open(data)?);
    let (resubmitter, runner) =
        Resubmitter::new(Ledger::open(data)?, index.clone(), client, claims)?;
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
    let jobs = fleet.map(|fleet| jobs::start(fleet, &resubmitter, messages)).transpose()?;
    Ok(Resubmit { resubmitter, _jobs: jobs, _thread: thread })
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

/// Claims in the database of the fleet.
#[derive(Debug)]
struct FleetClaims(Handle);

impl Claims for FleetClaims {
    fn claim(
        &self,
        attempts: &[Claim],
        job: Option<&JobPart>,
    ) -> Result<Vec<Option<RejectionReason>>, String> {
        let claim = |one: &Claim| weir_fleet::claim::Claim {
            attempt: Uuid::from_u128(one.attempt),
            original: Uuid::from_u128(one.original),
            who: one.who.clone(),
            again: one.again,
        };
        let part = |one: &JobPart| JobClaim {
            job: one.job,
            epoch: one.epoch,
            rejected: one
                .rejected
                .iter()
                .map(|(id, reason)| (Uuid::from_u128(*id), reason.clone()))
                .collect(),
        };
        let claimed = self.0.claim(attempts.iter().map(claim).collect(), job.map(part));
        let blockers = claimed.map_err(|error| error.to_string())?;
        let reason = |blocker| match blocker {
            Blocker::Sending | Blocker::NotPending => RejectionReason::Sending,
            Blocker::Unknown => RejectionReason::Unknown,
            Blocker::Settled => RejectionReason::Settled,
            Blocker::Newer => RejectionReason::NewerAttempt,
        };
        Ok(blockers.into_iter().map(|blocker| blocker.map(reason)).collect())
    }

    fn resolve(&self, new: &NewResolution) -> Result<Option<i64>, String> {
        let set = self.0.resolve(weir_fleet::resolutions::NewResolution {
            transaction: Uuid::from_u128(new.transaction),
            state: new.state,
            who: new.who.clone(),
            comment: new.comment.clone(),
            at: new.at,
            after: new.after,
        });
        set.map(Some).map_err(|error| error.to_string())
    }
}
