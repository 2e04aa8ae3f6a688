//! What was seen of server and host.

use super::{PAUSES, SERVER};
use crate::results::ServerRow;

/// What was seen of server and host in a round. Shares are added up by the time they were seen for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) server: f64,
    pub(super) busiest: f64,
    pub(super) cpu: f64,
    pub(super) memory: u64,
    pub(super) host: f64,
    pub(super) steal: f64,
    /// Seconds that a JVM paused to collect garbage, if that was looked at.
    pub(super) paused: Option<f64>,
    /// Times of the last rows of server and host.
    last: (f64, f64),
}

impl Seen {
    pub(super) fn add(&mut self, row: &ServerRow, cut: f64) {
        if row.subject == PAUSES {
            let paused = row.gauge.unwrap_or_default() / 1e3;
            self.paused = Some(self.paused.unwrap_or_default() + paused);
        } else if row.subject == SERVER {
            let time = row.time - self.last.0.max(cut);
            self.server += time;
            self.busiest += time * row.busiest_thread.unwrap_or_default();
            self.cpu += time * row.cpu.unwrap_or_default();
            self.memory = self.memory.max(row.memory.unwrap_or_default());
            self.last.0 = row.time;
        } else if let Some(steal) = row.steal {
            let time = row.time - self.last.1.max(cut);
            self.host += time;
            self.steal += time * steal;
            self.last.1 = row.time;
        }
    }

    /// Nothing yet, later in the same round.
    pub(super) fn next(&self) -> Self {
        Self { last: self.last, ..Self::default() }
    }

    /// Adds what was seen in another round.
    pub(super) fn merge(&mut self, other: &Self) {
        self.server += other.server;
        self.busiest += other.busiest;
        self.cpu += other.cpu;
        self.memory = self.memory.max(other.memory);
        self.host += other.host;
        self.steal += other.steal;
        if let Some(paused) = other.paused {
            self.paused = Some(self.paused.unwrap_or_default() + paused);
        }
    }

    /// Share of a core that the server's busiest thread used.
    pub(super) fn busiest(&self) -> Option<f64> {
        (self.server > 0.0).then(|| self.busiest / self.server)
    }
}
