//! The Tracker of a data folder: the journal with its index, ledger and gaps. Its methods may block.

mod export;

pub use export::{Export, ExportStep};

use crate::document::{Hit, Page, Summary, Transaction};
use crate::index::Index;
use crate::journal_state::JournalState;
use crate::query::{Query, QueryError};
use crate::search::{self, Counts, Difference, Profile, REMOTE_TIMEOUT, Tail};
use crate::verification::Verification;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use weir_journal::{Absence, Journal, RecoveryReport};
use weir_store::clock::now_us;
use weir_store::gaps::{Gap, Gaps};
use weir_store::ledger::{History, Ledger};

/// Default timeout of a search.
pub const SEARCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest timeout of a search.
pub const MAX_SEARCH_TIMEOUT: Duration = Duration::from_secs(30);

/// Access to recorded transactions.
#[derive(Debug)]
pub struct Tracker {
    journal: Arc<Journal>,
    index: Option<Index>,
    recovery: RecoveryReport,
    /// Attempts and resolutions, if they can be read.
    ledger: Option<Ledger>,
    gaps: Gaps,
}

/// Direction of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// From the client.
    Request,
    /// To the client.
    Response,
}

/// A search.
#[derive(Clone, Debug)]
pub struct Search {
    /// The query.
    pub query: String,
    /// Maximum number of transactions, 1 to [`MAX_PAGE_HITS`](crate::MAX_PAGE_HITS).
    pub limit: usize,
    /// The cursor of the previous page.
    pub cursor: Option<String>,
    /// Whether the query may search payloads.
    pub payload: bool,
    /// Whether hits have their business keys, which only those with access to payloads may see.
    pub keys: bool,
    /// Only transactions of these APIs; empty: all.
    pub apis: Vec<String>,
    /// The timeout.
    pub timeout: Duration,
}

/// Why recorded transactions cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrackerError {
    /// Files cannot be read; the text says which and why.
    #[error("{0}")]
    Unreadable(String),
    /// There is no index.
    #[error("indexing is off: `tracker.index` is none")]
    NotIndexed,
    /// The index is too far behind, or is being rebuilt.
    #[error("the index lags behind, so it is unknown whether the transaction exists")]
    Behind,
}

impl TrackerError {
    /// Files or the database cannot be read.
    pub fn unreadable(error: impl Display) -> Self {
        Self::Unreadable(error.to_string())
    }
}

