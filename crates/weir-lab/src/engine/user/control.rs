//! Decisions of controllers.

use super::{Flow, User};
use crate::engine::event_loop::Loop;
use crate::engine::plan::{Action, Choice, Control, Depth, Target};
use crate::program::{ChoiceOrder, FlowAction, ForEach, Gate, GateId, LoopCount, Text, Variable};
use std::ops::Range;
use std::sync::{Arc, PoisonError};

/// Counts of a gate.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct GateCount {
    executions: u64,
    iterations: u64,
}

/// A gate of a user.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UserGate {
    own: GateCount,
    /// The gate has allowed this iteration.
    allowed: bool,
}

/// A held lock.
pub(super) struct Held {
    name: String,
    /// `None` inside of another one of the same name.
    _guard: Option<tokio::sync::OwnedMutexGuard<()>>,
}

impl User {
    /// Executes a decision. Returns the index of the next operation, after `at`.
    pub(super) async fn control(&mut self, events: &Loop, control: &Control, at: usize) -> usize {
        let (next, to) = (at + 1, control.to);
        match &control.action {
            Action::Jump => to.op,
            Action::Leave { first } => {
                self.leave(to.depth, at, *first);
                to.op
            }
            Action::If { condition, reset } => {
                if condition.is_true(&mut self.scope()) {
                    return next;
                }
                self.reset(reset);
                self.jump_out(to)
            }
            Action::LoopStart { times, slot, index, once } => {
                self.loop_start(times, (*slot, *index, *once), (next, to.op))
            }
            Action::LoopNext { slot, index } => {
                let done = self.slots[*slot + 1] + 1;
                self.slots[*slot + 1] = done;
                if done >= self.slots[*slot] {
                    return next;
                }
                self.set_index(*index, done);
                to.op
            }
            Action::LoopExit { slot, index, once } => {
                if let Some(mark) = once {
                    self.marks[*mark] = 1;
                }
                let shown = if once.is_some() { self.slots[*slot + 1] } else { 0 };
                self.set_index(*index, shown);
                next
            }
            Action::CountFrom { index } => {
                if let Some((variable, slot)) = index {
                    self.slots[*slot] = 0;
                    self.set_index(Some(*variable), 0);
                }
                next
            }
            Action::Count { index } => {
                if let Some((variable, slot)) = index {
                    self.slots[*slot] += 1;
                    self.set_index(Some(*variable), self.slots[*slot]);
                }
                to.op
            }
            Action::While { condition, at_end } => {
                if self.ends(condition, *at_end) {
                    to.op
                } else {
                    next
                }
            }
            Action::ForEachStart { .. }
            | Action::ForEach { .. }
            | Action::ForEachNext { .. }
            | Action::ForEachExit { .. } => self.each(&control.action, next, to),
            Action::Once { slot } => {
                if self.slots[*slot] == 0 {
                    next
                } else {
                    to.op
                }
            }
            Action::OnceDone { slot } => {
                self.slots[*slot] = 1;
                next
            }
            Action::Clear(slots) => {
                slots.iter().for_each(|slot| self.slots[*slot] = 0);
                next
            }
            Action::Switch { selection, names, targets } => {
                self.selected(selection, names).map_or(to.op, |branch| targets[branch])
            }
            Action::ChooseStart(choice) => self.choose_start(choice, to.op),
            Action::ChooseAdvance(choice) => {
                self.advance(choice);
                next
            }
            Action::ChooseNext(choice) => self.choose_next(choice, to.op),
            Action::Yield(choice) => {
                let branch = self.slots[choice.slot].saturating_sub(1) as usize;
                self.slots[choice.resume(branch)] = next as u64;
                self.advance(choice);
                self.jump_out(to)
            }
            Action::ShuffleStart { order, slot, targets } => {
                let mut branches: Vec<u32> = (0..).take(targets.len()).collect();
                self.values.random().shuffle(&mut branches);
                self.orders[*order] = branches;
                self.slots[*slot] = 0;
                self.shuffled(*order, 0, targets).unwrap_or(to.op)
            }
            Action::ShuffleNext { order, slot, targets } => {
                self.slots[*slot] += 1;
                self.shuffled(*order, self.slots[*slot], targets).unwrap_or(next)
            }
            Action::Gate(gate) => {
                if self.gates[gate.0 as usize].allowed {
                    next
                } else {
                    to.op
                }
            }
            Action::Decide(gate) => {
                self.decide(events, *gate);
                next
            }
            Action::TimeStart { seconds, slot } => {
                // The slot has the start plus one: 0 is no start.
                self.slots[*slot] = self.now + 1;
                if seconds.integer(&mut self.scope()) <= 0 { to.op } else { next }
            }
            Action::TimeCheck { seconds, slot } => {
                let passed = (self.now + 1).saturating_sub(self.slots[*slot]) / 1_000_000_000;
                let limit = u64::try_from(seconds.integer(&mut self.scope())).unwrap_or(0);
                if passed >= limit { self.jump_out(to) } else { next }
            }
            Action::Lock(name) => {
                self.lock(events, name).await;
                next
            }
            Action::Unlock => {
                self.locks.pop();
                next
            }
        }
    }

