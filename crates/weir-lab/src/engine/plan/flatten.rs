//! Compiles the tree of steps to a list of operations.

use super::{
    Action, Choice, ChoiceAction, Control, Depth, GroupPlan, LoopAction, Op, Plan, Target,
};
use crate::engine::request_error::RequestError;
use crate::program::{
    ChoiceOrder, Controller, ControllerKind, FlowAction, ForEach, Label, LoopCount, ScriptId, Step,
    Text, Variable,
};
use std::sync::Arc;

/// A request that cannot be compiled.
type Fault = (Label, RequestError);

/// Compiles the steps of a group.
///
/// # Errors
/// A request without variables is invalid.
pub(super) fn group(plan: &mut Plan, steps: &[Step]) -> Result<GroupPlan, Fault> {
    let mut flattener = Flattener {
        plan,
        row: GroupPlan::default(),
        watches: Vec::new(),
        loops: Vec::new(),
        depth: Depth::default(),
        scripts: Arc::default(),
        once: Vec::new(),
    };
    flattener.steps(steps)?;
    Ok(flattener.row)
}

struct Flattener<'p> {
    plan: &'p mut Plan,
    row: GroupPlan,
    /// Controllers around the current step that decide after each sampler, the outermost first.
    watches: Vec<Watch>,
    /// Loops around the current step, the innermost last.
    loops: Vec<Loop>,
    depth: Depth,
    /// Functions of the texts of the current controller.
    scripts: Arc<[ScriptId]>,
    /// Counters of the Once Only Controllers directly in the current controller.
    once: Vec<usize>,
}

/// A controller that decides after each sampler within.
struct Watch {
    action: Action,
    scripts: Arc<[ScriptId]>,
    depth: Depth,
    /// Operations that jump to the end of the controller.
    jumps: Vec<usize>,
}

/// A loop that flow control actions may leave.
#[derive(Default)]
struct Loop {
    /// Its first operation.
    start: usize,
    depth: Depth,
    /// Number of controllers around the loop that decide after each sampler.
    watches: usize,
    /// Operations that jump to the next iteration.
    nexts: Vec<usize>,
    /// Operations that jump to the end.
    breaks: Vec<usize>,
}

