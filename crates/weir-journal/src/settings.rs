//! How a journal is kept.

use std::time::Duration;

/// When an appended record survives what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process: at once. The end of the machine: once the system has written the
    /// page cache back.
    #[default]
    Process,
    /// The end of the machine, once [`crate::Lane::poll_durable`] reports it: lanes are synced in
    /// groups.
    Disk,
}

/// How a journal is kept.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Lanes to write to, one per worker.
    pub lanes: u16,
    /// Length of a segment in bytes; rounded up to a multiple of 4096.
    pub segment_bytes: u32,
    /// Maximum size of the whole journal in bytes. Each lane needs three segments.
    pub disk_bytes: u64,
    /// What an append guarantees.
    pub durability: Durability,
    /// A segment of this age is sealed even if it is not full.
    pub seal_after: Duration,
    /// Retention of heads and bodies of completed transactions.
    pub keep_completed: Duration,
    /// Retention of failed and interrupted transactions, and of all metadata.
    pub keep_failed: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            lanes: 1,
            segment_bytes: 16 << 20,
            disk_bytes: 50 << 30,
            durability: Durability::Process,
            seal_after: Duration::from_secs(60 * 60),
            keep_completed: 7 * DAY,
            keep_failed: 90 * DAY,
        }
    }
}
