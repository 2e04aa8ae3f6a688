//! The Tracker of a data folder: its journal with its index, opened together.
//!
//! `weir serve` has one beside its workers; commands open one for themselves, which recovers the
//! journal and completes the index first. What either shows is described in [`weir_admin::tracker`].

pub(crate) mod convert;
mod verify;

pub(crate) use verify::steps as verify;

use crate::gaps;
use anyhow::Context;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weir_admin::failure::{Failure, SearchFailure};
use weir_admin::gap::Missing;
use weir_admin::tracker::{
    Counts, Export, Exported, Exporting, Hit, JournalState, LONGEST_PAGE, Page, Search, Side,
    Summary, Tail, Transaction, Verify,
};
use weir_config::{Config, IndexDepth};
use weir_journal::{Absence, Journal, RecoveryReport, Settings, stage};
use weir_store::clock::now_us;
use weir_store::gaps::Gaps;
use weir_store::ledger::Ledger;
use weir_tracker::{Depth, Index, Query};

/// Longer than any journal is kept: a command that only reads drops nothing.
const FOR_EVER: Duration = Duration::from_secs(1000 * 365 * 24 * 60 * 60);

/// Transactions of an export that are read at once, as they were recorded.
const EXPORT_PAGE: usize = 64;

/// An open Tracker.
pub(crate) struct Tracker {
    journal: Arc<Journal>,
    index: Option<Index>,
    recovery: RecoveryReport,
    /// What was done about transactions, if that can be read.
    ledger: Option<Ledger>,
    gaps: Gaps,
}

/// The settings of a command that reads a journal that is not its own.
pub(crate) fn reading() -> Settings {
    Settings {
        lanes: 0,
        disk_bytes: u64::MAX / 4,
        seal_after: FOR_EVER,
        keep_completed: FOR_EVER,
        keep_failed: FOR_EVER,
        ..Settings::default()
    }
}

/// Opens the journal of a data folder, which must be there.
///
/// # Errors
/// There is none, a server has it, or it cannot be read.
pub(crate) fn journal(data: &Path) -> anyhow::Result<(Journal, RecoveryReport)> {
    let at = || format!("cannot open the journal in {}", data.display());
    anyhow::ensure!(data.join("journal").is_dir(), "{} has no journal", data.display());
    let (journal, _, recovery) = Journal::open(data, reading()).map_err(hinted).with_context(at)?;
    recovery.damaged_files().for_each(|message| crate::output::note(&message));
    Ok((journal, recovery))
}

fn hinted(error: weir_journal::Error) -> anyhow::Error {
    let held = matches!(error, weir_journal::Error::InUse { .. });
    let error = anyhow::Error::from(error);
    if held { error.context("in use by a running weir; query it with --admin URL") } else { error }
}

impl Tracker {
    /// Puts together what a running server has; without an index nothing can be found.
    pub(crate) fn new(
        journal: Arc<Journal>,
        index: Option<Index>,
        recovery: RecoveryReport,
        ledger: Option<Ledger>,
        gaps: Gaps,
    ) -> Arc<Self> {
        Arc::new(Self { journal, index, recovery, ledger, gaps })
    }

    /// Opens the Tracker of a data folder to read it: recovers the journal, completes the index.
    /// It is indexed as its configuration says; without one as deep as it was indexed last, and
    /// provisionally, without business keys.
    ///
    /// # Errors
    /// There is none, a server has it, or it cannot be read.
    pub(crate) fn read(data: &Path, config: Option<&Config>) -> anyhow::Result<Arc<Self>> {
        let (journal, recovery) = journal(data)?;
        let journal = Arc::new(journal);
        let settings = match config {
            Some(config) => index_settings(config),
            None => Some(weir_tracker::Settings {
                depth: weir_tracker::stored_depth(data).unwrap_or_default(),
                total_stage: stage::TOTAL,
                // It says what is a business key: only a server, or who reads with it, knows.
                provisional: true,
                ..weir_tracker::Settings::default()
            }),
        };
        let ledger = weir_store::exists(data).then(|| Ledger::open(data)).transpose()?;
        let Some(settings) = settings else {
            return Ok(Self::new(journal, None, recovery, ledger, Gaps::new(data)));
        };
        let (index, mut indexer) = Index::open(data, Arc::clone(&journal), settings)
            .with_context(|| format!("cannot open the index in {}", data.display()))?;
        indexer.catch_up().context("cannot update the index")?;
        if ledger.is_some() {
            index.set_ledger(Ledger::open(data)?);
        }
        Ok(Self::new(journal, Some(index), recovery, ledger, Gaps::new(data)))
    }

