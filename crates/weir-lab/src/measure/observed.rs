//! Observed figures of server and host.

use super::{PAUSES, SERVER};
use crate::results::ServerRow;

/// Observed figures of server and host in a round. Shares are weighted by the observed time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ObservedLoad {
    pub(super) server: f64,
    pub(super) busiest: f64,
    pub(super) cpu: f64,
    /// Seconds that threads of the server waited for a core.
    waited: f64,
    pub(super) memory: u64,
    pub(super) descriptors: u64,
    pub(super) host: f64,
    /// Busy core-seconds of the machine, and of the observed processes.
    pub(super) busy: f64,
    pub(super) watched: f64,
    pub(super) steal: f64,
    /// Seconds of garbage collection pauses of a JVM, if observed.
    pub(super) paused: Option<f64>,
    /// Time of the last sample, and time since the sample before.
    last_sample: f64,
    since: f64,
}

impl ObservedLoad {
    pub(super) fn add(&mut self, row: &ServerRow, cut: f64) {
        // Rows of one sample have the same time.
        if row.time > self.last_sample {
            (self.since, self.last_sample) = (row.time - self.last_sample.max(cut), row.time);
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
            self.waited += time * row.waiting_threads.unwrap_or_default();
            self.memory = self.memory.max(row.memory.unwrap_or_default());
            self.descriptors = self.descriptors.max(row.descriptors.unwrap_or_default());
        }
    }

    /// Empty figures for the rest of the round.
    pub(super) fn reset(&self) -> Self {
        Self { last_sample: self.last_sample, ..Self::default() }
    }

    /// Adds the figures of another round.
    pub(super) fn merge(&mut self, other: &Self) {
        self.server += other.server;
        self.busiest += other.busiest;
        self.cpu += other.cpu;
        self.waited += other.waited;
        self.memory = self.memory.max(other.memory);
        self.descriptors = self.descriptors.max(other.descriptors);
        self.host += other.host;
        self.busy += other.busy;
        self.watched += other.watched;
        self.steal += other.steal;
        if let Some(paused) = other.paused {
            self.paused = Some(self.paused.unwrap_or_default() + paused);
        }
    }

    /// Other programs cannot be told from the server.
    pub(super) fn forget_others(&mut self) {
        self.watched = 0.0;
    }

    /// Cores used by other processes of this machine, besides the observed processes and
    /// `generator` core-seconds of the Lab.
    pub(super) fn others(&self, generator: f64) -> Option<f64> {
        let others = self.busy - self.watched - generator;
        (self.host > 0.0 && self.watched > 0.0).then(|| (others / self.host).max(0.0))
    }

    /// Threads of the server that waited for a core because of other processes, on average. Of all waits, others
    /// cause a share as large as theirs of the machine's busy time: the rest is the server's own and the generator's.
    pub(super) fn waiting_for_others(&self, generator: f64) -> f64 {
        let others = self.others(generator).unwrap_or_default() * self.host;
        if self.server > 0.0 && others > 0.0 {
            self.waited / self.server * others / self.busy
        } else {
            0.0
        }
    }

    /// CPU of the server's busiest thread, as a share of a core.
    pub(super) fn busiest(&self) -> Option<f64> {
        (self.server > 0.0).then(|| self.busiest / self.server)
    }
}
