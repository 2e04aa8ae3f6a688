//! Transactions: several samples as one.

use super::User;
use crate::program::{Check, CheckKind, Label, Response, Text};
use crate::sample::{ErrorKind, Outcome, Sample};
use std::sync::Arc;
use std::time::Duration;
use weir_wire::Headers;

/// An open transaction.
#[derive(Debug, Default)]
pub(in crate::engine) struct Transaction {
    label: Label,
    with_pauses: bool,
    /// Its samples are not counted separately.
    pub(in crate::engine) parent_only: bool,
    checks: Option<Arc<[Check]>>,
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
            self.fails(sample.status);
        }
        self.connect += sample.connect;
        self.latency += sample.first_byte.saturating_sub(sample.start);
        self.received += sample.received;
        self.body += sample.body;
        self.decoded += sample.decoded;
        self.sent += sample.sent;
    }
}

impl Transaction {
    /// A sample fails.
    fn fails(&mut self, status: u16) {
        if self.failed == 0 {
            self.status = status;
        }
        self.failed += 1;
    }

    /// Its status, if it replaces its samples.
    fn status(&self) -> u16 {
        if self.failed == 0 { 200 } else { self.status }
    }

    fn message(&self) -> String {
        let (samples, failed) = (self.samples, self.failed);
        format!(
            "Number of samples in transaction : {samples}, number of failing samples : {failed}"
        )
    }
}

impl User {
    pub(super) fn start_transaction(
        &mut self,
        (label, name): (Label, Option<&Text>),
        (with_pauses, parent_only): (bool, bool),
        checks: &Arc<[Check]>,
    ) {
        let label = name.map_or(label, |name| self.label(name, true));
        self.transactions.push(Transaction {
            label,
            with_pauses,
            parent_only,
            checks: (!checks.is_empty()).then(|| checks.clone()),
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
        let check = self.check_transaction(&ended);
        let good = check.is_none()
            && if interrupted && !ended.parent_only {
                self.last_success
            } else {
                ended.failed == 0
            };
        if ended.parent_only {
            self.set_success(good);
        }
        let in_parent = self.transactions.iter().any(|outer| outer.parent_only);
        if in_parent && ended.failed == 0 && !good {
            self.transactions.iter_mut().for_each(|outer| outer.fails(200));
        }
        // As in JMeter: before the first sampler of a user, only a transaction that replaces its
        // samples is counted.
        if in_parent || self.samplers == 0 && !ended.parent_only {
            return;
        }
        let mut recorder = self.events.recorder.borrow_mut();
        recorder.start_sample(ended.label);
        let message = if recorder.has_sink() || !good { ended.message() } else { String::new() };
        let (group_users, all_users) = self.events.active(self.group.index);
        let kind = if check.is_some() { ErrorKind::Check } else { ErrorKind::Transaction };
        let time = if ended.with_pauses { self.now - ended.start } else { ended.time };
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
            outcome: if good { Outcome::Ok } else { Outcome::Error(kind) },
            // As in JMeter: only a transaction that replaces its samples has their status.
            status: match (good, ended.parent_only) {
                (true, false) if interrupted => 0,
                (_, true) => ended.status(),
                (true, false) => 200,
                (false, false) => 0,
            },
            received: ended.received,
            body: ended.body,
            decoded: ended.decoded,
            sent: ended.sent,
            message: &message,
            check: check.as_deref().unwrap_or_default(),
            url: "",
            content_type: "",
            group_users,
            all_users,
            transaction: true,
        };
        recorder.add(&sample, b"");
    }

    /// The message of the first failed check of a transaction that replaces its samples.
    fn check_transaction(&mut self, ended: &Transaction) -> Option<String> {
        let checks = ended.checks.as_ref()?;
        let time = if ended.with_pauses { self.now - ended.start } else { ended.time };
        let headers = Headers::default();
        let message = ended.message();
        let response = Response {
            status: ended.status(),
            head: b"",
            reason: Some(&message),
            headers: &headers,
            body: b"",
            bytes: ended.received,
            url: "",
            request_head: b"",
            request_body: b"",
            elapsed: Duration::from_nanos(time),
        };
        let mut scope = self.events.common.scope(&mut self.values);
        checks.iter().find_map(|check| match &check.kind {
            // The size of its body is the sum of its samples.
            CheckKind::Assertion(assertion) if assertion.is_size_of_body() => {
                assertion.verify_size(ended.decoded, &mut scope)
            }
            _ => check.verify(&response, &mut scope),
        })
    }
}
