//! Works on jobs, and writes down how attempts ended: driven by a thread of the caller's.
//!
//! At each turn one transaction of the database has all that is to be written down: how attempts
//! ended, and which ones are sent next. They are sent once it is committed.

use super::job::{self, Found, Item, Job, JobState};
use super::ledger::{self, Marked};
use super::order::{self, Edit, Order};
use super::pace::Pace;
use super::reason::Reason;
use super::{Ended, Shared, Tell, fresh_id};
use crate::error::Error;
use crate::query::Query;
use crate::search::{Page, size};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use weir_journal::{Outcome, Transaction};

/// Time between turns while there is something to do.
const TURN: Duration = Duration::from_millis(20);
/// The same while there is nothing.
const IDLE: Duration = Duration::from_secs(1);
/// Time to the next turn after a failure.
const RETRY: Duration = Duration::from_secs(5);
/// Time between looks for what is too old.
const SWEEP: Duration = Duration::from_secs(3600);
/// How much longer attempts and resolutions are kept than transactions. The journal drops whole
/// segments: what it still has must not seem open again, and be sent a second time.
const LONGER: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Attempts of jobs that are under way at once, and bytes of their bodies.
const AT_ONCE: usize = 256;
const BYTES: usize = 64 << 20;
/// Transactions that are read at once, and bytes of them, going by those that were read before.
const READ: usize = 128;
const READ_BYTES: usize = 8 << 20;
/// Transactions of a preview that are read at once.
const PAGE: usize = 256;

