//! Decisions of loops.

use super::User;
use crate::engine::plan::{LoopAction, Target};
use crate::program::{ForEach, LoopCount, Text, Variable};

impl User {
    /// Executes a decision of a loop. Returns the index of the next operation.
    pub(super) fn loop_action(&mut self, action: &LoopAction, next: usize, to: Target) -> usize {
        match action {
            LoopAction::Start { times, slot, index, once } => {
                return self.loop_start(times, (*slot, *index, *once), (next, to.op));
            }
            LoopAction::Next { slot, index } => {
                let done = self.slots[*slot + 1] + 1;
                self.slots[*slot + 1] = done;
                if done < self.slots[*slot] {
                    self.set_index(*index, done);
                    return to.op;
                }
            }
            LoopAction::Exit { slot, index, once } => {
                if let Some(mark) = once {
                    self.marks[*mark] = 1;
                }
                let shown = if once.is_some() { self.slots[*slot + 1] } else { 0 };
                self.set_index(*index, shown);
            }
            LoopAction::CountFrom { index } => {
                if let Some((variable, slot)) = index {
                    self.slots[*slot] = 0;
                    self.set_index(Some(*variable), 0);
                }
            }
            LoopAction::Count { index } => {
                if let Some((variable, slot)) = index {
                    self.slots[*slot] += 1;
                    self.set_index(Some(*variable), self.slots[*slot]);
                }
                return to.op;
            }
            LoopAction::While { condition, at_end } => {
                if self.ends(condition, *at_end) {
                    return to.op;
                }
            }
            LoopAction::EachStart { each, slot } => self.slots[*slot] = self.number(&each.start),
            LoopAction::Each { each, slot } => {
                let number = self.slots[*slot];
                let end = each.end.as_ref().map(|end| self.number(end));
                let item = self.item(each, number + 1).filter(|_| end.is_none_or(|e| number < e));
                if item.is_none() {
                    return self.jump_out(to);
                }
                self.values.set(each.output, item);
                self.set_index(each.index, number);
            }
            LoopAction::EachNext { slot } => {
                self.slots[*slot] += 1;
                return to.op;
            }
            LoopAction::EachExit { each } => {
                // As in JMeter: the variable gets the first item again.
                let start = self.number(&each.start);
                if let Some(item) = self.item(each, start + 1) {
                    self.values.set(each.output, Some(item));
                }
                self.set_index(each.index, start);
            }
        }
        next
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

    fn number(&mut self, text: &Text) -> u64 {
        u64::try_from(text.integer(&mut self.scope())).unwrap_or(0)
    }

    fn item(&mut self, each: &ForEach, number: u64) -> Option<String> {
        let mut scope = self.scope();
        let input = each.input.render(&mut scope);
        scope.item(&input, each.separator, number).map(str::to_owned)
    }
}
