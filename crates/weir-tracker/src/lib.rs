//! The Tracker's search: finds recorded transactions by any word in them.
//!
//! The journal is the truth; this is a view of it that can be deleted and is made again. An
//! [`Indexer`], driven by a thread of the caller's, follows the journal; an [`Index`] answers
//! [queries](query), whatever thread asks. Metadata are columns, which decide exactly. Words and
//! business keys are kept for blocks of 64 neighbouring transactions; those of a block that may
//! be hits are read from the journal and checked, which also gives highlights. What the indexer
//! has not come to yet is found by reading the end of the journal.
//!
//! ```no_run
//! use std::sync::Arc;
//! use weir_tracker::{Index, Page, Query, Settings};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (journal, lanes, _) = weir_journal::Journal::open("data".as_ref(), Default::default())?;
//! let (index, mut indexer) = Index::open("data".as_ref(), Arc::new(journal), Settings::default())?;
//! while indexer.step(4096)? > 0 {} // in a thread, with a pause when there is nothing to do
//! let query = Query::parse("status:>=500 body:\"acme corp\"", 0)?;
//! let found = index.search(&query, &Page::default())?;
//! for hit in &found.hits {
//!     println!("{:032x} {}", hit.row.id, hit.row.status);
//! }
//! # Ok(()) }
//! ```

mod content;
mod error;
mod field;
mod index;
mod keys;
mod part;
pub mod query;
mod search;
mod tokenizer;

pub use content::{Readable, payload_bytes, readable};
pub use error::Error;
pub use field::Name;
pub use index::{Index, Indexer, Settings, Statistics, stored_depth};
pub use keys::read_keys;
pub use part::block::Depth;
pub use part::row::{Row, transaction_type};
pub use query::{Query, QueryError};
pub use search::{
    BadCursor, Cursor, Facet, Highlight, Hit, Hits, LONGEST_PAGE, Page, Summary, Tail,
};

#[cfg(test)]
mod tests;
