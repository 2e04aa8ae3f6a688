//! The database of a data folder, `weir.db`: data that outlives the retention of the journal.
//!
//! It has counts and prices (weir-monitor), queued events (weir-events), attempts, resolutions and
//! jobs ([`ledger`]), the [audit log](audit), [gaps], [revoked API keys](revoked_keys), and the [configurations] that were in force. It never has payloads. All steps of its
//! schema are here, in one ordered list. Queries of counts and events are in the crates of their code.

pub mod audit;
pub mod clock;
pub mod configurations;
mod database;
pub mod gaps;
pub mod ledger;
pub mod revoked_keys;
pub mod views;

pub use database::{
    StoreError, copy, damage, describe, exists, in_memory, is_in_use, move_aside, open,
};
