//! A durable, checksummed log of transactions.
//!
//! A journal is a folder with one lane per worker; a lane is a sequence of preallocated segments. A
//! worker appends `received`, `part` and `completed` records to its lane; readers return assembled
//! transactions in the order in which they were completed. When an append returns, the record is in
//! the page cache and survives the end of the process.
//!
//! The modules in the order of a record: `record` has its fields, `format` the frames and segments
//! around it. `lane` appends it to a segment that `preallocator` has prepared; `lane_state` is shared
//! by the writer, readers and threads. `catalog` lists the segments of a lane, `files` has their
//! names, and `segment` reads them. `reader` assembles transactions for a `follower` and its
//! `checkpoint`; `backlog` bounds what is kept for it. `maintenance` seals full segments, drops old files and syncs; `manifest` records
//! which files should exist. `journal` opens a folder after `recovery`; `handover` passes it on to
//! another process while this one still writes; `sealed_files` are copies of sealed segments.
//!
//! ```no_run
//! use weir_journal::{Completed, Journal, Outcome, Position, Received, Settings, Side};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (journal, mut lanes, report) = Journal::open("data".as_ref(), Settings::default())?;
//! eprintln!("{} interrupted", report.interrupted);
//! let lane = &mut lanes[0];
//! let received = Received { id: [7; 16], method: "POST", target: "/a", ..Received::default() };
//! let handle = lane.start(&received)?;
//! lane.part(handle, Side::Request, b"{}")?;
//! let completed = Completed { outcome: Outcome::Completed, status: 200, ..Completed::default() };
//! lane.complete(handle, &completed)?;
//! // Or all of it in one append:
//! lane.append(&received, &completed)?;
//! let mut reader = journal.reader(0, Position::START);
//! while let Some(transaction) = reader.next_transaction()? {
//!     println!("{} {}", transaction.method, transaction.status);
//! }
//! # Ok(()) }
//! ```

mod backlog;
mod catalog;
mod checkpoint;
pub mod counted;
mod data_lock;
mod durable;
pub mod failpoint;
mod files;
mod follower;
mod format;
mod handover;
mod journal;
mod journal_state;
mod lane;
mod lane_state;
mod maintenance;
mod manifest;
mod os;
mod preallocator;
mod reader;
mod record;
mod recovery;
mod sealed_files;
mod segment;
mod settings;
mod snapshot;
mod statistics;

pub use backlog::Skipped;
pub use checkpoint::damaged_checkpoints;
pub use data_lock::{DataLock, Error};
pub use durable::NotDurable;
pub use follower::{Follower, Lag};
pub use format::{Address, Position};
pub use journal::{Absence, Journal};
pub use lane::{Lane, Refused, Reservation, TransactionHandle};
pub use lane_state::LaneProgress;
pub use manifest::MissingFile;
pub use os::atomic_file::{create_folder, if_exists, sync_folder};
pub use os::schedule::{run_when_idle, use_short_time_slices};
pub use reader::Reader;
pub use record::call::CallRecord;
pub use record::undecoded::{Text, Undecoded};
pub use record::{BodyMetadata, Completed, Discarded, Received, Side, Transaction, Withheld};
pub use recovery::{Damage, RecoveryReport};
pub use sealed_files::{SEALED_EXTENSIONS, SealedSegment, lane_folder, sealed_path};
pub use settings::{Durability, Settings};
pub use snapshot::Unfinished;
pub use statistics::Statistics;
pub use weir_model::Outcome;

#[cfg(test)]
mod tests;
