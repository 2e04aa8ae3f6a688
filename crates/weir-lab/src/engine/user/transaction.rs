//! Transactions: several samples as one.

use super::{Flow, Run, User};
use crate::jvm::{self, Outcome as ScriptOutcome};
use crate::program::{AfterScripts, Check, CheckKind, Label, Response, Text};
use crate::record::Exchange;
use crate::sample::{ErrorKind, Outcome, Sample};
use std::ops::Range;
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
    scripts: Option<Arc<AfterScripts>>,
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

/// Open transactions of a branch that goes on later.
///
/// As in JMeter: a transaction listens to all samples of the controller around it, also to those of the
/// other branches.
#[derive(Debug)]
pub(in crate::engine) struct Suspended {
    /// The counter of the operation with which the branch goes on.
    slot: usize,
    /// Number of transactions around the branches.
    depth: usize,
    /// The first transaction is the branch, and adds the samples of the others to its own ones.
    listens: bool,
    /// Another branch has its turn.
    is_other_turn: bool,
    /// Time up to which its idle time is known.
    since: u64,
    /// The outermost one first.
    transactions: Vec<Transaction>,
}

impl Suspended {
    fn hear(&mut self, sample: &Sample<'_>) {
        if let Some(transaction) = self.transactions.first_mut() {
            transaction.add_figures(sample);
            self.since = self.since.saturating_add(sample.service());
        }
    }
}

impl Transaction {
    pub(super) fn paused(&mut self, nanoseconds: u64) {
        self.idle += nanoseconds;
    }

    /// Adds one of its samples.
    fn add(&mut self, sample: &Sample<'_>) {
        self.samples += 1;
        self.add_figures(sample);
    }

