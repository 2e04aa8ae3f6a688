//! Scripts of a user, which run in the helper JVM.

use super::{Flow, NANOS_PER_MILLI, User};
use crate::engine::event_loop::Loop;
use crate::jvm::{self, Call, ChangedRequest, Outcome, Sample};
use crate::program::{Label, ScriptId, ScriptStep};
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// What the helper knows of a user.
#[derive(Default)]
pub(in crate::engine) struct UserScripts {
    /// Number of the user, unique in the run.
    user: u32,
    thread: String,
    group: String,
    /// Variables of the helper.
    known: HashMap<String, String>,
    /// What scripts demand from the thread after the current step.
    flow: jvm::Flow,
    /// The last sample.
    pub(in crate::engine) previous: Sample,
    /// The helper does not have this sample yet.
    pub(in crate::engine) is_new: bool,
    /// The sample of a transaction, while scripts judge it.
    pub(in crate::engine) parent: Option<Box<Sample>>,
    /// The request that scripts have made.
    pub(in crate::engine) request: Option<Box<ChangedRequest>>,
}

/// A run of a script.
#[derive(Clone, Copy)]
pub(in crate::engine) struct Run {
    pub(in crate::engine) step: ScriptStep,
}

impl Run {
    /// A script without a sampler.
    pub(in crate::engine) fn of(script: ScriptId) -> Self {
        Self::at(script, None)
    }

    /// A script at an HTTP sampler.
    pub(in crate::engine) fn at(script: ScriptId, sampler: Option<ScriptId>) -> Self {
        let step = ScriptStep { script, sampler, is_first: false, changes_request: false };
        Self { step }
    }
}

impl User {
    /// Runs a script before a sampler.
    pub(super) async fn script_step(&mut self, step: ScriptStep) -> Flow {
        let before = self.now;
        let outcome = self.run_script(Run { step }).await;
        self.waited(before);
        if let Some(Outcome::Delay(millis)) = outcome
            && millis > 0
        {
            self.pause(millis as f64 * NANOS_PER_MILLI).await;
        }
        self.after_scripts(Flow::Next)
    }

    /// Continues as scripts demand.
    pub(super) fn after_scripts(&mut self, flow: Flow) -> Flow {
        let Some(scripts) = &mut self.scripts else { return flow };
        match std::mem::take(&mut scripts.flow) {
            jvm::Flow::Next => flow,
            jvm::Flow::NextIteration if flow == Flow::Next => Flow::EndIteration,
            jvm::Flow::NextIteration => flow,
            jvm::Flow::StopUser => Flow::EndUser,
            jvm::Flow::StopRun => {
                self.events.common.own_control.stop();
                Flow::EndUser
            }
            jvm::Flow::StopNow => {
                self.events.common.own_control.stop_now();
                Flow::EndUser
            }
        }
    }

    /// The state of scripts, made by the first one.
    pub(in crate::engine) fn scripts(&mut self) -> &mut UserScripts {
        let common = &self.events.common;
        let (group, number) = (self.group.index, self.number);
        self.scripts.get_or_insert_with(|| {
            let name = &common.plan.program.groups[group].name;
            Box::new(UserScripts {
                user: common.script_users.fetch_add(1, Ordering::Relaxed),
                thread: format!("{name} {}-{}", group + 1, u64::from(number) + 1),
                group: name.clone(),
                ..UserScripts::default()
            })
        })
    }

