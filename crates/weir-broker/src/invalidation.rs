//! Connections that a worker has to close, as their agents exited or belong to another worker now.

use crate::agent::AgentId;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// The queue of one worker. Bounded by its connections: an agent is pushed once.
#[derive(Debug, Default)]
pub struct InvalidationQueue {
    agents: Mutex<Vec<AgentId>>,
    arrived: Notify,
}

impl InvalidationQueue {
    /// Waits for agents whose connections are to be closed.
    pub async fn receive(&self) -> Vec<AgentId> {
        loop {
            let arrived = self.arrived.notified();
            let agents =
                std::mem::take(&mut *self.agents.lock().unwrap_or_else(PoisonError::into_inner));
            if !agents.is_empty() {
                return agents;
            }
            arrived.await;
        }
    }

    pub(crate) fn push(&self, agent: AgentId) {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner).push(agent);
        self.arrived.notify_one();
    }
}
