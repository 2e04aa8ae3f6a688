//! What a worker is told: connections that it keeps for agents that it has lost.

use crate::pool::AgentId;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

/// One worker's. Bounded by the connections it keeps: an agent is told of once.
#[derive(Debug, Default)]
pub struct Mailbox {
    lost: Mutex<Vec<AgentId>>,
    arrived: Notify,
}

impl Mailbox {
    /// Waits for agents whose connections are to be closed.
    pub async fn lost(&self) -> Vec<AgentId> {
        loop {
            let arrived = self.arrived.notified();
            let lost =
                std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner));
            if !lost.is_empty() {
                return lost;
            }
            arrived.await;
        }
    }

    pub(crate) fn tell(&self, agent: AgentId) {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner).push(agent);
        self.arrived.notify_one();
    }
}
