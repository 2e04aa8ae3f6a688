//! Resubmission: recorded transactions are sent again, one by one or all that a query finds.
//!
//! An attempt is marked `sending` in the database, durably, before it is sent, under the transaction
//! id that it has in the journal. After a crash what was `sending` is `unknown`, and sent again only
//! when told to; where the journal has its end, it is known after all. The chain of attempts hangs
//! on the transaction that was sent first: an attempt is never itself resubmitted.
//!
//! The gateway's door, the limits of now and who may do what are other people's business:
//! [`Gate`] is handed in.

mod counts;
mod job;
mod ledger;
mod order;
mod pace;
mod reason;
mod runner;
mod single;

pub use counts::Statistics;
pub use job::{Counted, Job, JobAction, JobState, NewJob};
pub use ledger::{Attempt, AttemptState, Change, Ledger, Resolution, Story};
pub use order::{Edit, LONGEST_BODY, Order};
pub use reason::Reason;
pub use runner::Runner;
pub use single::{Failure, Wish};

use crate::clock::now_us;
use crate::index::Index;
use counts::Counts;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use weir_config::Config;

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// There was an answer: its status, and the problem if weir itself answered.
    Answered(u16, Option<&'static str>),
    /// The answer, of this status, broke off.
    Broken(u16),
    /// Nothing was done about it.
    Refused(Reason),
    /// It was not finished: nobody knows whether it was sent.
    Lost,
}

/// Whom to tell how it ended, once; must not block.
pub type Tell = Box<dyn FnOnce(Ended) + Send>;

/// Whether the gateway would take it, limits aside.
type Check = dyn Fn(&Order) -> Result<(), Reason> + Send + Sync;
/// Sends it. It comes back, untouched, if there is no room for it.
type Pass = dyn Fn(Order, Tell) -> Result<(), Box<(Order, Tell)>> + Send + Sync;

/// The way into the gateway.
pub struct Gate {
    /// The configuration of this moment.
    pub config: Box<dyn Fn() -> Arc<Config> + Send + Sync>,
    /// Whether the gateway would take it, limits aside.
    pub check: Box<Check>,
    /// Sends it. It comes back, untouched, if there is no room for it.
    pub send: Box<Pass>,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gate")
    }
}

/// What single resubmissions and the thread of the jobs share.
#[derive(Debug)]
struct Shared {
    ledger: Ledger,
    index: Index,
    gate: Gate,
    counts: Counts,
    /// How attempts ended, until it is written down: as many as are under way.
    finished: Mutex<Vec<(u128, Ended)>>,
    /// Something is to be done about jobs.
    work: Mutex<bool>,
    wake: Condvar,
}

/// Resubmits transactions.
#[derive(Clone, Debug)]
pub struct Resubmitter {
    shared: Arc<Shared>,
}

impl Resubmitter {
    /// Puts it together, and gives what has to be driven for jobs. Attempts that were under way
    /// when weir ended are unknown from now on.
    ///
    /// # Errors
    /// The database fails.
    pub fn new(ledger: Ledger, index: Index, gate: Gate) -> rusqlite::Result<(Self, Runner)> {
        let counts = Counts::default();
        counts.unknown.store(ledger.recover()?, Ordering::Relaxed);
        let shared = Shared {
            ledger,
            index,
            gate,
            counts,
            finished: Mutex::default(),
            work: Mutex::new(true),
            wake: Condvar::new(),
        };
        let shared = Arc::new(shared);
        Ok((Self { shared: Arc::clone(&shared) }, Runner::new(shared)))
    }

    /// What was done since weir was started.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shared.counts.statistics()
    }

    /// Attempts and resolutions.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }
}

/// A transaction id that was never used: a UUIDv7 (RFC 9562 section 5.7) of this moment.
fn fresh_id() -> u128 {
    let millis = u128::from(now_us() / 1000) & 0xffff_ffff_ffff;
    let random = fastrand::u128(..);
    let version = 0x7_u128 << 76;
    let variant = 0x2_u128 << 62;
    let low = random & 0x3fff_ffff_ffff_ffff;
    let high = (random >> 64) & 0xfff;
    millis << 80 | version | high << 64 | variant | low
}

#[cfg(test)]
mod tests;