    fn index(&self) -> Result<&Index, Failure> {
        self.index.as_ref().ok_or(Failure::NotIndexed)
    }

    /// The state of the journal.
    ///
    /// # Errors
    /// It cannot be read how far followers are.
    pub(crate) fn state(&self) -> Result<JournalState, Failure> {
        let lags = self.journal.lags().map_err(failure)?;
        let index = self.index.as_ref().map(|index| index.statistics(now_us())).unwrap_or_default();
        Ok(convert::state(self.journal.statistics(), &self.recovery, &lags, index))
    }

    fn find(&self, id: u128) -> Result<Option<weir_tracker::Hit>, Failure> {
        self.index()?.find(id).map_err(|error| match error {
            weir_tracker::Error::Behind => Failure::Behind,
            error => failure(error),
        })
    }

    /// A transaction, with its `payload` if that is wanted.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn show(&self, id: u128, payload: bool) -> Result<Option<Transaction>, Failure> {
        let Some(hit) = self.find(id)? else { return Ok(None) };
        if hit.transaction.is_none() && hit.absence == Absence::Dropped {
            return Ok(None);
        }
        let mut shown = convert::exported(hit, payload);
        if let Some(ledger) = &self.ledger {
            convert::tell(&mut shown, ledger.history(id).map_err(failure)?, payload);
        }
        Ok(Some(shown))
    }

    /// A page of what a query finds.
    ///
    /// # Errors
    /// [`SearchFailure`].
    pub(crate) fn search(&self, search: &Search) -> Result<Page, SearchFailure> {
        let query = query(search)?;
        let after = search.cursor.as_ref().map(|text| text.parse()).transpose();
        let page = weir_tracker::Page {
            limit: search.limit,
            after: after.map_err(|_| SearchFailure::Cursor)?,
            budget: search.timeout,
            payload: false,
        };
        let index = self.index().map_err(SearchFailure::Failed)?;
        let found = index.search(&query, &page);
        let found = found.map_err(|error| SearchFailure::Failed(failure(error)))?;
        let mut transactions = Vec::with_capacity(found.hits.len());
        for hit in found.hits {
            let id = hit.row.id;
            let mut hit: Hit = convert::hit(hit);
            self.resolve(id, &mut hit.summary).map_err(SearchFailure::Failed)?;
            transactions.push(hit);
        }
        Ok(Page {
            transactions,
            next: found.next.map(|cursor| cursor.to_string()),
            cut: found.cut,
            incomplete: found.incomplete || found.cut,
            payload: query.needs_payload(),
            missing: self.missing(&query).map_err(SearchFailure::Failed)?,
        })
    }

    /// What is missing of the time that a query is about.
    fn missing(&self, query: &Query) -> Result<Missing, Failure> {
        let (from, to) = query.times();
        let seconds = (from / 1_000_000, (to / 1_000_000).saturating_add(1));
        self.gaps.between(seconds.0, seconds.1).map(gaps::shown).map_err(failure)
    }

    /// Says what became of a transaction, if anything did.
    fn resolve(&self, id: u128, summary: &mut Summary) -> Result<(), Failure> {
        if let Some(ledger) = self.ledger.as_ref().filter(|_| summary.state != "completed")
            && let Some(resolution) = ledger.resolution(id).map_err(failure)?
        {
            summary.resolution = resolution.name().to_owned();
        }
        Ok(())
    }

    /// The recorded bytes of a body.
    ///
    /// # Errors
    /// They cannot be read.
    pub(crate) fn body(&self, id: u128, side: Side) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.find(id)?.and_then(|hit| hit.transaction).map(|transaction| match side {
            Side::Request => transaction.request_body,
            Side::Response => transaction.response_body,
        }))
    }

    /// How many a query finds, and how they are spread.
    ///
    /// # Errors
    /// [`SearchFailure`].
    pub(crate) fn count(&self, search: &Search, keys: bool) -> Result<Counts, SearchFailure> {
        let query = query(search)?;
        let index = self.index().map_err(SearchFailure::Failed)?;
        let found = index.summary(&query, search.timeout, keys);
        let found = found.map_err(|error| SearchFailure::Failed(failure(error)))?;
        Ok(convert::counts(found, keys || query.needs_payload()))
    }

    /// All that a query finds, page after page.
    ///
    /// # Errors
    /// [`SearchFailure`].
    pub(crate) fn export(self: &Arc<Self>, search: &Search) -> Result<Export, SearchFailure> {
        let query = query(search)?;
        let after = search.cursor.as_ref().map(|text| text.parse()).transpose();
        let mut after = after.map_err(|_| SearchFailure::Cursor)?;
        self.index().map_err(SearchFailure::Failed)?;
        let (this, search) = (Arc::clone(self), search.clone());
        let (mut end, mut more, mut ended) = (Exported::default(), true, false);
        let mut read: VecDeque<weir_tracker::Hit> = VecDeque::new();
        Ok(Box::new(move || {
            if ended {
                return Ok(None);
            }
            if let Some(hit) = read.pop_front() {
                end.transactions += 1;
                let id = hit.row.id;
                let mut shown = convert::exported(hit, search.payload);
                this.resolve(id, &mut shown.summary)?;
                return Ok(Some(Exporting::Found(Box::new(shown))));
            }
            let left = search.limit.saturating_sub(end.transactions as usize);
            if left == 0 || !more {
                ended = true;
                end.cut = after.is_some();
                end.missing = this.missing(&query)?;
                end.next = after.map(|cursor: weir_tracker::Cursor| cursor.to_string());
                return Ok(Some(Exporting::End(end.clone())));
            }
            let limit = left.min(EXPORT_PAGE);
            let page = weir_tracker::Page {
                limit,
                after,
                budget: search.timeout,
                payload: search.payload,
            };
            let found = this.index()?.search(&query, &page).map_err(failure)?;
            (after, more) = (found.next, found.next.is_some());
            end.incomplete |= found.incomplete;
            read = found.hits.into();
            Ok(Some(Exporting::Later))
        }))
    }

    /// Reads the whole journal.
    pub(crate) fn verify(self: &Arc<Self>) -> Verify {
        verify(Arc::clone(&self.journal), &self.recovery)
    }

    /// Follows what is recorded from now on.
    ///
    /// # Errors
    /// There is no index.
    pub(crate) fn tail(&self) -> Result<Tail, Failure> {
        let mut tail = self.index()?.follow();
        Ok(Box::new(move || {
            let ended = tail.next(LONGEST_PAGE).map_err(failure)?;
            Ok(ended.iter().map(convert::summary).collect())
        }))
    }

    /// As the admin API asks it.
    pub(crate) fn doors(self: &Arc<Self>) -> weir_admin::tracker::Tracker {
        let (state, show) = (Arc::clone(self), Arc::clone(self));
        let (search, tail) = (Arc::clone(self), Arc::clone(self));
        let (body, count) = (Arc::clone(self), Arc::clone(self));
        let (export, verify) = (Arc::clone(self), Arc::clone(self));
        weir_admin::tracker::Tracker {
            journal: Box::new(move |()| state.state()),
            show: Box::new(move |(id, payload)| show.show(*id, *payload)),
            search: Box::new(move |wanted| search.search(wanted)),
            body: Box::new(move |(id, side)| body.body(*id, *side)),
            count: Box::new(move |(search, keys)| count.count(search, *keys)),
            export: Box::new(move |wanted| export.export(wanted)),
            tail: Box::new(move || tail.tail()),
            verify: Box::new(move || verify.verify()),
        }
    }
}

/// How a configuration has its journal indexed; not at all if it is none.
pub(crate) fn index_settings(config: &Config) -> Option<weir_tracker::Settings> {
    let depth = match config.tracker.index {
        IndexDepth::None => return None,
        IndexDepth::Keys => Depth::Keys,
        IndexDepth::Payload => Depth::Payload,
    };
    let keys = Arc::clone(&config.tracker.keys);
    let total_stage = stage::TOTAL;
    Some(weir_tracker::Settings { depth, keys, total_stage, ..weir_tracker::Settings::default() })
}

/// The query of a search, if whoever asks may ask it.
fn query(search: &Search) -> Result<Query, SearchFailure> {
    let query = understood(&search.query)?;
    if query.needs_payload() && !search.payload {
        return Err(SearchFailure::NeedsPayload);
    }
    Ok(query)
}

/// A query as it is understood now.
///
/// # Errors
/// It is wrong.
pub(crate) fn understood(query: &str) -> Result<Query, SearchFailure> {
    Query::parse(query, now_us()).map_err(|error| SearchFailure::Query {
        place: [error.at, error.end],
        message: match error.hint {
            Some(hint) => format!("{}; {hint}", error.message),
            None => error.message,
        },
    })
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::Unreadable(error.to_string())
}