    /// Runs a script with the user's variables, and takes over what it has changed. `None` if it
    /// cannot run: the run ends.
    pub(in crate::engine) async fn run_script(&mut self, run: Run) -> Option<Outcome> {
        self.scripts();
        let events = self.events.clone();
        let common = &events.common;
        let helper = common.helper.as_ref()?;
        let number = self.number;
        let mut scripts = self.scripts.take()?;
        let variables = self.unknown_variables(&mut scripts.known);
        let properties = common.state.take_changed();
        let ScriptStep { script, sampler, is_first, changes_request } = run.step;
        let is_new = std::mem::take(&mut scripts.is_new);
        let call = Call {
            user: scripts.user,
            script: script.0,
            sampler: sampler.map(|sampler| sampler.0),
            is_fresh: is_first && sampler.is_some(),
            describes: changes_request,
            thread: (&scripts.thread, number, &scripts.group),
            iteration: self.iterations,
            variables: &variables,
            properties: &properties,
            previous: is_new.then_some(&scripts.previous),
            parent: scripts.parent.as_deref(),
        };
        let reply = helper.call(&call).await;
        self.now = events.now();
        (self.paused, self.steps) = (true, 0);
        let reply = match reply {
            Ok(reply) => reply,
            Err(why) => {
                common.fail(why);
                self.scripts = Some(scripts);
                return None;
            }
        };
        for (name, value) in reply.variables {
            match &value {
                Some(value) => drop(scripts.known.insert(name.clone(), value.clone())),
                None => drop(scripts.known.remove(&name)),
            }
            self.scope().set_named(&name, value);
        }
        for (name, value) in reply.properties {
            common.state.take_over(name, value);
        }
        scripts.flow = scripts.flow.max(reply.flow);
        if let Some(previous) = reply.previous {
            let changed = match &mut scripts.parent {
                Some(parent) => parent,
                None => &mut scripts.previous,
            };
            let method = std::mem::take(&mut changed.method);
            *changed = Sample { method, ..*previous };
        }
        if let Some(request) = reply.request {
            scripts.request = Some(request);
        }
        let outcome = reply.outcome;
        if let Outcome::Sample(sample) = &outcome {
            scripts.previous = Sample::clone(sample);
        }
        let results = common.plan.program.scripts.as_ref().map(|all| &all.results);
        if let (Outcome::Text(text), Some(variable)) =
            (&outcome, results.and_then(|all| all.get(&script)))
        {
            self.values.set(*variable, Some(text.clone()));
        }
        self.scripts = Some(scripts);
        Some(outcome)
    }

    /// The label of the last sample, which scripts may have changed.
    pub(in crate::engine) fn changed_label(&mut self, events: &Loop, label: Label) -> Label {
        let Some(scripts) = &self.scripts else { return label };
        let name = &scripts.previous.label;
        let labels = &events.common.plan.program.labels;
        match labels.name(label, |known| known == name) {
            true => label,
            false => events.label(name, false),
        }
    }

    /// Whether a script wants no count of the last sample.
    pub(in crate::engine) fn is_ignored(&self) -> bool {
        self.scripts.as_ref().is_some_and(|scripts| scripts.previous.ignored)
    }

    /// Variables that the helper does not have, or not with this value. They are known afterwards.
    fn unknown_variables(
        &mut self,
        known: &mut HashMap<String, String>,
    ) -> Vec<(String, Option<String>)> {
        let events = self.events.clone();
        let results = events.common.plan.program.scripts.as_ref().map(|all| all.results.len());
        let all = self.scope().all_named();
        // Results of functions are no variables of the plan.
        let is_result = |name: &str| results > Some(0) && name.starts_with("__script ");
        let (mut unknown, mut count) = (Vec::new(), 0);
        for (name, value) in all.into_iter().filter(|(name, _)| !is_result(name)) {
            count += 1;
            if known.get(&name) != Some(&value) {
                known.insert(name.clone(), value.clone());
                unknown.push((name, Some(value)));
            }
        }
        // Some were removed.
        if known.len() > count {
            let scope = self.scope();
            let is_gone = |name: &&String| scope.named(name).is_none();
            let removed: Vec<String> = known.keys().filter(is_gone).cloned().collect();
            for name in removed {
                known.remove(&name);
                unknown.push((name, None));
            }
        }
        unknown
    }

    /// The helper forgets the user.
    pub(super) fn forget_scripts(&mut self) {
        if let (Some(scripts), Some(helper)) = (&self.scripts, &self.events.common.helper) {
            helper.forget(scripts.user);
        }
    }
}