/// Why a search failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// The query is invalid.
    #[error("invalid query: {0}")]
    Query(#[from] QueryError),
    /// The cursor is invalid.
    #[error("invalid cursor")]
    Cursor,
    /// The query searches payloads without permission.
    #[error("the query needs payload access")]
    NeedsPayload,
    /// Data could not be read.
    #[error(transparent)]
    Tracker(#[from] TrackerError),
}

impl Search {
    fn parse(&self) -> Result<Query, SearchError> {
        parse(&self.query, self.payload, &self.apis)
    }

    /// The position to continue from.
    pub(crate) fn position(&self) -> Result<Option<search::Cursor>, SearchError> {
        let cursor = self.cursor.as_ref().map(|text| text.parse()).transpose();
        cursor.map_err(|_| SearchError::Cursor)
    }
}

/// A query, if its sender may execute it, narrowed to some APIs unless that is none. Without payloads, a text
/// that is an id is only that.
pub(crate) fn parse(text: &str, payload: bool, apis: &[String]) -> Result<Query, SearchError> {
    let query = Query::parse(text, now_us())?;
    let query = if payload { query } else { query.ids_only() };
    if query.needs_payload() && !payload {
        return Err(SearchError::NeedsPayload);
    }
    Ok(query.of_apis(apis))
}

/// Whether somebody may read a query: they could execute it, and it names no API but these; any if there are
/// none.
#[must_use]
pub fn is_permitted(text: &str, payload: bool, apis: &[String]) -> bool {
    parse(text, payload, &[]).is_ok_and(|query| query.names_only(apis))
}

impl Tracker {
    /// Default timeout of a search: longer if it may have to fetch parts and segments.
    #[must_use]
    pub fn search_timeout(&self) -> Duration {
        match self.index.as_ref().is_some_and(Index::is_remote) {
            true => REMOTE_TIMEOUT,
            false => SEARCH_TIMEOUT,
        }
    }

    /// Combines the parts; without an index there are no searches, without a ledger no attempts and
    /// resolutions.
    #[must_use]
    pub fn new(
        journal: Arc<Journal>,
        index: Option<Index>,
        recovery: RecoveryReport,
        ledger: Option<Ledger>,
        gaps: Gaps,
    ) -> Arc<Self> {
        Arc::new(Self { journal, index, recovery, ledger, gaps })
    }

    fn index(&self) -> Result<&Index, TrackerError> {
        self.index.as_ref().ok_or(TrackerError::NotIndexed)
    }

    /// The state of the journal.
    ///
    /// # Errors
    /// Checkpoints of followers cannot be read.
    pub fn journal_state(&self) -> Result<JournalState, TrackerError> {
        let lags = self.journal.lags().map_err(TrackerError::unreadable)?;
        let index = self.index.as_ref().map(|index| index.statistics(now_us())).unwrap_or_default();
        Ok(JournalState::new(self.journal.statistics(), &self.recovery, lags, index))
    }

    fn find(&self, id: u128) -> Result<Option<search::Hit>, TrackerError> {
        self.index()?.find(id).map_err(|error| match error {
            crate::Error::Behind => TrackerError::Behind,
            error => TrackerError::unreadable(error),
        })
    }

    /// A transaction, with its payload if permitted; `None` if it is not stored.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn show(&self, id: u128, payload: bool) -> Result<Option<Transaction>, TrackerError> {
        let Some(hit) = self.find(id)? else { return Ok(None) };
        if hit.transaction.is_none() && hit.absence == Absence::Dropped {
            return Ok(None);
        }
        let mut transaction = Transaction::of_hit(hit, payload);
        if let Some(ledger) = &self.ledger {
            let history = ledger.history(id).map_err(TrackerError::unreadable)?;
            transaction.add_history(history, payload);
        }
        Ok(Some(transaction))
    }

    /// A page of the result of a query.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn search(&self, search: &Search) -> Result<Page, SearchError> {
        let query = search.parse()?;
        let page = search::Page {
            limit: search.limit,
            after: search.position()?,
            budget: search.timeout,
            payload: search.keys,
        };
        let found = self.index()?.search(&query, &page).map_err(TrackerError::unreadable)?;
        let mut transactions = Vec::with_capacity(found.hits.len());
        for hit in found.hits {
            let mut hit = Hit::of_hit(hit, search.keys);
            self.add_resolution(&mut hit.summary)?;
            transactions.push(hit);
        }
        Ok(Page {
            transactions,
            next: found.next.map(|cursor| cursor.to_string()),
            cut: found.cut,
            incomplete: found.incomplete || found.cut,
            payload: query.needs_payload() || search.keys,
            missing: self.missing(&query)?,
            nodes: None,
        })
    }

    /// The gaps of the period of a query.
    fn missing(&self, query: &Query) -> Result<Gap, TrackerError> {
        let (from, to) = query.times();
        let seconds = (from / 1_000_000, (to / 1_000_000).saturating_add(1));
        self.gaps.between(seconds.0, seconds.1).map_err(TrackerError::unreadable)
    }

    /// Adds the resolution of a transaction, if it has one.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn add_resolution(&self, summary: &mut Summary) -> Result<(), TrackerError> {
        if let Some(ledger) = self.ledger.as_ref().filter(|_| summary.state != "completed")
            && let Some(resolution) =
                ledger.resolution(summary.id.0).map_err(TrackerError::unreadable)?
        {
            summary.resolution = resolution.to_string();
        }
        Ok(())
    }

    /// Adds the resolutions of a transaction that was read elsewhere; its attempts are where it was recorded.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn add_resolutions(&self, transaction: &mut Transaction) -> Result<(), TrackerError> {
        if let Some(ledger) = &self.ledger {
            let id = transaction.summary.id.0;
            let history = ledger.history(id).map_err(TrackerError::unreadable)?;
            transaction.add_history(History { attempts: Vec::new(), ..history }, false);
        }
        Ok(())
    }

    /// The recorded bytes of a body; `None` if the transaction is not stored.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn body(&self, id: u128, side: Side) -> Result<Option<Vec<u8>>, TrackerError> {
        Ok(self.find(id)?.and_then(|hit| hit.transaction).map(|transaction| match side {
            Side::Request => transaction.request_body,
            Side::Response => transaction.response_body,
        }))
    }

    /// Counts the result of a query; with facets of business keys if `keys`.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn count(&self, search: &Search, keys: bool) -> Result<Counts, SearchError> {
        let query = search.parse()?;
        let counts = self.index()?.count(&query, search.timeout, keys);
        let counts = counts.map_err(TrackerError::unreadable)?;
        Ok(Counts {
            incomplete: counts.incomplete || counts.cut,
            payload: keys || query.needs_payload(),
            ..counts
        })
    }

    /// Rate, outcomes and durations of the result of a query over time.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn profile(&self, search: &Search) -> Result<Profile, SearchError> {
        let query = search.parse()?;
        let found = self.index()?.profile(&query, search.timeout);
        let payload = query.needs_payload();
        Ok(Profile { payload, ..found.map_err(TrackerError::unreadable)? })
    }

    /// What distinguishes the result of a query from the other results of `among`; with business keys if `keys`.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn difference(
        &self,
        search: &Search,
        among: &str,
        keys: bool,
    ) -> Result<Difference, SearchError> {
        let (group, among) = (search.parse()?, parse(among, search.payload, &search.apis)?);
        let found = self.index()?.difference(&group, &among, search.timeout, keys);
        let payload = keys || group.needs_payload() || among.needs_payload();
        Ok(Difference { payload, ..found.map_err(TrackerError::unreadable)? })
    }

    /// Verifies the journal.
    #[must_use]
    pub fn verify(&self) -> Verification {
        Verification::new(Arc::clone(&self.journal), &self.recovery)
    }

    /// Follows transactions that end from now on, or after the cursor of an earlier tail, and match a
    /// query, and whether the query searches payloads, which `payload` permits; of all APIs if `apis` is empty.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn tail(
        &self,
        query: &str,
        payload: bool,
        apis: &[String],
        after: Option<&str>,
    ) -> Result<(Tail, bool), SearchError> {
        let query = parse(query, payload, apis)?;
        let after = after.map(str::parse).transpose().map_err(|_| SearchError::Cursor)?;
        let needs_payload = query.needs_payload();
        Ok((self.index()?.follow(query, after.as_ref()), needs_payload))
    }
}