impl Flattener<'_> {
    fn steps(&mut self, steps: &[Step]) -> Result<(), Fault> {
        let mut steps = steps.iter().peekable();
        while let Some(step) = steps.next() {
            self.step(step)?;
            if step.is_sampler() {
                // What a failure changes is decided before the controllers decide again.
                while let Some(Step::OnFailure(action)) = steps.peek() {
                    let start = self.control(Action::IfGood);
                    self.flow(*action);
                    self.end_here(&[start]);
                    steps.next();
                }
                self.after_sampler();
            }
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), Fault> {
        match step {
            Step::Request(request) => {
                let prepared = self.plan.prepare(request).map_err(|e| (request.label, e))?;
                self.plan.requests.push(prepared);
                let number = self.plan.requests.len() - 1;
                let is_scripted = self.plan.program.scripts.is_some();
                self.row.ops.push(match request.stream {
                    Some(_) => Op::Stream(number),
                    None if is_scripted => Op::Scripted(number),
                    None => Op::Request(number),
                });
            }
            Step::Local(sample) => self.row.ops.push(Op::Local(sample.clone())),
            Step::Flow(action) => self.flow(*action),
            Step::Loop { times, steps } => self.counted(times, None, false, steps)?,
            Step::Once(steps) => {
                let slot = self.slots(1);
                self.once.push(slot);
                let start = self.control(Action::Once { slot });
                self.body(steps)?;
                self.control(Action::OnceDone { slot });
                self.end_here(&[start]);
            }
            Step::Transaction { label, name, with_pauses, parent_only, checks, scripts, steps } => {
                self.row.ops.push(Op::TransactionStart {
                    label: *label,
                    name: name.clone(),
                    with_pauses: *with_pauses,
                    parent_only: *parent_only,
                    checks: checks.clone(),
                    scripts: scripts.clone(),
                });
                self.depth.transactions += 1;
                self.body(steps)?;
                self.depth.transactions -= 1;
                self.row.ops.push(Op::TransactionEnd);
                // As in JMeter: this end is a sampler to the controllers around it.
                if *parent_only {
                    self.after_sampler();
                }
            }
            Step::Control(controller) => {
                let outer =
                    std::mem::replace(&mut self.scripts, controller.scripts.as_slice().into());
                self.controller(controller)?;
                self.scripts = outer;
            }
            Step::Decide(gate) => {
                self.control(Action::Decide(*gate));
            }
            Step::Shared(timer) => self.row.ops.push(Op::Shared(*timer)),
            Step::Script(script) => self.row.ops.push(Op::Script(*script)),
            step => {
                let mark = self.mark();
                self.row.ops.push(Op::Step { step: step.clone(), mark });
            }
        }
        Ok(())
    }

    /// The steps of a controller. Returns the counters of its Once Only Controllers.
    fn body(&mut self, steps: &[Step]) -> Result<Vec<usize>, Fault> {
        let outer = std::mem::take(&mut self.once);
        self.steps(steps)?;
        Ok(std::mem::replace(&mut self.once, outer))
    }

    fn slots(&mut self, count: usize) -> usize {
        self.row.slots += count;
        self.row.slots - count
    }

    fn mark(&mut self) -> usize {
        self.row.marks += 1;
        self.row.marks - 1
    }

    /// Adds a decision, which jumps to itself until it gets a target. Returns its index.
    fn control(&mut self, action: impl Into<Action>) -> usize {
        let action = action.into();
        let op = self.row.ops.len();
        let to = Target { op, depth: self.depth };
        let scripts = if action.has_texts() { self.scripts.clone() } else { Arc::default() };
        self.row.ops.push(Op::Control(Box::new(Control { action, scripts, to })));
        op
    }

    fn at(&mut self, op: usize) -> &mut Control {
        match &mut self.row.ops[op] {
            Op::Control(control) => control,
            _ => unreachable!("decisions are set only at decisions"),
        }
    }

    /// Sets the target of decisions to the next operation.
    fn end_here(&mut self, ops: &[usize]) {
        let end = self.row.ops.len();
        self.jump(ops, end);
    }

    fn jump(&mut self, ops: &[usize], target: usize) {
        ops.iter().for_each(|op| self.at(*op).to.op = target);
    }

    /// Lets the controllers around a sampler decide again.
    fn after_sampler(&mut self) {
        self.decide_again(self.watches.len());
    }

    /// Lets the outermost controllers decide again.
    fn decide_again(&mut self, count: usize) {
        for number in 0..count {
            let Watch { action, scripts, depth, .. } = &self.watches[number];
            let (action, scripts, depth) = (action.clone(), scripts.clone(), *depth);
            let op = self.control(action);
            self.at(op).scripts = scripts;
            self.at(op).to.depth = depth;
            self.watches[number].jumps.push(op);
        }
    }

    /// Steps of a controller that decides after each of their samplers. Returns the decisions.
    fn watched(&mut self, action: impl Into<Action>, steps: &[Step]) -> Result<Vec<usize>, Fault> {
        let action = action.into();
        let (scripts, depth) = (self.scripts.clone(), self.depth);
        self.watches.push(Watch { action, scripts, depth, jumps: Vec::new() });
        self.body(steps)?;
        Ok(self.watches.pop().map(|watch| watch.jumps).unwrap_or_default())
    }

    fn flow(&mut self, action: FlowAction) {
        let is_next = action == FlowAction::NextOfLoop;
        if !is_next && action != FlowAction::BreakLoop {
            self.row.ops.push(Op::Flow(action));
            return;
        }
        let Some(&Loop { depth, start: first, watches, .. }) = self.loops.last() else {
            return self.row.ops.push(Op::Flow(action));
        };
        let leave = self.control(Action::Leave { first });
        self.at(leave).to.depth = depth;
        self.end_here(&[leave]);
        // The controllers around the loop see a sampler that has ended.
        self.decide_again(watches);
        let op = self.control(Action::Jump);
        if let Some(inner) = self.loops.last_mut() {
            if is_next { inner.nexts.push(op) } else { inner.breaks.push(op) }
        }
    }

    fn enter_loop(&mut self) {
        let start = self.row.ops.len();
        let (depth, watches) = (self.depth, self.watches.len());
        self.loops.push(Loop { start, depth, watches, ..Loop::default() });
    }

    fn leave_loop(&mut self) -> Loop {
        self.loops.pop().unwrap_or_default()
    }

    fn counted(
        &mut self,
        times: &LoopCount,
        index: Option<Variable>,
        once: bool,
        steps: &[Step],
    ) -> Result<(), Fault> {
        let once = once.then(|| self.mark());
        let slot = self.slots(2);
        let clear = self.control(Action::Clear(Vec::new()));
        let times = times.clone();
        let start = self.control(LoopAction::Start { times, slot, index, once });
        self.enter_loop();
        let cleared = self.body(steps)?;
        self.at(clear).action = Action::Clear(cleared);
        let inner = self.leave_loop();
        self.end_here(&inner.nexts);
        let next = self.control(LoopAction::Next { slot, index });
        self.jump(&[next], start + 1);
        self.end_here(&inner.breaks);
        if index.is_some() || once.is_some() {
            self.control(LoopAction::Exit { slot, index, once });
        }
        self.end_here(&[start]);
        Ok(())
    }

    fn controller(&mut self, controller: &Controller) -> Result<(), Fault> {
        let branches = &controller.branches;
        let steps: &[Step] = branches.first().map_or(&[], Vec::as_slice);
        match &controller.kind {
            ControllerKind::Simple => self.body(steps).map(drop),
            ControllerKind::If { condition, each_sample } => {
                self.condition(condition, *each_sample, steps)
            }
            ControllerKind::Loop { times, index, once } => {
                self.counted(times, *index, *once, steps)
            }
            ControllerKind::While { condition, index } => self.until(condition, *index, steps),
            ControllerKind::ForEach(each) => self.for_each(each, steps),
            ControllerKind::Switch { selection, names } => {
                let (selection, names) = (selection.clone(), names.clone());
                let start =
                    self.control(ChoiceAction::Switch { selection, names, targets: Vec::new() });
                self.branches(start, branches, None)
            }
            ControllerKind::Choose { order, by_sample } => {
                self.choice(*order, *by_sample, branches)
            }
            ControllerKind::Shuffle => {
                self.row.orders += 1;
                let (order, slot) = (self.row.orders - 1, self.slots(1));
                let start =
                    self.control(ChoiceAction::ShuffleStart { order, slot, targets: Vec::new() });
                let next = ChoiceAction::ShuffleNext { order, slot, targets: Vec::new() };
                self.branches(start, branches, Some(next))
            }
            ControllerKind::Gate(gate) => {
                let start = self.control(Action::Gate(*gate));
                self.body(steps)?;
                self.end_here(&[start]);
                Ok(())
            }
            ControllerKind::RunTime(seconds) => self.run_time(seconds, steps),
            ControllerKind::Locked(name) => {
                self.control(Action::Lock(name.clone()));
                self.depth.locks += 1;
                self.body(steps)?;
                self.depth.locks -= 1;
                self.control(Action::Unlock);
                Ok(())
            }
        }
    }

    fn condition(&mut self, condition: &Text, each: bool, steps: &[Step]) -> Result<(), Fault> {
        let first = self.row.slots;
        let action = Action::If { condition: condition.clone(), reset: 0..0 };
        let start = self.control(action.clone());
        let mut jumps = vec![start];
        if each {
            jumps.extend(self.watched(action, steps)?);
        } else {
            self.body(steps)?;
        }
        let counters = first..self.row.slots;
        for op in &jumps {
            if let Action::If { reset, .. } = &mut self.at(*op).action {
                *reset = counters.clone();
            }
        }
        self.end_here(&jumps);
        self.row.conditions.push((start..self.row.ops.len(), counters));
        Ok(())
    }

    fn until(
        &mut self,
        condition: &Text,
        index: Option<Variable>,
        steps: &[Step],
    ) -> Result<(), Fault> {
        let index = index.map(|variable| (variable, self.slots(1)));
        let check = |at_end| LoopAction::While { condition: condition.clone(), at_end };
        let clear = self.control(Action::Clear(Vec::new()));
        self.control(LoopAction::CountFrom { index });
        let start = self.control(check(false));
        self.enter_loop();
        let cleared = self.body(steps)?;
        self.at(clear).action = Action::Clear(cleared);
        let inner = self.leave_loop();
        let mut ends = vec![start, self.control(check(true))];
        self.end_here(&inner.nexts);
        let next = self.control(LoopAction::Count { index });
        self.jump(&[next], start);
        ends.extend(inner.breaks);
        self.end_here(&ends);
        if index.is_some() {
            self.control(LoopAction::CountFrom { index });
        }
        Ok(())
    }

    fn for_each(&mut self, each: &ForEach, steps: &[Step]) -> Result<(), Fault> {
        let (each, slot) = (Arc::new(each.clone()), self.slots(1));
        self.control(LoopAction::EachStart { each: each.clone(), slot });
        let check = LoopAction::Each { each: each.clone(), slot };
        let start = self.control(check.clone());
        self.enter_loop();
        let mut ends = self.watched(check, steps)?;
        let inner = self.leave_loop();
        self.end_here(&inner.nexts);
        let next = self.control(LoopAction::EachNext { slot });
        self.jump(&[next], start);
        ends.extend(inner.breaks);
        ends.push(start);
        self.end_here(&ends);
        self.control(LoopAction::EachExit { each });
        Ok(())
    }

    fn run_time(&mut self, seconds: &Text, steps: &[Step]) -> Result<(), Fault> {
        let slot = self.slots(1);
        let start = self.control(Action::TimeStart { seconds: seconds.clone(), slot });
        let check = Action::TimeCheck { seconds: seconds.clone(), slot };
        let mut ends = self.watched(check.clone(), steps)?;
        ends.push(self.control(check));
        let next = self.control(Action::Jump);
        self.jump(&[next], start + 1);
        ends.push(start);
        self.end_here(&ends);
        Ok(())
    }

    /// Branches, each of which ends with `next` or with a jump to the end.
    fn branches(
        &mut self,
        start: usize,
        branches: &[Vec<Step>],
        next: Option<ChoiceAction>,
    ) -> Result<(), Fault> {
        let (mut targets, mut nexts, mut ends) = (Vec::new(), Vec::new(), vec![start]);
        for branch in branches {
            targets.push(self.row.ops.len());
            self.body(branch)?;
            if let Some(next) = &next {
                nexts.push(self.control(next.clone()));
            }
            ends.push(self.control(Action::Jump));
        }
        self.end_here(&ends);
        for op in nexts.into_iter().chain([start]) {
            if let Some(known) = self.at(op).action.targets_mut() {
                known.clone_from(&targets);
            }
        }
        Ok(())
    }

    fn choice(
        &mut self,
        order: ChoiceOrder,
        by_sample: bool,
        branches: &[Vec<Step>],
    ) -> Result<(), Fault> {
        let resumes = if by_sample { branches.len() } else { 0 };
        let slot = self.slots(Choice::SLOTS + resumes);
        // Every decision needs the number of branches; their operations are set at the end.
        let mut choice = Choice { order, by_sample, slot, targets: vec![0; branches.len()] };
        let start = self.control(ChoiceAction::Start(choice.clone()));
        let (mut decisions, mut ends) = (vec![start], vec![start]);
        for (number, branch) in branches.iter().enumerate() {
            choice.targets[number] = self.row.ops.len();
            if is_sampler(branch) {
                self.control(ChoiceAction::Advance(choice.clone()));
                self.body(branch)?;
                ends.push(self.control(Action::Jump));
                continue;
            }
            if by_sample {
                let listens = branch.iter().any(Step::is_additional_transaction);
                let turn = ChoiceAction::Yield { choice: choice.clone(), listens };
                ends.extend(self.watched(turn, branch)?);
                self.row.turns.push((choice.targets[number]..self.row.ops.len(), choice.clone()));
            } else {
                self.body(branch)?;
            }
            let next = self.control(ChoiceAction::Next(choice.clone()));
            decisions.push(next);
            ends.push(next);
        }
        self.end_here(&ends);
        for op in decisions {
            if let Some(known) = self.at(op).action.targets_mut() {
                known.clone_from(&choice.targets);
            }
        }
        Ok(())
    }
}

/// Whether a branch is a single sampler with its timers.
fn is_sampler(steps: &[Step]) -> bool {
    let samplers = steps.iter().filter(|step| step.is_sampler()).count();
    let inner = |step: &Step| {
        matches!(step, Step::Loop { .. } | Step::Once(_) | Step::Transaction { .. })
            || matches!(step, Step::Control(_))
    };
    samplers == 1 && !steps.iter().any(inner)
}
