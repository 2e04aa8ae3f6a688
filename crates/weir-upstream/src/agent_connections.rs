//! The leases of agents, and the idle connections of a worker to agents.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::mpsc;
use weir_broker::{AgentId, CgiProcess, InvalidationQueue, Lease, Outcome};
use weir_http::stream::Stream;

/// The lease of the agent of a connection; released on drop.
pub struct LeaseGuard {
    connections: &'static AgentConnections,
    lease: Option<Lease>,
    /// Some if the agent is a process for one request.
    process: Option<Box<CgiProcess>>,
}

impl std::fmt::Debug for LeaseGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaseGuard").field("lease", &self.lease).finish_non_exhaustive()
    }
}

impl LeaseGuard {
    /// Creates a guard of `lease`.
    pub fn new(
        connections: &'static AgentConnections,
        lease: Lease,
        process: Option<CgiProcess>,
    ) -> Self {
        Self { connections, lease: Some(lease), process: process.map(Box::new) }
    }

    /// The lease, until its release.
    pub fn lease(&mut self) -> Option<&mut Lease> {
        self.lease.as_mut()
    }

    /// Releases the agent of a connection that was closed without a byte of a response. Returns
    /// whether the agent exited normally, so that another one may get the request.
    pub(crate) async fn has_exited(&mut self) -> bool {
        match self.lease.take() {
            Some(lease) if self.process.is_none() => lease.has_exited().await,
            lease => {
                self.lease = lease;
                false
            }
        }
    }

    /// The response is complete, and the connection can be reused.
    pub(crate) fn check_in(mut self, stream: Stream) {
        if self.process.is_some() {
            return self.close();
        }
        if let Some(lease) = self.lease.take() {
            let agent = lease.agent();
            if lease.release(Outcome::Keep) {
                self.connections.check_in(agent, stream);
            }
        }
    }

    /// The response is complete, but the connection cannot be reused.
    pub fn close(mut self) {
        self.end(Outcome::Close);
    }

    /// The connection was lost: the agent is probed.
    pub(crate) fn probe(mut self) {
        self.end(Outcome::Check);
    }

    /// The agent violates the protocol or a timeout: it is killed.
    pub(crate) fn kill(mut self) {
        self.end(Outcome::Kill);
    }

    fn end(&mut self, outcome: Outcome) {
        let Some(lease) = self.lease.take() else { return };
        match self.process.take() {
            None => {
                let _ = lease.release(outcome);
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

/// A process that is exiting, and its lease, which is released afterwards.
struct Exiting {
    process: Box<CgiProcess>,
    lease: Lease,
    outcome: Outcome,
}

/// Idle connections of a worker to agents, and exiting processes.
pub struct AgentConnections {
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
    fn check_in(&self, agent: AgentId, stream: Stream) {
        stream.watch_while_idle();
        self.streams.borrow_mut().insert(agent, stream);
    }

    /// The idle connection to an agent, if it is still open.
    pub fn check_out(&self, agent: AgentId) -> Option<Stream> {
        let stream = self.streams.borrow_mut().remove(&agent)?;
        stream.is_quiet().then_some(stream)
    }

    /// Evicts connections to agents that other workers have leased, or that have exited, and reaps
    /// processes.
    pub async fn tend(&self, invalidations: Arc<InvalidationQueue>) {
        let Some(mut exits) = self.exits.borrow_mut().take() else { return };
        loop {
            tokio::select! {
                lost = invalidations.receive() => {
                    let mut streams = self.streams.borrow_mut();
                    for agent in lost {
                        streams.remove(&agent);
                    }
                }
                Some(Exiting { process, lease, outcome }) = exits.recv() => {
                    tokio::task::spawn_local(async move {
                        process.finish(outcome == Outcome::Close).await;
                        let _ = lease.release(outcome);
                    });
                }
            }
        }
    }

    /// Bounded by the sizes of pools: each process has a lease.
    fn reap(&self, exiting: Exiting) {
        // The receiver is gone when the worker ends: dropping the process kills it.
        let _ = self.exiting.send(exiting);
    }
}