    /// A flow control action outside of loops.
    pub(super) fn flow(&mut self, action: FlowAction) -> Flow {
        self.samplers = self.samplers.wrapping_add(1);
        match action {
            FlowAction::Continue => Flow::Next,
            FlowAction::NextIteration | FlowAction::NextOfLoop => Flow::EndIteration,
            FlowAction::StopUser | FlowAction::BreakLoop => Flow::EndUser,
            FlowAction::StopRun => {
                self.events.common.control.stop();
                Flow::EndUser
            }
            FlowAction::StopNow => {
                self.events.common.control.stop_now();
                Flow::EndUser
            }
        }
    }

    /// Interrupts the controllers around operation `at` that start at operation `first` or later.
    pub(super) fn leave(&mut self, depth: Depth, at: usize, first: usize) {
        while self.transactions.len() > depth.transactions {
            self.interrupt_transaction();
        }
        self.locks.truncate(depth.locks);
        let events = self.events.clone();
        let conditions = &events.common.plan.groups[self.group.index].conditions;
        for (ops, counters) in conditions {
            if ops.start >= first && ops.contains(&at) {
                self.reset(counters);
            }
        }
        self.set_success(true);
    }

    fn reset(&mut self, counters: &Range<usize>) {
        if let Some(counters) = self.slots.get_mut(counters.clone()) {
            counters.fill(0);
        }
    }

    /// Leaves the inside of a controller in the middle: its transactions do not count.
    fn jump_out(&mut self, to: Target) -> usize {
        while self.transactions.len() > to.depth.transactions {
            self.drop_transaction();
        }
        self.locks.truncate(to.depth.locks);
        to.op
    }

    fn set_index(&mut self, variable: Option<Variable>, index: u64) {
        if let Some(variable) = variable {
            self.values.set(variable, Some(index.to_string()));
        }
    }

    fn loop_start(
        &mut self,
        times: &LoopCount,
        (slot, index, once): (usize, Option<Variable>, Option<usize>),
        (next, end): (usize, usize),
    ) -> usize {
        if once.is_some_and(|mark| self.marks[mark] > 0) {
            return end;
        }
        self.slots[slot] = self.loop_count(times);
        self.slots[slot + 1] = 0;
        self.set_index(index, 0);
        if self.slots[slot] > 0 {
            return next;
        }
        if let Some(mark) = once {
            self.marks[mark] = 1;
        }
        end
    }

    /// Whether the condition of a While Controller ends it.
    fn ends(&mut self, condition: &Text, at_end: bool) -> bool {
        let condition = condition.render(&mut self.scope()).trim().to_ascii_lowercase();
        match condition.as_str() {
            "" if at_end => !self.last_success,
            "last" => !self.last_success,
            condition => condition == "false",
        }
    }

    fn each(&mut self, action: &Action, next: usize, to: Target) -> usize {
        match action {
            Action::ForEachStart { each, slot } => {
                self.slots[*slot] = self.number(&each.start);
                next
            }
            Action::ForEach { each, slot } => {
                let number = self.slots[*slot];
                let end = each.end.as_ref().map(|end| self.number(end));
                let item = self.item(each, number + 1).filter(|_| end.is_none_or(|e| number < e));
                if item.is_none() {
                    return self.jump_out(to);
                }
                self.values.set(each.output, item);
                self.set_index(each.index, number);
                next
            }
            Action::ForEachNext { slot } => {
                self.slots[*slot] += 1;
                to.op
            }
            Action::ForEachExit { each } => {
                // As in JMeter: the variable gets the first item again.
                let start = self.number(&each.start);
                if let Some(item) = self.item(each, start + 1) {
                    self.values.set(each.output, Some(item));
                }
                self.set_index(each.index, start);
                next
            }
            _ => next,
        }
    }

    fn number(&mut self, text: &Text) -> u64 {
        u64::try_from(text.integer(&mut self.scope())).unwrap_or(0)
    }

    fn item(&mut self, each: &ForEach, number: u64) -> Option<String> {
        let mut scope = self.scope();
        let input = each.input.render(&mut scope);
        scope.item(&input, each.separator, number).map(str::to_owned)
    }

    /// The branch of a Switch Controller.
    fn selected(&mut self, selection: &Text, names: &[Text]) -> Option<usize> {
        let mut scope = self.scope();
        let selection = selection.render(&mut scope).trim().to_owned();
        if selection.is_empty() {
            return (!names.is_empty()).then_some(0);
        }
        // As in JMeter: a number out of range selects the first branch.
        if selection.bytes().all(|byte| byte.is_ascii_digit())
            && let Ok(number) = selection.parse::<u32>()
        {
            let number = number as usize;
            return (!names.is_empty()).then_some(if number < names.len() { number } else { 0 });
        }
        let mut default = None;
        for (at, name) in names.iter().enumerate() {
            let name = name.render(&mut scope);
            if name == selection {
                return Some(at);
            }
            if name.eq_ignore_ascii_case("default") {
                default = Some(at);
            }
        }
        default
    }

