//! The Monitor: usage metering, with every call counted exactly once.
//!
//! A [`Counter`], run by a thread of the caller, follows the journal. It adds calls up in buckets of a
//! minute, an hour and a day, for each combination of consumer, API, operation, plan and class of
//! status. About once a second it writes the sums and the journal position in one transaction of the
//! [database](weir_store). A crash before that changes neither, so no call is counted twice or left
//! out. A [`Monitor`] reports usage on any thread.
//!
//! A call belongs to the minute in which it was received, by the clock of that moment. A late call,
//! or one of a clock that was changed, is added to its minute: hours and days are written together
//! with minutes, never computed from them later.
//!
//! The number of combinations of a day (its cardinality) is limited. Further calls are counted as
//! `(other)` operations of their consumer and plan; beyond twice the limit, as `(other)` of
//! everything.
//!
//! ```no_run
//! use std::sync::Arc;
//! use std::time::Duration;
//! use weir_monitor::{Monitor, Settings, Usage};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (journal, _, _) = weir_journal::Journal::open("data".as_ref(), Default::default())?;
//! let keep = Duration::from_secs(400 * 86_400);
//! let settings = Settings { keep, cardinality: 10_000, ..Settings::default() };
//! let (monitor, mut counter) = Monitor::open("data".as_ref(), Arc::new(journal), settings)?;
//! counter.catch_up()?; // in a thread, with a pause when nothing is left
//! for row in monitor.usage(&Usage::default())?.rows {
//!     println!("{} {}", row.calls, row.p90_us);
//! }
//! # Ok(()) }
//! ```

pub mod billing;
mod bucket;
pub mod collect;
mod counter;
mod error;
mod money;
mod monitor;
mod price_list;
mod quota;
mod rebuild;
pub mod replica;
mod sketch;
mod tally;
mod usage;

pub use bucket::{DAY, HOUR};
pub use counter::{Counter, FOLLOWER as COUNTER_FOLLOWER, Recorded, Settings, Statistics};
pub use error::MonitorError;
pub use money::Money;
pub use monitor::Monitor;
pub use quota::QuotaUse;
pub use rebuild::{CounterCommand, RebuildReport, Rebuilt};
pub use tally::{Charge, Price};
pub use usage::{
    Group, MAX_ROWS, Report, Row, StatusClass, Unreported, Usage, UsageError, UsageQuery, time,
};

#[cfg(test)]
mod tests;
