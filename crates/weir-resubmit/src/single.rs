//! Single resubmissions and resolutions, on request of an operator.

use crate::claims::{Claim, Claims, NewResolution};
use crate::context::{Context, GatewayClient, new_id};
use crate::request::{self, Edit};
use crate::runner::Runner;
use crate::statistics::Statistics;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use weir_config::Config;
use weir_journal::{Outcome, Transaction, failpoint};
use weir_model::{OnDone, RejectionReason, ReplayOutcome, ReplayRequest};
use weir_store::clock::now_us;
use weir_store::ledger::{
    self, Attempt, Intent, Ledger, Resolution, ResolutionCopy, record_intent,
};
use weir_tracker::{Error, Index};

/// Options of a resubmission.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Edits of the recorded request.
    pub edit: Edit,
    /// Operation of another route to send it to.
    pub destination: Option<String>,
    /// Also if it succeeded, has a resolution, or has an attempt of unknown state.
    pub again: bool,
}

/// Why a transaction was not sent again.
#[derive(Debug, thiserror::Error)]
pub enum ResubmitError {
    /// There is no such transaction.
    #[error("there is no such transaction")]
    NotFound,
    /// The edit is invalid.
    #[error("{0}")]
    Edit(String),
    /// It cannot be sent.
    #[error("{}", .0.words())]
    Rejected(RejectionReason),
    /// It did not fail, so there is nothing to resolve.
    #[error("it did not fail, so there is nothing to resolve")]
    NotFailed,
    /// The queue of the gateway is full, or weir is stopping.
    #[error("weir has too much to do, or is stopping")]
    Busy,
    /// It is not known whether another node sends it.
    #[error("the database of the fleet cannot be used: {0}")]
    NotClaimed(String),
    /// The resolution is not known to be set on all nodes.
    #[error("the database of the fleet cannot be used: {0}")]
    NotResolved(String),
    /// The index is behind.
    #[error(transparent)]
    Index(#[from] Error),
    /// The database fails.
    #[error("the database: {0}")]
    Database(#[from] rusqlite::Error),
}

/// The request of a transaction with an edit that fits the configuration. That an edit leaves a masked value
/// is said rather than that the record has one.
fn edited(
    transaction: &Transaction,
    options: &Options,
    config: &Config,
) -> Result<ReplayRequest, ResubmitError> {
    let edit = &options.edit;
    edit.check_masked(transaction).map_err(ResubmitError::Edit)?;
    let destination = options.destination.as_deref();
    request::build(transaction, edit, destination, config, new_id())
        .map_err(ResubmitError::Rejected)
}

/// Resubmits transactions.
#[derive(Clone, Debug)]
pub struct Resubmitter {
    pub(crate) shared: Arc<Context>,
}

impl Resubmitter {
    /// Makes a resubmitter, and the runner of its jobs. Attempts that were being sent when weir
    /// ended are `unknown` from now on.
    ///
    /// # Errors
    /// The database fails.
    pub fn new(
        ledger: Ledger,
        index: Index,
        gateway: GatewayClient,
        claims: Box<dyn Claims>,
    ) -> rusqlite::Result<(Self, Runner)> {
        let unknown = ledger.recover()?;
        let shared = Arc::new(Context::new(ledger, index, gateway, claims));
        shared.statistics.lock().unknown = unknown;
        Ok((Self { shared: Arc::clone(&shared) }, Runner::new(shared)))
    }

    /// Attempts and jobs since weir was started.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        *self.shared.statistics.lock()
    }

    /// Attempts, resolutions and jobs.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    /// Sends a transaction again with its recorded principal, and waits up to `timeout` for the
    /// response. After that the attempt is still `sending`.
    ///
    /// # Errors
    /// [`ResubmitError`]; nothing was sent then.
    pub fn resubmit(
        &self,
        id: u128,
        options: &Options,
        who: &str,
        timeout: Duration,
    ) -> Result<Attempt, ResubmitError> {
        let config = (self.shared.gateway.config)();
        options.edit.check(&config).map_err(ResubmitError::Edit)?;
        let transaction = self.shared.index.show(id)?.ok_or(ResubmitError::NotFound)?;
        let request = edited(&transaction, options, &config)?;
        self.send(&transaction, request, (options, who), timeout)
    }

    /// As [`Resubmitter::resubmit`], for a transaction of another node that does not respond, as it was
    /// found elsewhere.
    ///
    /// # Errors
    /// As [`Resubmitter::resubmit`]; `elsewhere`, if it was not found completely.
    pub fn resubmit_shipped(
        &self,
        transaction: &Transaction,
        options: &Options,
        who: &str,
        timeout: Duration,
    ) -> Result<Attempt, ResubmitError> {
        let config = (self.shared.gateway.config)();
        options.edit.check(&config).map_err(ResubmitError::Edit)?;
        let request = edited(transaction, options, &config).map_err(|error| match error {
            ResubmitError::Rejected(RejectionReason::Expired | RejectionReason::Truncated) => {
                ResubmitError::Rejected(RejectionReason::Elsewhere)
            }
            error => error,
        })?;
        // With a body of the operator it may still lack its headers.
        if transaction.expired {
            return Err(ResubmitError::Rejected(RejectionReason::Elsewhere));
        }
        self.send(transaction, request, (options, who), timeout)
    }

    /// Sends a request for a transaction.
    fn send(
        &self,
        transaction: &Transaction,
        request: ReplayRequest,
        (options, who): (&Options, &str),
        timeout: Duration,
    ) -> Result<Attempt, ResubmitError> {
        let (shared, id) = (&self.shared, request.original);
        if !options.again && request::has_succeeded(transaction) {
            return Err(ResubmitError::Rejected(RejectionReason::Succeeded));
        }
        (shared.gateway.check)(&request).map_err(ResubmitError::Rejected)?;
        let attempt = request.id;
        let intent = Intent {
            id: attempt,
            original: id,
            job: None,
            fleet_job: None,
            who,
            destination: options.destination.as_deref().unwrap_or_default(),
            difference: &options.edit.difference(transaction),
            again: options.again.into(),
            base: None,
        };
        let recorded = shared.ledger.write(|db| record_intent(db, &intent))?;
        recorded.map_err(ResubmitError::Rejected)?;
        failpoint::pass("resubmit.marked");
        let (who, again) = (who.to_owned(), options.again.into());
        self.claim(&Claim { attempt, original: id, who, again })?;
        failpoint::pass("resubmit.claimed");
        let (report, outcome) = mpsc::sync_channel(1);
        if (shared.gateway.send)(Box::new(request), self.on_done(attempt, report)).is_err() {
            shared.ledger.write(|db| ledger::withdraw_intent(db, attempt))?;
            return Err(ResubmitError::Busy);
        }
        failpoint::pass("resubmit.sent");
        if let Ok(outcome) = outcome.recv_timeout(timeout) {
            failpoint::pass("resubmit.answered");
            let state = shared.ledger.write(|db| ledger::finish(db, attempt, &outcome))?;
            state.into_iter().for_each(|state| shared.statistics.lock().count(state));
        }
        shared.ledger.attempt(attempt)?.ok_or(ResubmitError::NotFound)
    }

    /// Claims a recorded attempt; withdraws it if it is not granted.
    fn claim(&self, claim: &Claim) -> Result<(), ResubmitError> {
        let claimed = self.shared.claims.claim(std::slice::from_ref(claim), None);
        let error = match claimed.map(|blockers| blockers.into_iter().flatten().next()) {
            Ok(None) => return Ok(()),
            Ok(Some(reason)) => ResubmitError::Rejected(reason),
            Err(reason) => ResubmitError::NotClaimed(reason),
        };
        self.shared.ledger.write(|db| ledger::withdraw_intent(db, claim.attempt))?;
        Err(error)
    }

    /// Reports the outcome to the caller, and to the runner in case the caller no longer waits.
    fn on_done(&self, attempt: u128, report: mpsc::SyncSender<ReplayOutcome>) -> OnDone {
        let shared = Arc::clone(&self.shared);
        Box::new(move |outcome| {
            shared.push_outcome(attempt, outcome.clone());
            shared.wake();
            // The caller may have given up.
            let _ = report.try_send(outcome);
        })
    }

    /// Sets the resolution of a transaction that failed or was interrupted. In a fleet it is in the database
    /// of the fleet first.
    ///
    /// # Errors
    /// [`ResubmitError`].
    pub fn resolve(
        &self,
        id: u128,
        state: Resolution,
        who: &str,
        comment: &str,
    ) -> Result<(), ResubmitError> {
        let transaction = self.shared.index.show(id)?.ok_or(ResubmitError::NotFound)?;
        if transaction.outcome == Outcome::Completed {
            return Err(ResubmitError::NotFailed);
        }
        self.set_resolution(id, state, who, comment)
    }

    /// As [`Resubmitter::resolve`], for a transaction of another node that does not respond: whether it
    /// failed is known if it was found elsewhere.
    ///
    /// # Errors
    /// [`ResubmitError`].
    pub fn resolve_absent(
        &self,
        id: u128,
        found: Option<&Transaction>,
        state: Resolution,
        (who, comment): (&str, &str),
    ) -> Result<(), ResubmitError> {
        if found.is_some_and(|found| found.outcome == Outcome::Completed) {
            return Err(ResubmitError::NotFailed);
        }
        self.set_resolution(id, state, who, comment)
    }

    fn set_resolution(
        &self,
        transaction: u128,
        state: Resolution,
        who: &str,
        comment: &str,
    ) -> Result<(), ResubmitError> {
        let ledger = &self.shared.ledger;
        let after = ledger.resolution_revision(transaction)?;
        let (who, comment) = (who.to_owned(), comment.to_owned());
        let new = NewResolution { transaction, state, who, comment, at: now_us(), after };
        let revision = self.shared.claims.resolve(&new).map_err(ResubmitError::NotResolved)?;
        let NewResolution { who, comment, at, .. } = new;
        match revision {
            None => ledger.resolve(transaction, state, &who, &comment)?,
            Some(revision) => {
                let copy = ResolutionCopy { transaction, revision, state, who, comment, at };
                // If it is not applied, another node has set the next one meanwhile.
                ledger.copy_resolutions(&[copy])?;
            }
        }
        Ok(())
    }
}
