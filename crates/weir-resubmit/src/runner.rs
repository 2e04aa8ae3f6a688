//! Runs jobs and persists the outcomes of attempts, on a thread of the caller.
//!
//! Each pass writes one transaction of the database: the outcomes that came in, and the intents of
//! the next attempts. These are sent once it is committed.

use crate::claims::Claim;
use crate::context::Context;
use crate::pace::Pace;
use crate::prepare::MAX_IN_FLIGHT_BYTES;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weir_journal::{Outcome, failpoint};
use weir_model::{OnDone, RejectionReason, ReplayOutcome, ReplayRequest};
use weir_store::ledger::{
    self, Intent, Job, JobItem, JobState, PreviewItem, record_intent, set_item, withdraw_intent,
};
use weir_tracker::{Error, Query};

/// Time between passes while a job runs.
const BUSY_INTERVAL: Duration = Duration::from_millis(20);
/// Time between passes while none does.
const IDLE_INTERVAL: Duration = Duration::from_secs(1);
/// Time to the next pass after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Time between purges.
const PURGE_INTERVAL: Duration = Duration::from_secs(3600);
/// Additional retention of attempts and resolutions. The journal drops whole
/// segments: a transaction that it still has must not seem open again and be sent a second time.
const EXTRA_RETENTION: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Largest number of attempts of jobs in flight.
const MAX_IN_FLIGHT: usize = 256;
/// Most transactions that are read together, and their bytes, estimated from the previous read.
const MAX_READ: usize = 128;
const MAX_READ_BYTES: usize = 8 << 20;

