//! An agent: a process, or a connection to a process that weir did not start.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;
use tokio::sync::{Notify, watch};
use weir_model::pool::AgentAddress;

/// Identifies an agent; never reused within a process of weir.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(pub(crate) u64);

/// State of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Not yet responded for the first time.
    Starting,
    /// Idle; with the worker that has a connection to it.
    Available(Option<usize>),
    /// Processing a request.
    Busy,
    /// Gets no more requests.
    Locked,
}

#[derive(Debug)]
pub(crate) struct Agent {
    pub(crate) phase: Phase,
    pub(crate) address: Option<Arc<AgentAddress>>,
    pub(crate) served: u64,
    pub(crate) started: Instant,
    /// When the phase began.
    pub(crate) since: Instant,
    /// It has responded over this connection.
    pub(crate) has_responded: bool,
    /// It uses too much memory: to be stopped when idle.
    pub(crate) over_memory: bool,
    pub(crate) generation: u32,
    pub(crate) pid: Option<u32>,
    pub(crate) control: Arc<AgentControl>,
}

/// Command of the pool to an agent's supervisor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AgentCommand {
    #[default]
    None,
    /// Check its health.
    Check,
    /// Let it exit by itself.
    Stop,
    /// Kill it.
    Kill,
}

/// Result of the health check of an agent whose request was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Health {
    Unknown,
    /// It runs and responds.
    Healthy,
    /// It exited cleanly, as programs do that exit after a number of requests.
    Ended,
    Crashed,
}

/// The channel between a pool and the supervisor of an agent: commands, of which a stronger one
/// replaces a weaker one, and the agent's health.
#[derive(Debug, Default)]
pub(crate) struct AgentControl {
    command: watch::Sender<AgentCommand>,
    health: AtomicU8,
    reported: Notify,
}

impl AgentControl {
    pub(crate) fn send(&self, command: AgentCommand) {
        self.command.send_modify(|current| *current = command.max(*current));
    }

    /// Waits for a command of at least this strength. A check is removed with it.
    pub(crate) async fn receive(&self, minimum: AgentCommand) -> AgentCommand {
        let mut commands = self.command.subscribe();
        let _ = commands.wait_for(|command| *command >= minimum).await;
        let mut received = AgentCommand::None;
        self.command.send_if_modified(|command| {
            received = *command;
            let is_check = *command == AgentCommand::Check;
            if is_check {
                *command = AgentCommand::None;
            }
            is_check
        });
        received
    }

    /// The agent gets a request: its health is unknown from now on.
    pub(crate) fn reset_health(&self) {
        self.health.store(Health::Unknown as u8, Ordering::Release);
    }

    pub(crate) fn report(&self, health: Health) {
        self.health.store(health as u8, Ordering::Release);
        self.reported.notify_one();
    }

    /// Waits until the health is known.
    pub(crate) async fn health(&self) -> Health {
        loop {
            let reported = self.reported.notified();
            match self.health.load(Ordering::Acquire) {
                0 => reported.await,
                1 => return Health::Healthy,
                2 => return Health::Ended,
                _ => return Health::Crashed,
            }
        }
    }

    pub(crate) fn current(&self) -> AgentCommand {
        *self.command.borrow()
    }
}
