//! A durable, checksummed log of transactions.
//!
//! A journal is a folder with one lane per worker; a lane is a row of preallocated segments. A
//! worker appends `received`, `part` and `completed` records to its lane; readers get assembled
//! transactions in the order in which they were completed. A record is in the page cache when
//! append returns, so it survives the process.
//!
//! ```no_run
//! use weir_journal::{Completed, Journal, Outcome, Position, Received, Settings, Side};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (journal, mut lanes, report) = Journal::open("data".as_ref(), Settings::default())?;
//! eprintln!("{} interrupted", report.interrupted);
//! let lane = &mut lanes[0];
//! let received = Received { id: [7; 16], method: "POST", target: "/a", ..Received::default() };
//! let ticket = lane.received(&received)?;
//! lane.part(ticket, Side::Request, b"{}")?;
//! let completed = Completed { outcome: Outcome::Completed, status: 200, ..Completed::default() };
//! lane.completed(ticket, &completed)?;
//! // Or all of it in one append:
//! lane.whole(&received, &completed)?;
//! let mut reader = journal.reader(0, Position::START);
//! while let Some(transaction) = reader.next_transaction()? {
//!     println!("{} {}", transaction.method, transaction.status);
//! }
//! # Ok(()) }
//! ```

mod background;
mod call;
mod carry;
pub mod counted;
mod damage;
mod durable;
pub mod failpoint;
mod files;
mod follower;
mod format;
mod journal;
mod lane;
mod manifest;
mod os;
mod reader;
mod record;
mod recovery;
mod repair;
mod retention;
mod salvage;
mod schedule;
mod seal;
mod sealed;
mod segment;
pub mod stage;
mod supply;

pub use call::CallRecord;
pub use durable::NotDurable;
pub use follower::{DamagedCheckpoint, Follower, Lag};
pub use format::{Address, Position};
pub use journal::{Absence, Durability, Error, Journal, Settings, Statistics};
pub use lane::{Lane, Refused, Room, Ticket};
pub use manifest::{DamagedManifest, MissingFile};
pub use reader::Reader;
pub use record::{BodyFacts, Completed, Outcome, Received, Side, Transaction, Void, Withheld};
pub use recovery::{Damage, RecoveryReport};
pub use repair::{Held, damaged_checkpoints, hold};
pub use schedule::{run_when_idle, take_short_turns};

#[cfg(test)]
mod tests;
