//! Logic controllers.

use super::condition::condition_script;
use super::scope::Scope;
use super::translate::Translation;
use super::tree::Element;
use crate::program::{
    ChoiceOrder, Controller, ControllerKind, FlowAction, ForEach, Gate, LoopCount, Pause, Step,
    Text,
};
use std::sync::Arc;

impl Translation<'_> {
    /// Translates a controller; `false` if the element is none.
    pub(super) fn controller<'e>(
        &mut self,
        element: &'e Element,
        inner: &Scope<'e>,
        steps: &mut Vec<Step>,
    ) -> bool {
        match element.class.as_str() {
            // The children of the last three are the ones they refer to.
            "GenericController"
            | "RecordingController"
            | "TestFragmentController"
            | "ModuleController"
            | "IncludeController" => {
                let body = self.steps(element, inner);
                if body.iter().any(|step| matches!(step, Step::Once(_))) {
                    steps.push(ControllerKind::Simple.around(body));
                } else {
                    steps.extend(body);
                }
            }
            "OnceOnlyController" => steps.push(Step::Once(self.steps(element, inner))),
            "TransactionController" => {
                let label = self.transaction_label(element);
                let parent_only = self.switch(element, "TransactionController.parent", false);
                let outer = self.parent_levels;
                let name = self.changing_label(element, true);
                self.run_functions(steps);
                let checks = if parent_only { self.checks(inner).into() } else { Arc::default() };
                let scripts = match parent_only {
                    true => self.take_after(inner, None).map(|scripts| Arc::new(*scripts)),
                    false => None,
                };
                if parent_only {
                    self.parent_levels = inner.depth();
                }
                let transaction = Step::Transaction {
                    label,
                    name,
                    with_pauses: self.switch(element, "TransactionController.includeTimers", true),
                    parent_only,
                    // Assertions apply to its samples and to itself.
                    checks,
                    scripts,
                    steps: self.steps(element, inner),
                };
                self.parent_levels = outer;
                // As in JMeter: a controller without children is executed once.
                let is_empty = !element.children.iter().any(|c| c.enabled && is_executed(c));
                steps.push(if is_empty { Step::Once(vec![transaction]) } else { transaction });
            }
            "SwitchController" => {
                let selection = self.property(element, "SwitchController.value");
                let scripts = self.take_functions();
                let (names, branches) = self.branches(element, inner, steps);
                let kind = ControllerKind::Switch { selection, names };
                let controller = Controller { kind, scripts, branches };
                steps.push(controller.into());
            }
            "InterleaveControl" | "RandomController" => self.choice(element, inner, steps),
            "RandomOrderController" => {
                let (_, branches) = self.branches(element, inner, steps);
                steps.push(
                    Controller { kind: ControllerKind::Shuffle, scripts: Vec::new(), branches }
                        .into(),
                );
            }
            _ => {
                let Some(kind) = self.controller_kind(element) else { return false };
                let scripts = self.take_functions();
                let branches = vec![self.steps(element, inner)];
                steps.push(Controller { kind, scripts, branches }.into());
            }
        }
        true
    }

    /// A controller with one branch; `None` if the element is none.
    fn controller_kind(&mut self, element: &Element) -> Option<ControllerKind> {
        Some(match element.class.as_str() {
            "IfController" => ControllerKind::If {
                condition: self.condition(element),
                each_sample: self.switch(element, "IfController.evaluateAll", false),
            },
            "LoopController" => {
                let loops = self.property(element, "LoopController.loops");
                let is_forever = |count: &str| count.trim().parse::<i64>().is_ok_and(|n| n < 0);
                ControllerKind::Loop {
                    times: match loops.as_fixed() {
                        Some(fixed) if is_forever(fixed) => LoopCount::Forever,
                        _ => LoopCount::Count(loops),
                    },
                    index: self.index(&element.name),
                    once: !self.switch(element, "LoopController.continue_forever", true),
                }
            }
            "WhileController" => ControllerKind::While {
                condition: self.property(element, "WhileController.condition"),
                index: self.index(&element.name),
            },
            "ForeachController" => ControllerKind::ForEach(self.for_each(element)),
            "ThroughputController" => match self.gates.get(&element.place()) {
                Some(gate) => ControllerKind::Gate(*gate),
                None => ControllerKind::Simple,
            },
            "RunTime" => ControllerKind::RunTime(self.property(element, "RunTime.seconds")),
            "CriticalSectionController" => {
                ControllerKind::Locked(self.property(element, "CriticalSectionController.lockName"))
            }
            _ => return None,
        })
    }

    fn condition(&mut self, element: &Element) -> Text {
        let condition = self.property(element, "IfController.condition");
        if self.switch(element, "IfController.useExpression", false) {
            return condition;
        }
        condition_script(condition)
    }

    fn for_each(&mut self, element: &Element) -> ForEach {
        let output = self.fixed(element, "ForeachController.returnVal");
        let input = self.property(element, "ForeachController.inputVal");
        let has_end = element.properties.0.contains_key("ForeachController.endIndex");
        ForEach {
            input,
            separator: self.switch(element, "ForeachController.useSeparator", true),
            output: self.variables.variable(output.trim()),
            start: self.property(element, "ForeachController.startIndex"),
            end: has_end.then(|| self.property(element, "ForeachController.endIndex")),
            index: self.index(&element.name),
        }
    }

    /// An Interleave or Random Controller.
    fn choice<'e>(&mut self, element: &'e Element, inner: &Scope<'e>, steps: &mut Vec<Step>) {
        let by_sample = self.number(element, "InterleaveControl.style", 0) == 0;
        let by_user = self.switch(element, "InterleaveControl.accrossThreads", false);
        let order = match (element.class.as_str(), by_user) {
            ("RandomController", _) => ChoiceOrder::Random,
            (_, true) => ChoiceOrder::InTurnByUser,
            (_, false) => ChoiceOrder::InTurn,
        };
        let (_, mut branches) = self.branches(element, inner, steps);
        let children = element.children.iter().filter(|child| child.enabled && is_executed(child));
        for (child, branch) in children.zip(&mut branches) {
            // The transaction of a controller within is not the branch.
            let is_inside = child.class != "TransactionController";
            if is_inside && branch.iter().any(Step::is_additional_transaction) {
                *branch = vec![ControllerKind::Simple.around(std::mem::take(branch))];
            }
        }
        // Only matters for controllers with several samplers.
        let by_sample = by_sample && branches.iter().any(|branch| samplers(branch) > 1);
        steps.push(
            Controller {
                kind: ControllerKind::Choose { order, by_sample },
                scripts: Vec::new(),
                branches,
            }
            .into(),
        );
    }

    /// The steps of each child that is a sampler or controller, and its name. Actions at the start of
    /// each iteration are added to `steps`.
    fn branches<'e>(
        &mut self,
        element: &'e Element,
        inner: &Scope<'e>,
        steps: &mut Vec<Step>,
    ) -> (Vec<Text>, Vec<Vec<Step>>) {
        let mut at_start = Vec::new();
        self.steps_at_start(inner.level(), &mut at_start);
        steps.extend(at_start.into_iter().rev());
        let (mut names, mut branches) = (Vec::new(), Vec::new());
        for child in element.children.iter().filter(|child| child.enabled) {
            let mut branch = Vec::new();
            self.step(child, inner, &mut branch);
            if is_executed(child) {
                names.push(self.text(child, &child.name));
                branches.push(branch);
            }
        }
        (names, branches)
    }

    /// A gate for each Throughput Controller of a level; it counts iterations of the level.
    pub(super) fn gate(&mut self, element: &Element, steps: &mut Vec<Step>) {
        let gate = match self.gates.get(&element.place()) {
            Some(gate) => *gate,
            None => {
                let percent = self.number(element, "ThroughputController.style", 0) == 1;
                let limit = match percent {
                    true => "ThroughputController.percentThroughput",
                    false => "ThroughputController.maxThroughput",
                };
                let limit = self.property(element, limit);
                let per_user = self.switch(element, "ThroughputController.perThread", false);
                let gate = self.variables.program.add_gate(Gate { percent, limit, per_user });
                self.gates.insert(element.place(), gate);
                gate
            }
        };
        steps.push(Step::Decide(gate));
    }

    /// Actions after a failure of a sampler (result status action handlers). As in JMeter, those that
    /// also see the transaction around it do not see the sampler.
    pub(super) fn on_failure(&mut self, scope: &Scope<'_>, steps: &mut Vec<Step>) {
        let handlers = scope.below(self.parent_levels);
        for element in handlers.filter(|element| element.class == "ResultAction") {
            let action = match self.number(element, "OnError.action", 0) {
                0 => continue,
                1 => FlowAction::StopUser,
                2 => FlowAction::StopRun,
                3 => FlowAction::StopNow,
                4 => FlowAction::NextIteration,
                5 => FlowAction::NextOfLoop,
                6 => FlowAction::BreakLoop,
                _ => {
                    self.invalid(element, "`OnError.action` is invalid");
                    continue;
                }
            };
            steps.push(Step::OnFailure(action));
        }
    }

    /// A flow control action.
    pub(super) fn test_action(&mut self, element: &Element, steps: &mut Vec<Step>) {
        let of_test = self.number(element, "ActionProcessor.target", 0) == 2;
        let action = match (self.number(element, "ActionProcessor.action", 0), of_test) {
            (0 | 2, false) => FlowAction::StopUser,
            (0, true) => FlowAction::StopRun,
            (2, true) => FlowAction::StopNow,
            (3, _) => FlowAction::NextIteration,
            (4, _) => FlowAction::NextOfLoop,
            (5, _) => FlowAction::BreakLoop,
            (1, _) => {
                let pause = self.property(element, "ActionProcessor.duration");
                self.run_functions(steps);
                steps.push(Step::Pause(Pause::constant(pause)));
                FlowAction::Continue
            }
            _ => return self.invalid(element, "`ActionProcessor.action` is invalid"),
        };
        steps.push(Step::Flow(action));
    }
}

/// Whether an element is a sampler or controller, and not only a setting of others.
fn is_executed(element: &Element) -> bool {
    let class = element.class.as_str();
    class == "TestAction"
        || class == "InterleaveControl"
        || class == "RunTime"
        || class.ends_with("Controller")
        || class.contains("Sampler")
}

/// Number of samplers of steps.
fn samplers(steps: &[Step]) -> usize {
    let of = |step: &Step| match step {
        step if step.is_sampler() => 1,
        Step::Loop { .. } => 2,
        // A controller may execute its sampler several times.
        Step::Control(controller) => {
            let all: usize = controller.branches.iter().map(|branch| samplers(branch)).sum();
            all + usize::from(all > 0)
        }
        Step::Once(steps) => samplers(steps),
        // It ends with the turn after its last sampler.
        Step::Transaction { steps, .. } => samplers(steps) + 1,
        _ => 0,
    };
    steps.iter().map(of).sum()
}
