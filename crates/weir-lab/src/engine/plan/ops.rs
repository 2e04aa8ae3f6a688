//! Operations: the steps of a group as a list with jumps, executed without recursion.

use crate::program::{
    AfterScripts, Check, ChoiceOrder, FlowAction, ForEach, GateId, Label, LocalSample, LoopCount,
    ScriptId, ScriptStep, Step, Text, TimerId, Variable,
};
use std::ops::Range;
use std::sync::Arc;

/// The operations of a group.
#[derive(Default)]
pub(in crate::engine) struct GroupPlan {
    pub(in crate::engine) ops: Vec<Op>,
    /// Number of counters of each user that controllers need.
    pub(in crate::engine) slots: usize,
    /// Number of counters that no controller resets: of pacing, rates, and loops that run once.
    pub(in crate::engine) marks: usize,
    /// Number of random orders.
    pub(in crate::engine) orders: usize,
    /// Operations within each If Controller, and the counters that it resets.
    pub(in crate::engine) conditions: Vec<(Range<usize>, Range<usize>)>,
    /// Operations within each branch of choices by sample.
    pub(in crate::engine) turns: Vec<(Range<usize>, Choice)>,
}

/// An operation.
pub(in crate::engine) enum Op {
    /// Index into [`super::Plan::requests`].
    Request(usize),
    /// Likewise, with a stream of messages.
    Stream(usize),
    TransactionStart {
        label: Label,
        name: Option<Text>,
        with_pauses: bool,
        parent_only: bool,
        checks: Arc<[Check]>,
        scripts: Option<Arc<AfterScripts>>,
    },
    TransactionEnd,
    /// A step without inner steps that is no sampler.
    Step {
        step: Step,
        mark: usize,
    },
    /// Waits for other users.
    Shared(TimerId),
    /// The same for a sample that scripts see. Index into [`super::Plan::requests`].
    Scripted(usize),
    /// Runs a script.
    Script(ScriptStep),
    /// A sample without a request.
    Local(Arc<LocalSample>),
    /// Ends the iteration, the user or the run.
    Flow(FlowAction),
    /// Decides which operation is next.
    Control(Box<Control>),
}

impl Op {
    /// Whether the operation only decides what is next, or ends a transaction.
    pub(in crate::engine) fn is_decision(&self) -> bool {
        matches!(self, Self::Control(_) | Self::TransactionStart { .. } | Self::TransactionEnd)
    }
}

/// A decision: to go on, or to jump.
pub(in crate::engine) struct Control {
    pub(in crate::engine) action: Action,
    /// Functions of the decision's texts, which run before.
    pub(in crate::engine) scripts: Arc<[ScriptId]>,
    pub(in crate::engine) to: Target,
}

/// Where a jump goes.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct Target {
    /// Index of the operation.
    pub(in crate::engine) op: usize,
    /// What is open there.
    pub(in crate::engine) depth: Depth,
}

/// Numbers of open transactions and held locks.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::engine) struct Depth {
    pub(in crate::engine) transactions: usize,
    pub(in crate::engine) locks: usize,
}

/// A variable and the counter that it shows.
pub(in crate::engine) type Index = Option<(Variable, usize)>;

/// What decides.
#[derive(Clone)]
pub(in crate::engine) enum Action {
    /// Jumps.
    Jump,
    /// Jumps out of the controllers that start at `first` or later: they are interrupted.
    Leave {
        first: usize,
    },
    /// Jumps unless the condition is `true`, and resets the counters within.
    If {
        condition: Text,
        reset: Range<usize>,
    },
    /// Jumps if the last sample succeeded.
    IfGood,
    Loop(LoopAction),
    Choice(ChoiceAction),
    /// Jumps if this was executed before.
    Once {
        slot: usize,
    },
    /// Marks it as executed.
    OnceDone {
        slot: usize,
    },
    /// Resets counters.
    Clear(Vec<usize>),
    /// Jumps unless the gate has allowed the iteration.
    Gate(GateId),
    /// The gate counts an iteration.
    Decide(GateId),
    /// Starts a time; jumps if it is zero.
    TimeStart {
        seconds: Text,
        slot: usize,
    },
    /// Jumps if the time is over.
    TimeCheck {
        seconds: Text,
        slot: usize,
    },
    /// Takes a lock.
    Lock(Text),
    /// Releases the last lock.
    Unlock,
}

