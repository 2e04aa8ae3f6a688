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
    /// Core-seconds that the whole machine was busy, and those of the processes that were watched.
    pub(super) busy: f64,
    pub(super) watched: f64,
    pub(super) steal: f64,
    /// Seconds that a JVM paused to collect garbage, if that was looked at.
    pub(super) paused: Option<f64>,
    /// When it was looked last, and how long after the look before.
    look: f64,
    since: f64,
}

impl Seen {
    pub(super) fn add(&mut self, row: &ServerRow, cut: f64) {
        // Rows of one look have the same time.
        if row.time > self.look {
            (self.since, self.look) = (row.time - self.look.max(cut), row.time);
        }
        let (time, cpu) = (self.since, row.cpu.unwrap_or_default());
        if row.subject == PAUSES {
            let paused = row.gauge.unwrap_or_default() / 1e3;
            self.paused = Some(self.paused.unwrap_or_default() + paused);
        } else if let Some(steal) = row.steal {
            self.host += time;
            self.busy += time * cpu;
            self.steal += time * steal;
        } else {
            self.watched += time * cpu;
        }
        if row.subject == SERVER {
            self.server += time;
            self.busiest += time * row.busiest_thread.unwrap_or_default();
            self.cpu += time * cpu;
            self.memory = self.memory.max(row.memory.unwrap_or_default());
        }
    }

    /// Nothing yet, later in the same round.
    pub(super) fn next(&self) -> Self {
        Self { look: self.look, ..Self::default() }
    }

    /// Adds what was seen in another round.
    pub(super) fn merge(&mut self, other: &Self) {
        self.server += other.server;
        self.busiest += other.busiest;
        self.cpu += other.cpu;
        self.memory = self.memory.max(other.memory);
        self.host += other.host;
        self.busy += other.busy;
        self.watched += other.watched;
        self.steal += other.steal;
        if let Some(paused) = other.paused {
            self.paused = Some(self.paused.unwrap_or_default() + paused);
        }
    }

    /// Cores that others of this machine used, beside the processes that were watched and
    /// `generator` core-seconds of our own.
    pub(super) fn others(&self, generator: f64) -> Option<f64> {
        let others = self.busy - self.watched - generator;
        (self.host > 0.0 && self.watched > 0.0).then(|| (others / self.host).max(0.0))
    }

    /// Share of a core that the server's busiest thread used.
    pub(super) fn busiest(&self) -> Option<f64> {
        (self.server > 0.0).then(|| self.busiest / self.server)
    }
}
