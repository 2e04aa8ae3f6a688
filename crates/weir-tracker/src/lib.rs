//! The Tracker: full-text search of recorded transactions.
//!
//! The journal is the source of truth. The index is derived from it: it can be deleted and is then
//! built again. An [`Indexer`], run by a thread of the caller, follows the journal. An [`Index`]
//! evaluates [queries](query) on any thread. Metadata is stored in columns, which decide exactly.
//! Words and business keys are stored for blocks of 64 consecutive transactions; candidates in such
//! a block are read from the journal and checked, which also gives highlights. Transactions that are
//! not indexed yet are found by reading the end of the journal.
//!
//! ```no_run
//! use std::sync::Arc;
//! use weir_tracker::{Index, Page, Query, Settings};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (journal, lanes, _) = weir_journal::Journal::open("data".as_ref(), Default::default())?;
//! let (index, mut indexer) = Index::open("data".as_ref(), Arc::new(journal), Settings::default())?;
//! while indexer.step(4096)? > 0 {} // in a thread, with a pause when it returns 0
//! let query = Query::parse("status:>=500 body:\"acme corp\"", 0)?;
//! let found = index.search(&query, &Page::default())?;
//! for hit in &found.hits {
//!     println!("{:032x} {}", hit.row.id, hit.row.status);
//! }
//! # Ok(()) }
//! ```

mod content;
pub mod document;
mod error;
mod field;
mod index;
mod journal_state;
mod keys;
mod nodes;
pub mod opensearch;
mod part;
pub mod query;
mod remote;
mod search;
mod segment_parts;
mod tokenizer;
mod tracker;
mod verification;

pub use content::{header_lines, payload_bytes};
pub use error::Error;
pub use field::Name;
pub use index::{Index, Indexer, Settings, Statistics, stored_depth};
pub use journal_state::JournalState;
pub use keys::read_keys;
pub use part::block::Depth;
pub use part::file::PartHead;
pub use part::row::Row;
pub use query::{Query, QueryError};
pub use remote::{Remote, RemotePart};
pub use search::{
    Attribute, Bucket, Counted, Counts, Cursor, Difference, Durations, Facet, Highlight, Hit, Hits,
    Interval, InvalidCursor, InvalidTailCursor, MAX_PAGE_HITS, Page, Profile, Share,
    SlowTransaction, StageMean, Tail, TailCursor,
};
pub use segment_parts::{PART_FILES, SegmentParts};
pub use tracker::{
    Export, ExportStep, MAX_SEARCH_TIMEOUT, SEARCH_TIMEOUT, Search, SearchError, Side, Tracker,
    TrackerError, is_permitted,
};
pub use verification::{Verification, Verified};

#[cfg(test)]
mod tests;
