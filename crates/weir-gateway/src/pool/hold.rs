//! A leased agent, from the side of the connection to it.

use crate::stream::Stream;
use crate::upstream::Failed;
use crate::worker::Worker;
use std::cell::RefCell;
use std::collections::HashMap;
use tokio::sync::mpsc;
use weir_broker::{AgentId, CgiProcess, Lease, Outcome};

/// What a connection holds of its agent; given back when dropped.
pub(crate) struct Hold {
    worker: &'static Worker,
    lease: Option<Lease>,
    /// There if the agent is a process for this request alone.
    process: Option<Box<CgiProcess>>,
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold").field("lease", &self.lease).finish_non_exhaustive()
    }
}

impl Hold {
    pub(crate) fn new(worker: &'static Worker, lease: Lease, process: Option<CgiProcess>) -> Self {
        Self { worker, lease: Some(lease), process: process.map(Box::new) }
    }

    pub(crate) fn lease(&mut self) -> Option<&mut Lease> {
        self.lease.as_mut()
    }

    /// Gives the agent back whose connection was lost without a word of an answer; whether it has
    /// ended in order, so that another one may have the request.
    pub(crate) async fn has_ended(&mut self) -> bool {
        match self.lease.take() {
            Some(lease) if self.process.is_none() => lease.has_ended().await,
            lease => {
                self.lease = lease;
                false
            }
        }
    }

    /// The answer is whole, and the connection may carry another request.
    pub(crate) fn keep(mut self, stream: Stream) {
        if self.process.is_some() {
            return self.close();
        }
        if let Some(lease) = self.lease.take() {
            let agent = lease.agent();
            if lease.settle(Outcome::Keep) {
                self.worker.agents.put(agent, stream);
            }
        }
    }

    /// The answer is whole, the connection is not to be used again.
    pub(crate) fn close(mut self) {
        self.end(Outcome::Close);
    }

    /// The answer did not come as it should.
    pub(crate) fn failed(mut self, how: Failed) {
        self.end(match how {
            Failed::Closed => Outcome::Check,
            Failed::Garbage | Failed::Late => Outcome::Kill,
        });
    }

    fn end(&mut self, outcome: Outcome) {
        let Some(lease) = self.lease.take() else { return };
        match self.process.take() {
            None => {
                let _ = lease.settle(outcome);
            }
            Some(process) => self.worker.agents.see_off(Departing { process, lease, outcome }),
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.end(Outcome::Check);
        }
    }
}

/// A process that is to end, and the place that is free then.
struct Departing {
    process: Box<CgiProcess>,
    lease: Lease,
    outcome: Outcome,
}

/// What a worker keeps of agents between requests.
pub(crate) struct Kept {
    streams: RefCell<HashMap<AgentId, Stream>>,
    departing: mpsc::UnboundedSender<Departing>,
    departures: RefCell<Option<mpsc::UnboundedReceiver<Departing>>>,
}

impl Default for Kept {
    fn default() -> Self {
        let (departing, departures) = mpsc::unbounded_channel();
        let departures = RefCell::new(Some(departures));
        Self { streams: RefCell::default(), departing, departures }
    }
}

impl Kept {
    fn put(&self, agent: AgentId, stream: Stream) {
        self.streams.borrow_mut().insert(agent, stream);
    }

    /// The connection that is kept to an agent, if it is still good.
    pub(crate) fn take(&self, agent: AgentId) -> Option<Stream> {
        let stream = self.streams.borrow_mut().remove(&agent)?;
        stream.is_quiet().then_some(stream)
    }

    /// Bounded by the places of pools: each of these holds one.
    fn see_off(&self, departing: Departing) {
        // Nobody sees it off when the worker is ending: dropped, the process is killed.
        let _ = self.departing.send(departing);
    }
}

/// Closes connections to agents that others have now, or that have ended, and sees processes off.
pub(crate) async fn forget_lost(worker: &'static Worker) {
    let Some(mut departures) = worker.agents.departures.borrow_mut().take() else { return };
    let mailbox = worker.shared.broker.mailbox(worker.index);
    loop {
        tokio::select! {
            lost = mailbox.lost() => {
                let mut streams = worker.agents.streams.borrow_mut();
                for agent in lost {
                    streams.remove(&agent);
                }
            }
            Some(Departing { process, lease, outcome }) = departures.recv() => {
                tokio::task::spawn_local(async move {
                    process.finish(outcome == Outcome::Close).await;
                    let _ = lease.settle(outcome);
                });
            }
        }
    }
}
