//! One agent, or one place for a connection to somebody else's.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;
use tokio::sync::Notify;
use weir_config::AgentAddress;

/// An agent of a process; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AgentId(pub(crate) u64);

impl std::fmt::Display for AgentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What an agent is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has not answered for the first time yet.
    Starting,
    /// It waits for a request; the worker that has a connection to it.
    Available(Option<usize>),
    /// It has a request.
    Busy,
    /// It takes no more.
    Locked,
}

#[derive(Debug)]
pub(super) struct Agent {
    pub(super) phase: Phase,
    pub(super) address: Option<Arc<AgentAddress>>,
    pub(super) served: u64,
    pub(super) started: Instant,
    /// When it came into its phase.
    pub(super) since: Instant,
    /// It has answered over this connection.
    pub(super) proven: bool,
    /// It is to go when it can: too large.
    pub(super) spent: bool,
    pub(super) generation: u32,
    pub(super) pid: Option<u32>,
    pub(super) orders: Arc<Orders>,
}

/// What an agent's supervisor is to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Order {
    None,
    /// Find out whether it is still well.
    Check,
    /// Have it end by itself.
    Stop,
    /// End it.
    Kill,
}

/// What has become of an agent whose request was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Fate {
    Unknown,
    /// It is still there, and well.
    Well,
    /// It has ended in order, as programs do that end after so many requests.
    Ended,
    Crashed,
}

/// What goes between an agent's supervisor and the rest: orders to it, of which a heavier one
/// replaces a lighter one, and word of what has become of the agent.
#[derive(Debug, Default)]
pub(crate) struct Orders {
    order: AtomicU8,
    given: Notify,
    fate: AtomicU8,
    told: Notify,
}

impl Orders {
    pub(crate) fn give(&self, order: Order) {
        self.order.fetch_max(order as u8, Ordering::AcqRel);
        self.given.notify_one();
    }

    /// Waits for an order of at least this weight. A check is taken with it.
    pub(crate) async fn at_least(&self, least: Order) -> Order {
        loop {
            let given = self.given.notified();
            let order = self.current();
            if order >= least {
                if order == Order::Check {
                    let (check, none) = (Order::Check as u8, Order::None as u8);
                    // A heavier one that came in between is found in the next round.
                    let taken = self.order.compare_exchange(
                        check,
                        none,
                        Ordering::AcqRel,
                        Ordering::Acquire,
                    );
                    if taken.is_err() {
                        continue;
                    }
                }
                return order;
            }
            given.await;
        }
    }

    /// It has a request, and nothing is known of how that ends.
    pub(super) fn begin(&self) {
        self.fate.store(Fate::Unknown as u8, Ordering::Release);
    }

    pub(super) fn tell(&self, fate: Fate) {
        self.fate.store(fate as u8, Ordering::Release);
        self.told.notify_one();
    }

    /// Waits until something is known.
    pub(super) async fn fate(&self) -> Fate {
        loop {
            let told = self.told.notified();
            match self.fate.load(Ordering::Acquire) {
                0 => told.await,
                1 => return Fate::Well,
                2 => return Fate::Ended,
                _ => return Fate::Crashed,
            }
        }
    }

    pub(crate) fn current(&self) -> Order {
        match self.order.load(Ordering::Acquire) {
            0 => Order::None,
            1 => Order::Check,
            2 => Order::Stop,
            _ => Order::Kill,
        }
    }
}
