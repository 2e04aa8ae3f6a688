//! Decisions between branches.

use super::User;
use crate::engine::plan::{Choice, ChoiceAction, Target};
use crate::program::{ChoiceOrder, Text};

impl User {
    /// Executes a decision between branches. Returns the index of the next operation.
    pub(super) fn choice_action(
        &mut self,
        action: &ChoiceAction,
        next: usize,
        to: Target,
    ) -> usize {
        match action {
            ChoiceAction::Switch { selection, names, targets } => {
                self.selected(selection, names).map_or(to.op, |branch| targets[branch])
            }
            ChoiceAction::Start(choice) => self.choose_start(choice, to.op),
            ChoiceAction::Advance(choice) => {
                self.advance(choice);
                next
            }
            ChoiceAction::Next(choice) => self.choose_next(choice, to.op),
            ChoiceAction::Yield { choice, listens } => {
                let branch = self.slots[choice.slot].saturating_sub(1) as usize;
                let slot = choice.resume(branch);
                self.slots[slot] = next as u64;
                self.suspend_transactions(slot, to.depth.transactions, *listens);
                self.advance(choice);
                self.jump_out(to)
            }
            ChoiceAction::ShuffleStart { order, slot, targets } => {
                let mut branches: Vec<u32> = (0..).take(targets.len()).collect();
                self.values.random().shuffle(&mut branches);
                self.orders[*order] = branches;
                self.slots[*slot] = 0;
                self.shuffled(*order, 0, targets).unwrap_or(to.op)
            }
            ChoiceAction::ShuffleNext { order, slot, targets } => {
                self.slots[*slot] += 1;
                self.shuffled(*order, self.slots[*slot], targets).unwrap_or(next)
            }
        }
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
            let slot = choice.resume(branch);
            let resume = std::mem::take(&mut self.slots[slot]);
            self.resume_transactions(slot, resume > 0);
            self.start_turn(choice.resume(0)..choice.resume(choice.targets.len()));
            if resume > 0 {
                return usize::try_from(resume).unwrap_or(choice.targets[branch]);
            }
        }
        choice.targets[branch]
    }

    pub(super) fn advance(&mut self, choice: &Choice) {
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
        self.end_turn();
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
}
