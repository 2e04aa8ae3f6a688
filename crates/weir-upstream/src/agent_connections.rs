//! The leases of agents, and the connections that a worker keeps to agents between requests.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::mpsc;
use weir_broker::{AgentId, CgiProcess, InvalidationQueue, Lease, Outcome};
use weir_http::stream::Stream;

/// The lease of the agent at the other end of a connection; released when dropped.
pub struct LeaseGuard {
    connections: &'static AgentConnections,
    lease: Option<Lease>,
    /// There if the agent is a process for one request.
    process: Option<Box<CgiProcess>>,
}

impl std::fmt::Debug for LeaseGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LeaseGuard").field("lease", &self.lease).finish_non_exhaustive()
    }
}

impl LeaseGuard {
    /// Guards `lease`.
    pub fn new(
        connections: &'static AgentConnections,
        lease: Lease,
        process: Option<CgiProcess>,
    ) -> Self {
        Self { connections, lease: Some(lease), process: process.map(Box::new) }
    }

    /// The lease, until it is released.
    pub fn lease(&mut self) -> Option<&mut Lease> {
        self.lease.as_mut()
    }

    /// Releases the agent whose connection closed without a byte of a response; whether it has ended
    /// in order, so that another one may have the request.
    pub(crate) async fn has_exited(&mut self) -> bool {
        match self.lease.take() {
            Some(lease) if self.process.is_none() => lease.has_exited().await,
            lease => {
                self.lease = lease;
                false
            }
        }
    }

    /// The response is complete, and the connection may carry another request.
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

    /// The response is complete, the connection cannot be reused.
    pub fn close(mut self) {
        self.end(Outcome::Close);
    }

    /// The connection broke: the agent is probed.
    pub(crate) fn probe(mut self) {
        self.end(Outcome::Check);
    }

    /// The agent does not respond as it should.
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

/// A process that is to end, and its lease, which ends with it.
struct Exiting {
    process: Box<CgiProcess>,
    lease: Lease,
    outcome: Outcome,
}

/// Connections of a worker to agents that have no request, and processes that are to end.
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
        self.streams.borrow_mut().insert(agent, stream);
    }

    /// The connection that is kept to an agent, if it is still open.
    pub fn check_out(&self, agent: AgentId) -> Option<Stream> {
        let stream = self.streams.borrow_mut().remove(&agent)?;
        stream.is_quiet().then_some(stream)
    }

    /// Evicts connections to agents that other workers have leased, or that have ended, and reaps
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

    /// Bounded by the sizes of pools: each of these has a lease.
    fn reap(&self, exiting: Exiting) {
        // It is not received when the worker is ending: dropped, the process is killed.
        let _ = self.exiting.send(exiting);
    }
}