/// Why a pass ended early.
#[derive(Debug, thiserror::Error)]
enum RunnerError {
    #[error(transparent)]
    Index(#[from] Error),
    #[error("the database: {0}")]
    Database(#[from] rusqlite::Error),
    #[error("the database of the fleet cannot be used: {0}")]
    NotClaimed(String),
}

/// The next transactions of a job, each with its request or the reason why there is none.
type Prepared = Vec<(JobItem, Result<ReplayRequest, RejectionReason>)>;

/// Runs jobs.
#[derive(Debug)]
pub struct Runner {
    shared: Arc<Context>,
    /// Number of the running job, and its pace.
    pace: Option<(i64, Pace)>,
    /// Attempts of jobs in flight, and the bytes of each.
    in_flight: HashMap<u128, usize>,
    /// Mean bytes of the transactions that were read last.
    mean_bytes: usize,
    /// Intent recorded, not accepted by the gateway yet.
    unsent: Vec<ReplayRequest>,
    /// Attempts of unknown state whose outcome the journal may have.
    unknown: Vec<u128>,
    started: bool,
    purged: Option<Instant>,
}

impl Runner {
    pub(crate) fn new(shared: Arc<Context>) -> Self {
        Self {
            shared,
            pace: None,
            in_flight: HashMap::new(),
            mean_bytes: MAX_READ_BYTES / 8,
            unsent: Vec::new(),
            unknown: Vec::new(),
            started: false,
            purged: None,
        }
    }

    /// Runs until `stop` is set; [`Runner::waker`] ends a pause. `report` gets the first of
    /// consecutive failures.
    pub fn run(&mut self, stop: &AtomicBool, report: &dyn Fn(&str)) {
        let mut failing = false;
        while !stop.load(Ordering::Relaxed) {
            let started = Instant::now();
            let pause = match self.pass() {
                Ok(pause) => {
                    failing = false;
                    pause.saturating_sub(started.elapsed())
                }
                Err(error) => {
                    if !std::mem::replace(&mut failing, true) {
                        report(&error.to_string());
                    }
                    RETRY_INTERVAL
                }
            };
            self.wait(pause, stop);
        }
        if let Err(error) = self.stop() {
            report(&error.to_string());
        }
    }

    /// A function that ends a pause.
    #[must_use]
    pub fn waker(&self) -> Box<dyn Fn() + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Box::new(move || shared.wake())
    }

    fn wait(&self, pause: Duration, stop: &AtomicBool) {
        // While it sends, only time wakes it: that keeps the passes few and large.
        if pause <= BUSY_INTERVAL {
            return std::thread::sleep(pause);
        }
        let mut work = self.shared.work.lock();
        let idle = |work: &mut bool| !*work && !stop.load(Ordering::Relaxed);
        self.shared.waker.wait_while_for(&mut work, idle, pause);
        *work = false;
    }

    /// Performs all due work. Returns the time until the next pass.
    fn pass(&mut self) -> Result<Duration, RunnerError> {
        if !std::mem::replace(&mut self.started, true) {
            self.unknown = self.shared.ledger.unknown()?;
        }
        self.reconcile()?;
        self.purge()?;
        let running = self.shared.ledger.oldest_job(JobState::Running)?;
        let number = running.as_ref().map(|job| job.number);
        if !self.unsent.is_empty() && self.pace.as_ref().map(|(number, _)| *number) != number {
            // Their job was paused or cancelled while the queue of the gateway was full.
            self.persist(None)?;
            self.withdraw()?;
        }
        match &running {
            Some(job) => self.send_due(job)?,
            None => {
                self.pace = None;
                self.persist(None)?;
            }
        }
        // One page in between: a preview does not wait until another job has ended.
        if let Some(job) = self.shared.ledger.oldest_job(JobState::Previewing)? {
            self.preview(&job)?;
            return Ok(Duration::ZERO);
        }
        let busy = running.is_some() || !self.in_flight.is_empty();
        Ok(if busy { BUSY_INTERVAL } else { IDLE_INTERVAL })
    }

    /// Reconciles attempts that were being sent when weir ended with the journal.
    fn reconcile(&mut self) -> Result<(), RunnerError> {
        while let Some(attempt) = self.unknown.last() {
            let found = match self.shared.index.show(*attempt) {
                Ok(found) => found,
                // It is looked up again in the next pass.
                Err(Error::Behind) => return Ok(()),
                // It stays unknown: one that cannot be read must not hold up those after it.
                Err(error) => {
                    self.unknown.pop();
                    return Err(error.into());
                }
            };
            let ended = found.filter(|one| one.outcome != Outcome::Interrupted && one.status > 0);
            if let Some(one) = ended {
                // A failure with a status below 500 is a response that the upstream aborted.
                let outcome = match one.outcome == Outcome::Failed && one.status < 500 {
                    true => ReplayOutcome::Aborted(one.status),
                    false => ReplayOutcome::Response(one.status, None),
                };
                let state =
                    self.shared.ledger.write(|db| ledger::finish(db, *attempt, &outcome))?;
                state.into_iter().for_each(|state| self.shared.statistics.lock().count(state));
            }
            self.unknown.pop();
        }
        Ok(())
    }

    fn purge(&mut self) -> Result<(), RunnerError> {
        if self.purged.is_none_or(|purged| purged.elapsed() >= PURGE_INTERVAL) {
            let tracker = &(self.shared.gateway.config)().tracker;
            let keep = tracker.keep_failed.max(tracker.keep_completed);
            self.shared.ledger.purge(keep.saturating_add(EXTRA_RETENTION))?;
            self.purged = Some(Instant::now());
        }
        Ok(())
    }

    /// Continues a preview by one page.
    fn preview(&mut self, job: &Job) -> Result<(), RunnerError> {
        if job.retry_of.is_some() {
            return self.preview_retry(job);
        }
        let shared = &self.shared;
        // It was parsed when the job was created; `now` in it is that moment.
        let Ok(query) = Query::parse(&job.query, job.created.0) else {
            return Ok(shared.ledger.persist_page(job, &[], None, true)?);
        };
        let (options, after) = ((job.destination.as_str(), job.again), job.cursor.as_str());
        let (items, next, incomplete) = shared.find_page(&query, options, Some(after))?;
        Ok(shared.ledger.persist_page(job, &items, next.as_deref(), incomplete)?)
    }

    /// Continues the preview of a retry by one page.
    fn preview_retry(&mut self, job: &Job) -> Result<(), RunnerError> {
        let limit = self.max_read();
        let items = self.shared.ledger.next_to_retry(job, limit)?;
        let next = items.last().filter(|_| items.len() == limit).map(|last| last.place.to_string());
        let prepared = self.prepare_all(job, &items)?.into_iter();
        let found = prepared.map(|(item, request)| PreviewItem {
            id: item.id,
            address: Some(item.address),
            reason: request.err(),
            base: item.base,
        });
        let found: Vec<_> = found.collect();
        // Its transactions are gone with it once the retention has ended.
        let is_gone = self.shared.ledger.job(job.retry_of.unwrap_or_default())?.is_none();
        Ok(self.shared.ledger.persist_page(job, &found, next.as_deref(), is_gone)?)
    }

    /// Number of transactions to read together.
    fn max_read(&self) -> usize {
        (MAX_READ_BYTES / self.mean_bytes.max(1)).clamp(1, MAX_READ)
    }

    /// Sends the due requests of a job.
    fn send_due(&mut self, job: &Job) -> Result<(), RunnerError> {
        let now = Instant::now();
        let changed =
            |(number, pace): &(i64, Pace)| *number != job.number || pace.rate() != job.rate;
        if self.pace.as_ref().is_none_or(changed) {
            self.pace = Some((job.number, Pace::new(job.rate, now)));
        }
        let due = self.pace.as_mut().map_or(0, |(_, pace)| pace.due(now));
        let mut remaining = due.min(MAX_IN_FLIGHT.saturating_sub(self.in_flight.len()));
        if !self.unsent.is_empty() {
            remaining = 0;
        }
        loop {
            let has_room = self.in_flight.values().sum::<usize>() < MAX_IN_FLIGHT_BYTES;
            let items = match if has_room { remaining.min(self.max_read()) } else { 0 } {
                0 => Vec::new(),
                limit => self.shared.ledger.next_items(job.number, limit)?,
            };
            let none = items.is_empty();
            let prepared = self.prepare_all(job, &items)?;
            let recorded = self.persist(Some((job, prepared)))?;
            if recorded > 0 {
                failpoint::pass("resubmit.marked");
                self.claim(job)?;
                failpoint::pass("resubmit.claimed");
            }
            if let Some((_, pace)) = &mut self.pace {
                pace.sent(recorded);
            }
            remaining = remaining.saturating_sub(recorded);
            self.send_unsent();
            if recorded > 0 {
                failpoint::pass("resubmit.sent");
            }
            // No intent recorded: all of these were rejected, or the job was paused meanwhile. A
            // command to the job, or a stop, takes effect before the next ones.
            if none || recorded == 0 || remaining == 0 || !self.unsent.is_empty() {
                return Ok(());
            }
        }
    }

    /// The requests of the next transactions, or the reasons why there are none.
    fn prepare_all(&mut self, job: &Job, items: &[JobItem]) -> Result<Prepared, RunnerError> {
        let addresses: Vec<_> = items
            .iter()
            .map(|item| (item.id, item.address, item.base.is_some_and(|base| base.accepted)))
            .collect();
        let options = (job.destination.as_str(), job.again);
        let (prepared, mean) = self.shared.prepare_all(options, &addresses)?;
        self.mean_bytes = mean.unwrap_or(self.mean_bytes);
        Ok(items.iter().copied().zip(prepared).collect())
    }

    /// Persists outcomes, and the intents of the next attempts, which are unsent from then on.
    /// Returns the number of these intents.
    fn persist(&mut self, next: Option<(&Job, Prepared)>) -> Result<usize, RunnerError> {
        let outcomes = std::mem::take(&mut *self.shared.outcomes.lock());
        let running = next.as_ref().map(|(job, _)| job.number);
        if outcomes.is_empty() && next.as_ref().is_none_or(|(_, prepared)| prepared.is_empty()) {
            if let Some(job) = running
                && self.in_flight.is_empty()
            {
                let ended = self.shared.ledger.end_if_done(job)?;
                self.shared.statistics.lock().finished += u64::from(ended);
            }
            return Ok(0);
        }
        let (mut recorded, mut states) = (Vec::new(), Vec::new());
        let written = self.shared.ledger.write(|db| {
            for (attempt, outcome) in &outcomes {
                states.extend(ledger::finish(db, *attempt, outcome)?);
            }
            if let Some((job, prepared)) = next {
                record_intents(db, job, prepared, &mut recorded)?;
            }
            Ok(())
        });
        if let Err(error) = written {
            // They are persisted in the next pass.
            self.shared.outcomes.lock().extend(outcomes);
            return Err(error.into());
        }
        states.into_iter().for_each(|state| self.shared.statistics.lock().count(state));
        for (attempt, _) in &outcomes {
            self.in_flight.remove(attempt);
        }
        let count = recorded.len();
        for request in recorded {
            self.in_flight.insert(request.id, request.body.len());
            self.unsent.push(request);
        }
        Ok(count)
    }

    /// Claims the unsent requests, all of which were recorded in this pass. Those that are not granted
    /// are rejected; without a database of the fleet all are withdrawn.
    fn claim(&mut self, job: &Job) -> Result<(), RunnerError> {
        let claim = |request: &ReplayRequest| Claim {
            attempt: request.id,
            original: request.original,
            who: job.who.clone(),
            again: job.sends(),
        };
        let claims: Vec<Claim> = self.unsent.iter().map(claim).collect();
        let blockers = match self.shared.claims.claim(&claims, None) {
            Ok(blockers) => blockers,
            Err(reason) => {
                self.withdraw()?;
                return Err(RunnerError::NotClaimed(reason));
            }
        };
        let rejected: Vec<(u128, RejectionReason)> = claims
            .iter()
            .zip(blockers)
            .filter_map(|(one, why)| Some((one.attempt, why?)))
            .collect();
        if rejected.is_empty() {
            return Ok(());
        }
        self.shared.ledger.write(|db| {
            rejected.iter().try_for_each(|(attempt, reason)| {
                ledger::finish(db, *attempt, &ReplayOutcome::Rejected(reason.clone())).map(drop)
            })
        })?;
        let is_rejected = |id: u128| rejected.iter().any(|(attempt, _)| *attempt == id);
        self.unsent.retain(|request| !is_rejected(request.id));
        self.in_flight.retain(|attempt, _| !is_rejected(*attempt));
        Ok(())
    }

    /// Sends the unsent requests until the queue of the gateway is full.
    fn send_unsent(&mut self) {
        let mut unsent = std::mem::take(&mut self.unsent).into_iter();
        for request in unsent.by_ref() {
            let (shared, attempt) = (Arc::clone(&self.shared), request.id);
            let on_done: OnDone = Box::new(move |outcome| shared.push_outcome(attempt, outcome));
            if let Err((returned, _)) = (self.shared.gateway.send)(Box::new(request), on_done) {
                self.unsent.push(*returned);
                break;
            }
        }
        self.unsent.extend(unsent);
    }

    fn stop(&mut self) -> Result<(), RunnerError> {
        self.persist(None)?;
        self.withdraw()
    }

    /// Withdraws the intents of unsent requests.
    fn withdraw(&mut self) -> Result<(), RunnerError> {
        self.shared.ledger.write(|db| {
            self.unsent.iter().try_for_each(|request| withdraw_intent(db, request.id))
        })?;
        for request in self.unsent.drain(..) {
            self.in_flight.remove(&request.id);
        }
        Ok(())
    }
}

/// Records the intents of the next attempts, unless there is a blocker or the job no longer runs.
fn record_intents(
    db: &rusqlite::Transaction<'_>,
    job: &Job,
    prepared: Prepared,
    recorded: &mut Vec<ReplayRequest>,
) -> rusqlite::Result<()> {
    let current = ledger::find_job(db, job.number)?;
    if current.is_none_or(|job| job.state != JobState::Running) {
        return Ok(());
    }
    for (item, request) in prepared {
        let request = match request {
            Ok(request) => {
                let intent = Intent {
                    id: request.id,
                    original: item.id,
                    job: Some(job.number),
                    fleet_job: None,
                    who: &job.who,
                    destination: &job.destination,
                    difference: "",
                    again: job.sends(),
                    base: item.base,
                };
                record_intent(db, &intent)?.map(|()| request)
            }
            Err(reason) => Err(reason),
        };
        match request {
            Ok(request) => {
                set_item(db, job.number, item.place, "sending", "")?;
                recorded.push(request);
            }
            Err(reason) => set_item(db, job.number, item.place, "refused", &reason.code())?,
        }
    }
    Ok(())
}