    fn add_figures(&mut self, sample: &Sample<'_>) {
        self.time += sample.service();
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

/// Adds a sample to the transactions to which it belongs: the `open` ones, and those that listen.
pub(in crate::engine) fn add_sample(
    sample: &Sample<'_>,
    (open, suspended): (&mut [Transaction], &mut [Suspended]),
) {
    let mut in_parent = false;
    for transaction in open.iter_mut() {
        // As in JMeter: inside a transaction that replaces its samples, another one that adds a sample
        // of its own does not see them.
        if in_parent && !transaction.parent_only {
            transaction.samples += 1;
        } else {
            transaction.add(sample);
        }
        in_parent |= transaction.parent_only;
    }
    for suspended in suspended.iter_mut().filter(|one| one.listens && one.is_other_turn) {
        // Of a transaction that replaces its samples, others see only the end.
        let mut inside = open.iter().skip(suspended.depth);
        if !inside.any(|transaction| transaction.parent_only) {
            suspended.hear(sample);
        }
    }
}

impl User {
    pub(super) fn start_transaction(
        &mut self,
        (label, name): (Label, Option<&Text>),
        (with_pauses, parent_only): (bool, bool),
        (checks, scripts): (&Arc<[Check]>, &Option<Arc<AfterScripts>>),
    ) {
        let label = name.map_or(label, |name| self.label(name, true));
        self.transactions.push(Transaction {
            label,
            with_pauses,
            parent_only,
            checks: (!checks.is_empty()).then(|| checks.clone()),
            scripts: scripts.clone(),
            start: self.now,
            ..Transaction::default()
        });
    }

    /// Ends the innermost transaction.
    fn end_transaction(&mut self) {
        self.count_transaction(false, None);
    }

    /// Ends the innermost transaction in the middle: it has the success of the last sample. Its scripts do
    /// not run.
    pub(super) fn interrupt_transaction(&mut self) {
        self.count_transaction(true, None);
    }

    /// Ends the innermost transaction, which scripts may judge.
    pub(super) async fn finish_transaction(&mut self) -> Flow {
        let replaces = self.transactions.last().is_some_and(|open| open.parent_only);
        self.samplers = self.samplers.wrapping_add(u64::from(replaces));
        let scripts = self.transactions.last().and_then(|open| open.scripts.clone());
        let flow = match scripts {
            None => {
                self.end_transaction();
                Flow::Next
            }
            Some(scripts) => {
                // Boxed: rare and large, and otherwise part of the memory of every user.
                Box::pin(self.judge_transaction(&scripts)).await;
                self.after_scripts(Flow::Next)
            }
        };
        if replaces {
            self.end_turn();
        }
        flow
    }

    /// Ends the innermost transaction, which scripts judge, too.
    async fn judge_transaction(&mut self, scripts: &AfterScripts) {
        let Some(ended) = self.transactions.last() else { return };
        let millis = |nanoseconds: u64| nanoseconds / 1_000_000;
        let labels = &self.events.common.plan.program.labels;
        let sample = jvm::Sample {
            label: labels.name(ended.label, str::to_owned),
            code: ended.status().to_string(),
            message: ended.message(),
            success: ended.failed == 0,
            elapsed: millis(if ended.with_pauses { self.now - ended.start } else { ended.time }),
            latency: millis(ended.latency),
            connect: millis(ended.connect),
            received: ended.received,
            sent: ended.sent,
            ..jvm::Sample::default()
        };
        let before = self.now;
        let in_parent = self.transactions.iter().rev().skip(1).any(|outer| outer.parent_only);
        self.scripts().parent = Some(Box::new(sample));
        let mut failed = None;
        for (_, script) in &scripts.checks {
            if let Some(ScriptOutcome::Failure(Some(message))) =
                self.run_script(Run::of(*script)).await
            {
                failed.get_or_insert(message);
                self.scripts().parent.iter_mut().for_each(|sample| sample.success = false);
            }
        }
        for listener in scripts.listeners.iter().filter(|_| !in_parent) {
            self.run_script(Run::of(*listener)).await;
        }
        let is_good = self.scripts().parent.take().is_none_or(|sample| sample.success);
        // Scripts took time, which is no part of the transaction.
        self.now = before;
        self.count_transaction(false, Some((failed, is_good)));
        self.now = self.events.now();
        self.waited(before);
    }

    /// Ends the innermost transaction, which does not count.
    pub(super) fn drop_transaction(&mut self) {
        self.transactions.pop();
    }

    /// Sets the transactions beyond the first `depth` aside, until the branch with this counter goes on.
    pub(super) fn suspend_transactions(&mut self, slot: usize, depth: usize, listens: bool) {
        if self.transactions.len() > depth {
            let transactions = self.transactions.split_off(depth);
            let (is_other_turn, since) = (false, self.now);
            let suspended = Suspended { slot, depth, listens, is_other_turn, since, transactions };
            self.suspended.push(suspended);
        }
    }

    /// A branch has its turn, and those with these counters wait.
    pub(super) fn start_turn(&mut self, slots: Range<usize>) {
        for suspended in self.suspended.iter_mut().filter(|one| slots.contains(&one.slot)) {
            suspended.is_other_turn = true;
        }
    }

    /// The turns of branches end with their sample.
    #[inline]
    pub(super) fn end_turn(&mut self) {
        self.suspended.iter_mut().for_each(|suspended| suspended.is_other_turn = false);
    }

    /// Continues the transactions of a branch. Those of a branch that starts again do not count.
    pub(super) fn resume_transactions(&mut self, slot: usize, goes_on: bool) {
        let Some(at) = self.suspended.iter().position(|one| one.slot == slot) else { return };
        let suspended = self.suspended.swap_remove(at);
        if goes_on {
            let passed = self.now.saturating_sub(suspended.since);
            self.transactions.extend(suspended.transactions.into_iter().map(|mut transaction| {
                transaction.paused(passed);
                transaction
            }));
        }
    }

    /// Counts a transaction. `judged` is the result of scripts: the message of a failure, and whether the
    /// sample is good.
    fn count_transaction(&mut self, interrupted: bool, judged: Option<(Option<String>, bool)>) {
        let Some(ended) = self.transactions.pop() else { return };
        let (by_scripts, is_good) = judged.unwrap_or((None, true));
        let check = self.check_transaction(&ended).or(by_scripts);
        let good = check.is_none()
            && is_good
            && if interrupted && !ended.parent_only {
                self.last_success
            } else {
                ended.failed == 0
            };
        if ended.parent_only {
            self.set_success(good);
        }
        let in_parent = self.transactions.iter().any(|outer| outer.parent_only);
        if in_parent && ended.parent_only {
            if ended.failed == 0 && !good {
                self.transactions.iter_mut().for_each(|outer| outer.fails(200));
            }
            return;
        }
        // As in JMeter: before the first sampler of a user, only a transaction that replaces its
        // samples is counted.
        if !self.has_sampled && !ended.parent_only {
            return;
        }
        let mut recorder = self.events.recorder.borrow_mut();
        recorder.start_sample(ended.label);
        let message = if recorder.has_sink() || !good { ended.message() } else { String::new() };
        let (group_users, all_users) = self.events.active(self.group.index);
        let kind = if check.is_some() { ErrorKind::Check } else { ErrorKind::Transaction };
        let time = if ended.with_pauses { self.now - ended.start } else { ended.time };
        let user = (self.group.index, self.number);
        let sample = Sample {
            connect: ended.connect,
            first_byte: ended.start + ended.latency,
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
            group_users,
            all_users,
            transaction: true,
            ..Sample::of(ended.label, user, (ended.start, ended.start + time))
        };
        recorder.add(&sample, Exchange::default);
        if ended.parent_only {
            let others = self.suspended.iter_mut().filter(|one| one.listens && one.is_other_turn);
            others.for_each(|suspended| suspended.hear(&sample));
        }
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
