//! One transaction, sent again because somebody asks for it.

use super::ledger::{self, Attempt, Marked, Resolution};
use super::order::{self, Edit};
use super::reason::Reason;
use super::{Ended, Resubmitter, Shared, Tell, fresh_id};
use crate::error::Error;
use std::sync::{Arc, PoisonError, mpsc};
use std::time::Duration;

/// How a transaction is to be sent again.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// What is sent instead of what was recorded.
    pub edit: Edit,
    /// Operation of another route to send it to.
    pub to: Option<String>,
    /// Also if it is settled, or not known to have been sent.
    pub again: bool,
}

/// Why a transaction was not sent again.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// There is no such transaction.
    #[error("there is no such transaction")]
    NotFound,
    /// What was edited cannot be.
    #[error("{0}")]
    Edit(String),
    /// It cannot be sent.
    #[error("{}", .0.words())]
    Refused(Reason),
    /// It cannot be sent as it is recorded: the value at this place was masked.
    #[error("{words}: {0}", words = Reason::Masked.words())]
    Masked(String),
    /// It did not fail, so there is nothing to resolve.
    #[error("it did not fail, so there is nothing to resolve")]
    NotFailed,
    /// The gateway has no room for it, or is stopping.
    #[error("weir has too much to do, or is stopping")]
    Busy,
    /// The index is behind.
    #[error(transparent)]
    Index(#[from] Error),
    /// The database fails.
    #[error("the database: {0}")]
    Database(#[from] rusqlite::Error),
}

impl Shared {
    /// Has the runner look for work.
    pub(super) fn wake(&self) {
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.wake.notify_one();
    }

    /// Notes how an attempt ended, for the runner to write down.
    pub(super) fn ended(&self, attempt: u128, ended: Ended) {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner).push((attempt, ended));
    }
}

impl Resubmitter {
    /// Sends a transaction again, on behalf of whoever sent it, and waits this long for the answer.
    /// If it has not come by then, the attempt is still `sending`.
    ///
    /// # Errors
    /// [`Failure`]; nothing was sent then.
    pub fn resubmit(
        &self,
        id: u128,
        wish: &Wish,
        who: &str,
        patience: Duration,
    ) -> Result<Attempt, Failure> {
        let shared = &self.shared;
        let config = (shared.gate.config)();
        wish.edit.check(&config).map_err(Failure::Edit)?;
        let transaction = shared.index.show(id)?.ok_or(Failure::NotFound)?;
        wish.edit.check_masked(&transaction).map_err(Failure::Edit)?;
        let to = wish.to.as_deref();
        let made = order::order(&transaction, &wish.edit, to, &config, fresh_id());
        let made = made.map_err(|why| {
            let place = || order::masked_place(&transaction, &wish.edit, &config);
            let masked = (why == Reason::Masked).then(place).flatten();
            masked.map_or(Failure::Refused(why), Failure::Masked)
        })?;
        if !wish.again && order::has_succeeded(&transaction) {
            return Err(Failure::Refused(Reason::Succeeded));
        }
        (shared.gate.check)(&made).map_err(Failure::Refused)?;
        let attempt = made.id;
        let marked = Marked {
            id: attempt,
            original: id,
            job: None,
            who,
            destination: to.unwrap_or_default(),
            difference: &wish.edit.difference(&transaction),
            again: wish.again,
        };
        shared.ledger.write(|db| ledger::mark(db, &marked))?.map_err(Failure::Refused)?;
        weir_journal::failpoint::pass("resubmit.marked");
        let (tell, told) = mpsc::sync_channel(1);
        let sent = (shared.gate.send)(made, self.teller(attempt, tell));
        if sent.is_err() {
            shared.ledger.write(|db| ledger::unmark(db, attempt))?;
            return Err(Failure::Busy);
        }
        weir_journal::failpoint::pass("resubmit.sent");
        if let Ok(ended) = told.recv_timeout(patience) {
            weir_journal::failpoint::pass("resubmit.answered");
            let state = shared.ledger.write(|db| ledger::finish(db, attempt, &ended))?;
            state.into_iter().for_each(|state| shared.counts.ended(state));
        }
        shared.ledger.attempt(attempt)?.ok_or(Failure::NotFound)
    }

    /// Tells whoever waits, and the runner in case nobody does any more.
    fn teller(&self, attempt: u128, tell: mpsc::SyncSender<Ended>) -> Tell {
        let shared = Arc::clone(&self.shared);
        Box::new(move |ended| {
            shared.ended(attempt, ended.clone());
            shared.wake();
            // Whoever waited may be gone.
            let _ = tell.try_send(ended);
        })
    }

    /// Says what became of a transaction that failed or was interrupted.
    ///
    /// # Errors
    /// [`Failure`].
    pub fn resolve(
        &self,
        id: u128,
        state: Resolution,
        who: &str,
        comment: &str,
    ) -> Result<(), Failure> {
        let transaction = self.shared.index.show(id)?.ok_or(Failure::NotFound)?;
        if transaction.outcome == weir_journal::Outcome::Completed {
            return Err(Failure::NotFailed);
        }
        Ok(self.shared.ledger.resolve(id, state, who, comment)?)
    }
}
