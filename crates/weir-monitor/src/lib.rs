//! The Monitor: counts of calls, exactly once each.
//!
//! A [`Counter`], driven by a thread of the caller's, follows the journal and adds up what ends in
//! buckets of a minute, an hour and a day, each for a consumer, an API, an operation, a plan and a
//! class of status. Every second or so it writes what it has added up, together with how far it has
//! read, in one transaction of the [database](weir_store): a crash before that leaves both as they
//! were, so nothing is counted twice and nothing is left out. A [`Monitor`] answers questions about
//! usage, whatever thread asks.
//!
//! A call belongs to the minute in which it was received, by the clock of that moment. One that
//! comes late, or from a clock that was set, is added where it belongs: hours and days are written
//! beside minutes, never made from them later.
//!
//! How many combinations a day may have is limited. Beyond that calls are counted as `(other)`
//! operations of their consumer and plan, and beyond twice as many as `(other)` of everything.
//!
//! ```no_run
//! use std::sync::Arc;
//! use weir_monitor::{Monitor, Settings, Usage};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (journal, _, _) = weir_journal::Journal::open("data".as_ref(), Default::default())?;
//! let settings = Settings::default();
//! let (monitor, mut counter) = Monitor::open("data".as_ref(), Arc::new(journal), settings)?;
//! counter.catch_up()?; // in a thread, with a pause when there is nothing to do
//! for row in monitor.usage(&Usage::default())?.rows {
//!     println!("{} {}", row.calls, row.percentiles[1]);
//! }
//! # Ok(()) }
//! ```

pub mod billing;
mod bucket;
mod counter;
mod error;
mod monitor;
mod quota;
mod rebuild;
mod sketch;
mod tally;
mod usage;

pub use bucket::OTHER;
pub use counter::{Counter, Settings, Statistics};
pub use error::MonitorError;
pub use monitor::Monitor;
pub use quota::Used;
pub use rebuild::Rebuilt;
pub use tally::{Call, Price};
pub use usage::{Group, MOST_ROWS, Report, Row, Usage, UsageError};

#[cfg(test)]
mod tests;