/// Decisions of loops.
#[derive(Clone)]
pub(in crate::engine) enum LoopAction {
    /// Jumps if the loop has no iteration. `slot` has their number, the next one those completed.
    Start { times: LoopCount, slot: usize, index: Option<Variable>, once: Option<usize> },
    /// Jumps to the start of the body if iterations remain.
    Next { slot: usize, index: Option<Variable> },
    /// Ends a loop.
    Exit { slot: usize, index: Option<Variable>, once: Option<usize> },
    /// Starts to count the iterations of a loop without number.
    CountFrom { index: Index },
    /// Counts an iteration and jumps.
    Count { index: Index },
    /// Jumps if the condition has ended the loop.
    While { condition: Text, at_end: bool },
    /// Starts a list.
    EachStart { each: Arc<ForEach>, slot: usize },
    /// Jumps at the end of the list.
    Each { each: Arc<ForEach>, slot: usize },
    /// Next item.
    EachNext { slot: usize },
    /// Leaves a list.
    EachExit { each: Arc<ForEach> },
}

/// Decisions between branches.
#[derive(Clone)]
pub(in crate::engine) enum ChoiceAction {
    /// Jumps to a branch, or to the end.
    Switch { selection: Text, names: Vec<Text>, targets: Vec<usize> },
    /// Jumps to the next branch.
    Start(Choice),
    /// Another branch is next, the next time.
    Advance(Choice),
    /// Ends a branch: jumps to the end, or to the next one if it had no sample.
    Next(Choice),
    /// Jumps to the end after one sample of a branch; the next time the branch goes on here. The open
    /// transaction that is the branch `listens` to the samples of the other ones.
    Yield { choice: Choice, listens: bool },
    /// Jumps to the first branch of a random order.
    ShuffleStart { order: usize, slot: usize, targets: Vec<usize> },
    /// Jumps to the next one, or goes on after the last one.
    ShuffleNext { order: usize, slot: usize, targets: Vec<usize> },
}

/// Counters and branches of a choice.
#[derive(Clone)]
pub(in crate::engine) struct Choice {
    pub(in crate::engine) order: ChoiceOrder,
    pub(in crate::engine) by_sample: bool,
    /// First counter: the current branch (from 1), the branch with which the search started, the
    /// number of samples at its start, whether the branch has started again; then, if by sample,
    /// where each branch goes on.
    pub(in crate::engine) slot: usize,
    pub(in crate::engine) targets: Vec<usize>,
}

impl Choice {
    /// Number of counters before those of the branches.
    pub(in crate::engine) const SLOTS: usize = 4;

    /// The counter of the operation with which a branch goes on.
    pub(in crate::engine) fn resume(&self, branch: usize) -> usize {
        self.slot + Self::SLOTS + branch
    }
}

impl Action {
    /// Whether texts are evaluated.
    pub(super) fn has_texts(&self) -> bool {
        match self {
            Self::If { .. } | Self::TimeStart { .. } | Self::TimeCheck { .. } | Self::Lock(_) => {
                true
            }
            Self::Choice(action) => matches!(action, ChoiceAction::Switch { .. }),
            Self::Loop(action) => matches!(
                action,
                LoopAction::Start { .. }
                    | LoopAction::While { .. }
                    | LoopAction::EachStart { .. }
                    | LoopAction::Each { .. }
            ),
            _ => false,
        }
    }

    /// The targets of an action with several ones.
    pub(super) fn targets_mut(&mut self) -> Option<&mut Vec<usize>> {
        let Self::Choice(action) = self else { return None };
        match action {
            ChoiceAction::Switch { targets, .. }
            | ChoiceAction::ShuffleStart { targets, .. }
            | ChoiceAction::ShuffleNext { targets, .. } => Some(targets),
            ChoiceAction::Start(choice) | ChoiceAction::Next(choice) => Some(&mut choice.targets),
            ChoiceAction::Advance(_) | ChoiceAction::Yield { .. } => None,
        }
    }
}

impl From<LoopAction> for Action {
    fn from(action: LoopAction) -> Self {
        Self::Loop(action)
    }
}

impl From<ChoiceAction> for Action {
    fn from(action: ChoiceAction) -> Self {
        Self::Choice(action)
    }
}
