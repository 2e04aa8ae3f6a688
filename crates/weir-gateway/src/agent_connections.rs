//! Connections to agents of pools, as one worker has them: kept between requests, and given back
//! with the lease.

use crate::stream::Stream;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::mpsc;
use weir_broker::{AgentId, CgiProcess, Lease, Mailbox, Outcome};

/// What a connection holds of its agent; given back when dropped.
pub(crate) struct LeaseGuard {
    connections: &'static AgentConnections,
    lease: Option<Lease>,
    /// There if the agent is a process for this request alone.
    process: Option<Box<CgiProcess>>,
}

impl std::fmt::Debug for LeaseGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaseGuard").field("lease", &self.lease).finish_non_exhaustive()
    }
}

impl LeaseGuard {
    pub(crate) fn new(
        connections: &'static AgentConnections,
        lease: Lease,
        process: Option<CgiProcess>,
    ) -> Self {
        Self { connections, lease: Some(lease), process: process.map(Box::new) }
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
                self.connections.put(agent, stream);
            }
        }
    }

    /// The answer is whole, the connection is not to be used again.
    pub(crate) fn close(mut self) {
        self.end(Outcome::Close);
    }

    /// The connection broke: the agent is probed.
    pub(crate) fn probe(mut self) {
        self.end(Outcome::Check);
    }

    /// The agent does not answer as it should.
    pub(crate) fn kill(mut self) {
        self.end(Outcome::Kill);
    }

    fn end(&mut self, outcome: Outcome) {
        let Some(lease) = self.lease.take() else { return };
        match self.process.take() {
            None => {
                let _ = lease.settle(outcome);
            }
            Some(process) => self.connections.reap(Exiting { process, lease, outcome }),
        }
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.end(Outcome::Check);
        }
    }
}

/// A process that is to end, and the place that is free then.
struct Exiting {
    process: Box<CgiProcess>,
    lease: Lease,
    outcome: Outcome,
}

/// Connections of a worker to agents that have no request, and processes that are to end.
pub(crate) struct AgentConnections {
    streams: RefCell<HashMap<AgentId, Stream>>,
    exiting: mpsc::UnboundedSender<Exiting>,
    exits: RefCell<Option<mpsc::UnboundedReceiver<Exiting>>>,
}

impl Default for AgentConnections {
    fn default() -> Self {
        let (exiting, exits) = mpsc::unbounded_channel();
        let exits = RefCell::new(Some(exits));
        Self { streams: RefCell::default(), exiting, exits }
    }
}

impl AgentConnections {
    fn put(&self, agent: AgentId, stream: Stream) {
        self.streams.borrow_mut().insert(agent, stream);
    }

    /// The connection that is kept to an agent, if it is still good.
    pub(crate) fn take(&self, agent: AgentId) -> Option<Stream> {
        let stream = self.streams.borrow_mut().remove(&agent)?;
        stream.is_quiet().then_some(stream)
    }

    /// Closes connections to agents that others have now, or that have ended, and reaps processes.
    pub(crate) async fn tend(&self, mailbox: Arc<Mailbox>) {
        let Some(mut exits) = self.exits.borrow_mut().take() else { return };
        loop {
            tokio::select! {
                lost = mailbox.lost() => {
                    let mut streams = self.streams.borrow_mut();
                    for agent in lost {
                        streams.remove(&agent);
                    }
                }
                Some(Exiting { process, lease, outcome }) = exits.recv() => {
                    tokio::task::spawn_local(async move {
                        process.finish(outcome == Outcome::Close).await;
                        let _ = lease.settle(outcome);
                    });
                }
            }
        }
    }

    /// Bounded by the places of pools: each of these holds one.
    fn reap(&self, exiting: Exiting) {
        // It is not received when the worker is ending: dropped, the process is killed.
        let _ = self.exiting.send(exiting);
    }
}