/// Why a turn ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Index(#[from] Error),
    #[error("the database: {0}")]
    Database(#[from] rusqlite::Error),
    #[error("the journal: {0}")]
    Journal(#[from] std::io::Error),
}

/// The next transactions of a job, and what is sent for each or why nothing is.
type Chosen = Vec<(Item, Result<Order, Reason>)>;

/// Works on jobs.
#[derive(Debug)]
pub struct Runner {
    shared: Arc<Shared>,
    /// Of the job with this number.
    pace: Option<(i64, Pace)>,
    /// Attempts of jobs under way, and the bytes of each.
    under_way: HashMap<u128, usize>,
    /// Mean bytes of the transactions that were read last.
    mean: usize,
    /// Marked, and not taken by the gateway yet.
    held: Vec<Order>,
    /// Attempts of which the journal may say how they ended.
    unsure: Vec<u128>,
    begun: bool,
    swept: Option<Instant>,
}

impl Runner {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            pace: None,
            under_way: HashMap::new(),
            mean: READ_BYTES / 8,
            held: Vec::new(),
            unsure: Vec::new(),
            begun: false,
            swept: None,
        }
    }

    /// Works until `stop`, which [`Runner::waker`] wakes it for. `tell` is told of failures, once
    /// until it works again.
    pub fn run(&mut self, stop: &AtomicBool, tell: &dyn Fn(&str)) {
        let mut failing = false;
        while !stop.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let pause = match self.turn() {
                Ok(pause) => {
                    failing = false;
                    pause.saturating_sub(begun.elapsed())
                }
                Err(trouble) => {
                    if !std::mem::replace(&mut failing, true) {
                        tell(&trouble.to_string());
                    }
                    RETRY
                }
            };
            self.wait(pause, stop);
        }
        if let Err(trouble) = self.leave() {
            tell(&trouble.to_string());
        }
    }

    /// Something that ends its pause.
    #[must_use]
    pub fn waker(&self) -> Box<dyn Fn() + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Box::new(move || shared.wake())
    }

    fn wait(&self, pause: Duration, stop: &AtomicBool) {
        // While it sends, it is woken by nothing but time: that keeps turns together.
        if pause <= TURN {
            return std::thread::sleep(pause);
        }
        let work = self.shared.work.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = |work: &mut bool| !*work && !stop.load(Ordering::Relaxed);
        let waited = self.shared.wake.wait_timeout_while(work, pause, nothing);
        *waited.unwrap_or_else(PoisonError::into_inner).0 = false;
    }

    /// Does what is due. Gives the time until the next turn.
    fn turn(&mut self) -> Result<Duration, Trouble> {
        if !std::mem::replace(&mut self.begun, true) {
            self.unsure = self.shared.ledger.unknown()?;
        }
        self.settle()?;
        self.sweep()?;
        let running = self.shared.ledger.oldest(JobState::Running)?;
        let number = running.as_ref().map(|job| job.number);
        if !self.held.is_empty() && self.pace.as_ref().map(|(number, _)| *number) != number {
            // Its job was paused or cancelled before the gateway had room for them.
            self.write_ends(None)?;
            self.take_back()?;
        }
        match &running {
            Some(job) => self.send_some(job)?,
            None => {
                self.pace = None;
                self.write_ends(None)?;
            }
        }
        // A page in between: nobody waits for a job to end to see what another one would do.
        if let Some(job) = self.shared.ledger.oldest(JobState::Previewing)? {
            self.preview(&job)?;
            return Ok(Duration::ZERO);
        }
        Ok(if running.is_some() || !self.under_way.is_empty() { TURN } else { IDLE })
    }

    /// Finds out what the journal knows of attempts that were under way when weir ended.
    fn settle(&mut self) -> Result<(), Trouble> {
        while let Some(attempt) = self.unsure.last() {
            let found = match self.shared.index.show(*attempt) {
                Ok(found) => found,
                // It is asked again.
                Err(Error::Behind) => return Ok(()),
                // It stays unknown: one that cannot be read must not hold up all that come after it.
                Err(error) => {
                    self.unsure.pop();
                    return Err(error.into());
                }
            };
            let whole = found.filter(|one| one.outcome != Outcome::Interrupted && one.status > 0);
            if let Some(one) = whole {
                // What failed with a good status is an answer that the upstream broke off.
                let broken = one.outcome == Outcome::Failed && one.status < 500;
                let ended = match broken {
                    true => Ended::Broken(one.status),
                    false => Ended::Answered(one.status, None),
                };
                let state = self.shared.ledger.write(|db| ledger::finish(db, *attempt, &ended))?;
                state.into_iter().for_each(|state| self.shared.counts.ended(state));
            }
            self.unsure.pop();
        }
        Ok(())
    }

    fn sweep(&mut self) -> Result<(), Trouble> {
        if self.swept.is_none_or(|swept| swept.elapsed() >= SWEEP) {
            let tracker = &(self.shared.gate.config)().tracker;
            let keep = tracker.keep_failed.max(tracker.keep_completed);
            self.shared.ledger.drop_old(keep.saturating_add(LONGER))?;
            self.swept = Some(Instant::now());
        }
        Ok(())
    }

    /// Goes on with a preview by one page.
    fn preview(&self, job: &Job) -> Result<(), Trouble> {
        let shared = &self.shared;
        // It was understood when the job was made; `now` in it is that moment.
        let Ok(query) = Query::parse(&job.query, job.created) else {
            return Ok(shared.ledger.write(|db| job::note_page(db, job, &[], None, true))?);
        };
        let after = job.cursor.parse().ok();
        let page = Page { limit: PAGE, after, ..Page::default() };
        let hits = shared.index.search(&query, &page)?;
        let config = (shared.gate.config)();
        let found: Vec<Found> = hits
            .hits
            .iter()
            .map(|hit| {
                let reason = match &hit.transaction {
                    None => Some(Reason::Expired),
                    Some(transaction) => self.make(transaction, job, &config).err(),
                };
                let address = hit.transaction.as_ref().and_then(|one| one.address);
                Found { id: hit.row.id, address, reason }
            })
            .collect();
        let next = hits.next.map(|cursor| cursor.to_string());
        let note = |db: &rusqlite::Transaction<'_>| {
            job::note_page(db, job, &found, next.as_deref(), hits.incomplete)
        };
        Ok(shared.ledger.write(note)?)
    }

    /// The request that is sent for a transaction of a job, if the gateway would take it.
    fn make(
        &self,
        transaction: &Transaction,
        job: &Job,
        config: &weir_config::Config,
    ) -> Result<Order, Reason> {
        let to = Some(job.destination.as_str()).filter(|to| !to.is_empty());
        let made = order::order(transaction, &Edit::default(), to, config, fresh_id())?;
        if !job.again && order::has_succeeded(transaction) {
            return Err(Reason::Succeeded);
        }
        (self.shared.gate.check)(&made)?;
        Ok(made)
    }

    /// Sends what is due of a job.
    fn send_some(&mut self, job: &Job) -> Result<(), Trouble> {
        let now = Instant::now();
        let changed =
            |(number, pace): &(i64, Pace)| *number != job.number || pace.rate() != job.rate;
        if self.pace.as_ref().is_none_or(changed) {
            self.pace = Some((job.number, Pace::new(job.rate, now)));
        }
        let due = self.pace.as_mut().map_or(0, |(_, pace)| pace.due(now));
        let mut left = due.min(AT_ONCE.saturating_sub(self.under_way.len()));
        if !self.held.is_empty() {
            left = 0;
        }
        loop {
            let room = self.under_way.values().sum::<usize>() < BYTES;
            let most = (READ_BYTES / self.mean.max(1)).clamp(1, READ);
            let wanted = if room { left.min(most) } else { 0 };
            let items = match wanted {
                0 => Vec::new(),
                wanted => job::next_items(&self.shared.ledger.lock(), job.number, wanted)?,
            };
            let none = items.is_empty();
            let chosen = self.choose(job, &items)?;
            let marked = self.write_ends(Some((job, chosen)))?;
            if marked > 0 {
                weir_journal::failpoint::pass("resubmit.marked");
            }
            if let Some((_, pace)) = &mut self.pace {
                pace.sent(marked);
            }
            left = left.saturating_sub(marked);
            self.send_held();
            if marked > 0 {
                weir_journal::failpoint::pass("resubmit.sent");
            }
            // Nothing marked: all of these were refused, or the job was paused meanwhile. Whoever
            // pauses or stops it is heard before the next ones.
            if none || marked == 0 || left == 0 || !self.held.is_empty() {
                return Ok(());
            }
        }
    }

    /// Makes requests of the next transactions, or finds out why there are none.
    fn choose(&mut self, job: &Job, items: &[Item]) -> Result<Chosen, Trouble> {
        let config = (self.shared.gate.config)();
        let mut addresses: Vec<_> = items.iter().map(|item| item.address).collect();
        addresses.sort_by_key(|address| (address.lane, address.position));
        let mut read: HashMap<u128, Transaction> = HashMap::with_capacity(items.len());
        for one in self.shared.index.shared.journal.get_many(&addresses, true)? {
            read.insert(u128::from_be_bytes(one.id), one);
        }
        if !read.is_empty() {
            self.mean = read.values().map(size).sum::<usize>() / read.len();
        }
        let mut chosen = Vec::with_capacity(items.len());
        for item in items {
            let found = match read.remove(&item.id) {
                Some(found) => Some(found),
                // It stands somewhere else by now.
                None => self.shared.index.show(item.id)?,
            };
            let made = match found {
                Some(transaction) => self.make(&transaction, job, &config),
                None => Err(Reason::NotKept),
            };
            chosen.push((*item, made));
        }
        Ok(chosen)
    }

    /// Writes down how attempts ended, and which ones are sent next: those are held from then on.
    /// Gives how many they are.
    fn write_ends(&mut self, next: Option<(&Job, Chosen)>) -> Result<usize, Trouble> {
        let finished = {
            let mut all = self.shared.finished.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *all)
        };
        let running = next.as_ref().map(|(job, _)| job.number);
        if finished.is_empty() && next.as_ref().is_none_or(|(_, chosen)| chosen.is_empty()) {
            if let Some(job) = running
                && self.under_way.is_empty()
            {
                let ended = self.shared.ledger.write(|db| job::end_if_done(db, job))?;
                self.shared.counts.finished.fetch_add(u64::from(ended), Ordering::Relaxed);
            }
            return Ok(0);
        }
        let (mut marked, mut states) = (Vec::new(), Vec::new());
        let written = self.shared.ledger.write(|db| {
            for (attempt, ended) in &finished {
                states.extend(ledger::finish(db, *attempt, ended)?);
            }
            if let Some((job, chosen)) = next {
                mark_all(db, job, chosen, &mut marked)?;
            }
            Ok(())
        });
        if let Err(error) = written {
            // They are written down the next time.
            let mut all = self.shared.finished.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend(finished);
            return Err(error.into());
        }
        states.into_iter().for_each(|state| self.shared.counts.ended(state));
        for (attempt, _) in &finished {
            self.under_way.remove(attempt);
        }
        let count = marked.len();
        for made in marked {
            self.under_way.insert(made.id, made.body.len());
            self.held.push(made);
        }
        Ok(count)
    }

    /// Hands the gateway what it has room for.
    fn send_held(&mut self) {
        let mut held = std::mem::take(&mut self.held).into_iter();
        for made in held.by_ref() {
            let (shared, attempt) = (Arc::clone(&self.shared), made.id);
            let tell: Tell = Box::new(move |ended| shared.ended(attempt, ended));
            if let Err(back) = (self.shared.gate.send)(made, tell) {
                self.held.push(back.0);
                break;
            }
        }
        self.held.extend(held);
    }

    /// The end of it.
    fn leave(&mut self) -> Result<(), Trouble> {
        self.write_ends(None)?;
        self.take_back()
    }

    /// Takes back the marks of what was not handed over: it was surely not sent.
    fn take_back(&mut self) -> Result<(), Trouble> {
        self.shared.ledger.write(|db| {
            for made in &self.held {
                db.execute(
                    "UPDATE job_item SET state = CASE
                         WHEN (SELECT state FROM job WHERE number = job_item.job) = 'cancelled'
                         THEN 'cancelled' ELSE 'pending' END
                     WHERE state = 'sending'
                     AND job = (SELECT job FROM attempt WHERE id = ?1)
                     AND id = (SELECT original FROM attempt WHERE id = ?1)",
                    [made.id.to_be_bytes()],
                )?;
                ledger::unmark(db, made.id)?;
            }
            Ok(())
        })?;
        for made in self.held.drain(..) {
            self.under_way.remove(&made.id);
        }
        Ok(())
    }
}

/// Marks what is sent next, unless somebody was faster or the job does not run any more.
fn mark_all(
    db: &rusqlite::Transaction<'_>,
    job: &Job,
    chosen: Chosen,
    marked: &mut Vec<Order>,
) -> rusqlite::Result<()> {
    let runs = job::get(db, job.number)?.is_some_and(|job| job.state == JobState::Running);
    if !runs {
        return Ok(());
    }
    for (item, made) in chosen {
        let made = match made {
            Ok(made) => made,
            Err(reason) => {
                job::set_item(db, job.number, item.place, "refused", &reason.code())?;
                continue;
            }
        };
        let mark = Marked {
            id: made.id,
            original: item.id,
            job: Some(job.number),
            who: &job.who,
            destination: &job.destination,
            difference: "",
            again: job.again,
        };
        match ledger::mark(db, &mark)? {
            Ok(()) => {
                job::set_item(db, job.number, item.place, "sending", "")?;
                marked.push(made);
            }
            Err(reason) => {
                job::set_item(db, job.number, item.place, "refused", &reason.code())?;
            }
        }
    }
    Ok(())
}
