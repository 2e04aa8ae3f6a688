//! Exports: all transactions of a query, page after page.

use super::{Search, SearchError, Tracker, TrackerError};
use crate::document::{Exported, Transaction};
use crate::query::Query;
use crate::search::{self, Cursor};
use std::collections::VecDeque;
use std::sync::Arc;

/// Transactions that an export reads together.
const PAGE_HITS: usize = 64;

/// A step of an export. A transaction is built only when it is needed: its decoded bodies may be
/// much larger than the recorded ones.
#[derive(Clone, Debug)]
pub enum ExportStep {
    /// The next transaction.
    Found(Box<Transaction>),
    /// None yet: a search took its time.
    Pending,
    /// The end.
    End(Exported),
}

/// An export in progress.
#[derive(Debug)]
pub struct Export {
    tracker: Arc<Tracker>,
    search: Search,
    query: Query,
    after: Option<Cursor>,
    /// Read, not returned yet.
    hits: VecDeque<search::Hit>,
    has_more: bool,
    ended: bool,
    end: Exported,
}

impl Tracker {
    /// Exports the result of a query, up to the limit.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn export(self: &Arc<Self>, search: Search) -> Result<Export, SearchError> {
        let (query, after) = (search.parse()?, search.position()?);
        self.index()?;
        Ok(Export {
            tracker: Arc::clone(self),
            search,
            query,
            after,
            hits: VecDeque::new(),
            has_more: true,
            ended: false,
            end: Exported::default(),
        })
    }
}

impl Export {
    /// The next step; `None` after the end. It may block.
    ///
    /// # Errors
    /// Data cannot be read.
    pub fn step(&mut self) -> Result<Option<ExportStep>, TrackerError> {
        if self.ended {
            return Ok(None);
        }
        if let Some(hit) = self.hits.pop_front() {
            self.end.transactions += 1;
            let mut transaction = Transaction::of_hit(hit, self.search.payload);
            self.tracker.add_resolution(&mut transaction.summary)?;
            return Ok(Some(ExportStep::Found(Box::new(transaction))));
        }
        let remaining = self.search.limit.saturating_sub(self.end.transactions as usize);
        if remaining == 0 || !self.has_more {
            self.ended = true;
            self.end.cut = self.after.is_some();
            self.end.missing = self.tracker.missing(&self.query)?;
            self.end.next = self.after.map(|cursor| cursor.to_string());
            return Ok(Some(ExportStep::End(self.end.clone())));
        }
        let page = search::Page {
            limit: remaining.min(PAGE_HITS),
            after: self.after,
            budget: self.search.timeout,
            payload: self.search.payload,
        };
        let found = self.tracker.index()?.search(&self.query, &page);
        let found = found.map_err(TrackerError::unreadable)?;
        (self.after, self.has_more) = (found.next, found.next.is_some());
        self.end.incomplete |= found.incomplete;
        self.hits = found.hits.into();
        Ok(Some(ExportStep::Pending))
    }
}
