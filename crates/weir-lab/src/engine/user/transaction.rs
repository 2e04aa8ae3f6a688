//! Transactions: several samples as one.

use super::User;
use crate::program::{Label, Text};
use crate::sample::{ErrorKind, Outcome, Sample};

/// An open transaction.
#[derive(Debug, Default)]
pub(in crate::engine) struct Transaction {
    label: Label,
    with_pauses: bool,
    /// Its samples are not counted separately.
    pub(in crate::engine) parent_only: bool,
    start: u64,
    /// Service times of its samples, nanoseconds.
    time: u64,
    idle: u64,
    samples: u32,
    failed: u32,
    /// Status of the first failed sample.
    status: u16,
    connect: u64,
    latency: u64,
    received: u64,
    body: u64,
    decoded: u64,
    sent: u64,
}

impl Transaction {
    pub(super) fn paused(&mut self, nanoseconds: u64) {
        self.idle += nanoseconds;
    }

    /// Adds one of its samples.
    pub(in crate::engine) fn add(&mut self, sample: &Sample<'_>) {
        self.time += sample.service();
        self.samples += 1;
        if let Outcome::Error(_) = sample.outcome {
            if self.failed == 0 {
                self.status = sample.status;
            }
            self.failed += 1;
        }
        self.connect += sample.connect;
        self.latency += sample.first_byte.saturating_sub(sample.start);
        self.received += sample.received;
        self.body += sample.body;
        self.decoded += sample.decoded;
        self.sent += sample.sent;
    }
}

impl User {
    pub(super) fn start_transaction(
        &mut self,
        (label, name): (Label, Option<&Text>),
        with_pauses: bool,
        parent_only: bool,
    ) {
        let label = name.map_or(label, |name| self.label(name, true));
        self.transactions.push(Transaction {
            label,
            with_pauses,
            parent_only,
            start: self.now,
            ..Transaction::default()
        });
    }

    /// Ends the innermost transaction.
    pub(super) fn end_transaction(&mut self) {
        self.count_transaction(false);
    }

    /// Ends the innermost transaction in the middle: it has the success of the last sample.
    pub(super) fn interrupt_transaction(&mut self) {
        self.count_transaction(true);
    }

    /// Ends the innermost transaction, which does not count.
    pub(super) fn drop_transaction(&mut self) {
        self.transactions.pop();
    }

    fn count_transaction(&mut self, interrupted: bool) {
        let Some(ended) = self.transactions.pop() else { return };
        let in_parent = self.transactions.iter().any(|outer| outer.parent_only);
        // As in JMeter: before the first sampler of a user, only a transaction that replaces its
        // samples is counted.
        if in_parent || self.samplers == 0 && !ended.parent_only {
            return;
        }
        let last_success = self.last_success;
        if ended.parent_only {
            self.set_success(ended.failed == 0);
        }
        let mut recorder = self.events.recorder.borrow_mut();
        recorder.start_sample(ended.label);
        let time = if ended.with_pauses { self.now - ended.start } else { ended.time };
        let (group_users, all_users) = self.events.active(self.group.index);
        let (samples, failed) = (ended.samples, ended.failed);
        let message = if recorder.has_sink() || failed > 0 {
            format!(
                "Number of samples in transaction : {samples}, number of failing samples : {failed}"
            )
        } else {
            String::new()
        };
        let good = if interrupted && !ended.parent_only { last_success } else { failed == 0 };
        let sample = Sample {
            label: ended.label,
            group: self.group.index as u32,
            user: self.number,
            intended: ended.start,
            start: ended.start,
            connect: ended.connect,
            first_byte: ended.start + ended.latency,
            end: ended.start + time,
            idle: if ended.with_pauses { 0 } else { ended.idle },
            outcome: if good { Outcome::Ok } else { Outcome::Error(ErrorKind::Transaction) },
            // As in JMeter: only a transaction that replaces its samples has their status.
            status: match (good, ended.parent_only) {
                (true, false) if interrupted => 0,
                (true, _) => 200,
                (false, true) => ended.status,
                (false, false) => 0,
            },
            received: ended.received,
            body: ended.body,
            decoded: ended.decoded,
            sent: ended.sent,
            message: &message,
            check: "",
            url: "",
            content_type: "",
            group_users,
            all_users,
            transaction: true,
        };
        recorder.add(&sample, b"");
    }
}