    fn choose_start(&mut self, choice: &Choice, end: usize) -> usize {
        let count = choice.targets.len();
        if count == 0 {
            return end;
        }
        if self.slots[choice.slot] == 0 {
            let first = match choice.order {
                ChoiceOrder::InTurn => 0,
                ChoiceOrder::InTurnByUser => self.number as usize % count,
                ChoiceOrder::Random => self.values.random().usize(..count),
            };
            self.slots[choice.slot] = first as u64 + 1;
        }
        self.slots[choice.slot + 1] = self.slots[choice.slot];
        self.branch(choice)
    }

    /// The first operation of the current branch.
    fn branch(&mut self, choice: &Choice) -> usize {
        let branch = self.slots[choice.slot].saturating_sub(1) as usize;
        self.slots[choice.slot + 2] = self.samplers;
        self.slots[choice.slot + 3] = 0;
        if choice.by_sample {
            let resume = std::mem::take(&mut self.slots[choice.resume(branch)]);
            if resume > 0 {
                return usize::try_from(resume).unwrap_or(choice.targets[branch]);
            }
        }
        choice.targets[branch]
    }

    fn advance(&mut self, choice: &Choice) {
        let count = choice.targets.len().max(1);
        let next = match choice.order {
            ChoiceOrder::Random => self.values.random().usize(..count),
            _ => self.slots[choice.slot] as usize % count,
        };
        self.slots[choice.slot] = next as u64 + 1;
    }

    fn choose_next(&mut self, choice: &Choice, end: usize) -> usize {
        if choice.by_sample && self.slots[choice.slot + 3] == 0 {
            // The branch ended after its last sample: it starts again.
            self.slots[choice.slot + 3] = 1;
            let branch = self.slots[choice.slot].saturating_sub(1) as usize;
            return choice.targets[branch];
        }
        let had_samples = self.samplers != self.slots[choice.slot + 2];
        self.advance(choice);
        if had_samples || self.slots[choice.slot] == self.slots[choice.slot + 1] {
            return end;
        }
        self.branch(choice)
    }

    /// The first operation of a branch in random order.
    fn shuffled(&self, order: usize, number: u64, targets: &[usize]) -> Option<usize> {
        let branch = self.orders[order].get(usize::try_from(number).ok()?)?;
        targets.get(*branch as usize).copied()
    }

    fn decide(&mut self, events: &Loop, id: GateId) {
        let at = id.0 as usize;
        let Some(gate) = events.common.plan.program.gates.get(at) else { return };
        let limit = gate.limit.render(&mut self.scope()).trim().parse::<f64>().ok();
        self.gates[at].allowed = if gate.per_user {
            count(gate, limit, &mut self.gates[at].own)
        } else {
            let all = events.common.gates[at].lock();
            count(gate, limit, &mut all.unwrap_or_else(PoisonError::into_inner))
        };
    }

    /// Waits for a lock, or until the user has to end.
    async fn lock(&mut self, events: &Loop, name: &Text) {
        let name = name.render(&mut self.scope()).into_owned();
        let held = name.is_empty() || self.locks.iter().any(|held| held.name == name);
        let mut guard = None;
        if !held {
            let lock = events.common.locks.get(&name);
            guard = lock.clone().try_lock_owned().ok();
            if guard.is_none() && !self.must_end() {
                let stops = events.wake.notified();
                let deadline = tokio::time::sleep_until(events.instant(self.deadline));
                tokio::select! {
                    locked = lock.lock_owned() => guard = Some(locked),
                    () = stops => {}
                    () = deadline => {}
                }
                self.paused = true;
                (self.steps, self.yields, self.progressed) = (0, 0, true);
                self.now = events.now();
            }
        }
        self.locks.push(Held { name, _guard: guard });
    }
}

/// Counts an iteration of a gate and decides about it.
fn count(gate: &Gate, limit: Option<f64>, count: &mut GateCount) -> bool {
    // As in JMeter: the defaults of limits that are no numbers.
    let allowed = if gate.percent {
        let share = (100.0 * count.executions as f64 + 50.0) / (count.iterations as f64 + 1.0);
        share < limit.unwrap_or(100.0)
    } else {
        (count.executions as f64) < limit.unwrap_or(1.0)
    };
    count.iterations += 1;
    count.executions += u64::from(allowed);
    allowed
}

/// Most locks that are kept although no user needs them.
const MAX_UNUSED_LOCKS: usize = 1_000;

/// Locks by name, of all loops.
#[derive(Debug, Default)]
pub(in crate::engine) struct Locks(
    std::sync::Mutex<std::collections::HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
);

impl Locks {
    fn get(&self, name: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if locks.len() >= MAX_UNUSED_LOCKS && !locks.contains_key(name) {
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        locks.entry(name.to_owned()).or_default().clone()
    }
}
