//! Decisions of controllers.

use super::{Flow, Run, User};
use crate::engine::event_loop::Loop;
use crate::engine::plan::{Action, Control, Depth, Target};
use crate::program::{FlowAction, Gate, GateId, Text};
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
        for script in &*control.scripts {
            Box::pin(self.run_script(Run::of(*script))).await;
        }
        match &control.action {
            Action::Jump => return to.op,
            Action::Leave { first } => {
                self.leave(to.depth, at, *first);
                return to.op;
            }
            Action::Loop(action) => return self.loop_action(action, next, to),
            Action::Choice(action) => return self.choice_action(action, next, to),
            Action::If { condition, reset } => {
                if !condition.is_true(&mut self.scope()) {
                    self.reset(reset);
                    return self.jump_out(to);
                }
            }
            Action::IfGood => {
                if self.last_success {
                    return to.op;
                }
            }
            Action::Once { slot } => {
                if self.slots[*slot] > 0 {
                    return to.op;
                }
            }
            Action::OnceDone { slot } => self.slots[*slot] = 1,
            Action::Clear(slots) => slots.iter().for_each(|slot| self.slots[*slot] = 0),
            Action::Gate(gate) => {
                if !self.gates[gate.0 as usize].allowed {
                    return to.op;
                }
            }
            Action::Decide(gate) => self.decide(events, *gate),
            Action::TimeStart { seconds, slot } => {
                self.slots[*slot] = self.now;
                if seconds.integer(&mut self.scope()) <= 0 {
                    return to.op;
                }
            }
            Action::TimeCheck { seconds, slot } => {
                let passed = self.now.saturating_sub(self.slots[*slot]) / 1_000_000_000;
                let limit = u64::try_from(seconds.integer(&mut self.scope())).unwrap_or(0);
                if passed >= limit {
                    return self.jump_out(to);
                }
            }
            Action::Lock(name) => self.lock(events, name).await,
            Action::Unlock => drop(self.locks.pop()),
        }
        next
    }

    /// A flow control action outside of loops.
    pub(super) fn flow(&mut self, action: FlowAction) -> Flow {
        self.sampler_ended();
        match action {
            FlowAction::Continue => Flow::Next,
            FlowAction::NextIteration | FlowAction::NextOfLoop => Flow::EndIteration,
            FlowAction::StopUser | FlowAction::BreakLoop => Flow::EndUser,
            FlowAction::StopRun => {
                self.events.common.own_control.stop();
                Flow::EndUser
            }
            FlowAction::StopNow => {
                self.events.common.own_control.stop_now();
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
        let row = &events.common.plan.groups[self.group.index];
        let is_left = |ops: &Range<usize>| ops.start >= first && ops.contains(&at);
        // As in JMeter: the turn of a branch ends when its sampler starts.
        for (_, choice) in row.turns.iter().filter(|(ops, _)| is_left(ops)) {
            self.advance(choice);
        }
        for (_, counters) in row.conditions.iter().filter(|(ops, _)| is_left(ops)) {
            self.reset(counters);
        }
        self.set_success(true);
    }

    fn reset(&mut self, counters: &Range<usize>) {
        if let Some(counters) = self.slots.get_mut(counters.clone()) {
            counters.fill(0);
        }
    }

    /// Leaves the inside of a controller in the middle: its transactions do not count.
    pub(super) fn jump_out(&mut self, to: Target) -> usize {
        while self.transactions.len() > to.depth.transactions {
            self.drop_transaction();
        }
        self.locks.truncate(to.depth.locks);
        to.op
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
