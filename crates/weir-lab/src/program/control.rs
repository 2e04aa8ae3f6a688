//! Controllers: steps that decide which other steps follow.

use super::{AfterScripts, Check, Label, LoopCount, PostProcessor, ScriptId, Step, Text, Variable};

/// Index into [`super::Program::gates`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GateId(pub u32);

/// A controller and its steps.
#[derive(Clone, Debug)]
pub struct Controller {
    /// What it decides.
    pub kind: ControllerKind,
    /// Functions of its texts, which run before each decision.
    pub scripts: Vec<ScriptId>,
    /// Its steps: one branch, or several ones of which the controller chooses.
    pub branches: Vec<Vec<Step>>,
}

/// What a controller decides.
#[derive(Clone, Debug)]
pub enum ControllerKind {
    /// Executes its branch; Once Only Controllers in it are not directly in the loop around it.
    Simple,
    /// Executes its branch if a text is `true`.
    If {
        /// The text.
        condition: Text,
        /// Evaluate it again after each sample.
        each_sample: bool,
    },
    /// Repeats its branch.
    Loop {
        /// Number of iterations.
        times: LoopCount,
        /// Variable with the number of completed iterations.
        index: Option<Variable>,
        /// Only the first time it is reached by a user (JMeter's `continue_forever` is `false`).
        once: bool,
    },
    /// Repeats its branch until a text is `false`. An empty text ends after a failed sample; `LAST`
    /// does, too, and does not start after one.
    While {
        /// The text.
        condition: Text,
        /// As for a loop.
        index: Option<Variable>,
    },
    /// Repeats its branch for each variable of a numbered list.
    ForEach(ForEach),
    /// Executes one branch, by number or name.
    Switch {
        /// Number from 0, or name.
        selection: Text,
        /// Names of the branches.
        names: Vec<Text>,
    },
    /// Executes one branch, another one each time.
    Choose {
        /// The order.
        order: ChoiceOrder,
        /// Only one sample of the branch each time.
        by_sample: bool,
    },
    /// Executes all branches in random order.
    Shuffle,
    /// Executes its branch as often as a gate allows.
    Gate(GateId),
    /// Repeats its branch for a number of seconds.
    RunTime(Text),
    /// Executes its branch while no other user executes one with the same lock.
    Locked(Text),
}

/// Variables `input_1`, `input_2` and so on, up to the first one without a value.
#[derive(Clone, Debug, PartialEq)]
pub struct ForEach {
    /// Start of their names.
    pub input: Text,
    /// The names have `_` before their number.
    pub separator: bool,
    /// Variable for the current value.
    pub output: Variable,
    /// Number before the first one; 0 if empty.
    pub start: Text,
    /// Last number; `None` is endless.
    pub end: Option<Text>,
    /// Variable with the number of the previous item.
    pub index: Option<Variable>,
}

/// Order of the branches of [`ControllerKind::Choose`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChoiceOrder {
    /// In turn; each user starts with the first one.
    InTurn,
    /// In turn; users start with different ones.
    InTurnByUser,
    /// At random.
    Random,
}

/// Allows a part of the iterations of the surrounding controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// The limit is a percentage of the iterations instead of a number of executions.
    pub percent: bool,
    /// The limit.
    pub limit: Text,
    /// Count each user separately.
    pub per_user: bool,
}

/// Change of the control flow (JMeter's flow control action).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowAction {
    /// None: the previous step, a pause, counts as a sampler for the controllers around it.
    Continue,
    /// End the user.
    StopUser,
    /// Stop the run after the samples in flight.
    StopRun,
    /// Stop the run immediately.
    StopNow,
    /// Start the next iteration of the user.
    NextIteration,
    /// Start the next iteration of the innermost loop.
    NextOfLoop,
    /// End the innermost loop.
    BreakLoop,
}

/// A sample without a request.
#[derive(Clone, Debug)]
pub struct LocalSample {
    /// Label, unless it changes.
    pub label: Label,
    /// Label that is evaluated for each sample.
    pub name: Option<Text>,
    /// Its content.
    pub kind: LocalKind,
    /// Checks of the content.
    pub checks: Vec<Check>,
    /// Extractors of the content.
    pub post_processors: Vec<PostProcessor>,
    /// Scripts.
    pub scripts: Option<Box<AfterScripts>>,
}

/// Content of a [`LocalSample`].
#[derive(Clone, Debug)]
pub enum LocalKind {
    /// Lists variables and properties.
    Debug {
        /// List variables.
        variables: bool,
        /// List properties.
        properties: bool,
        /// List properties of the system, which the Lab has none of.
        system: bool,
    },
    /// A given response.
    Dummy(Box<Dummy>),
    /// What a script returns.
    Script(ScriptId),
}

/// A given response.
#[derive(Clone, Debug, PartialEq)]
pub struct Dummy {
    /// `true` for success.
    pub success: Text,
    /// Status.
    pub status: Text,
    /// Reason phrase.
    pub reason: Text,
    /// Body of the response.
    pub body: Text,
    /// Body of the request.
    pub request: Text,
    /// URL.
    pub url: Text,
    /// Response time in milliseconds.
    pub elapsed: Text,
    /// Time to the first byte in milliseconds.
    pub latency: Text,
    /// Time to connect in milliseconds.
    pub connect: Text,
    /// Wait for the response time.
    pub waits: bool,
}

/// A wait before a sample that depends on other users.
#[derive(Clone, Debug, PartialEq)]
pub enum SharedTimer {
    /// Waits until a number of users wait (JMeter's synchronizing timer).
    Rendezvous {
        /// Number of users; 0 is all users of the group.
        users: Text,
        /// Longest wait in milliseconds; 0 is endless.
        timeout: Text,
    },
    /// Random times with a given number in each period (JMeter's precise throughput timer).
    Precise {
        /// Samples in a period.
        throughput: Text,
        /// Seconds of a period.
        period: Text,
        /// Seconds in which the number of samples is exact.
        duration: Text,
        /// Samples at the same time.
        batch: Text,
    },
    /// Rates by second (the throughput shaping timer): from, to, seconds. The user ends after the
    /// last one.
    Shaped(Vec<(f64, f64, u32)>),
}

/// Index into [`super::Program::timers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId(pub u32);

impl From<Controller> for Step {
    fn from(controller: Controller) -> Self {
        Self::Control(Box::new(controller))
    }
}

impl ControllerKind {
    /// A controller with one branch.
    #[must_use]
    pub fn around(self, steps: Vec<Step>) -> Step {
        Controller { kind: self, scripts: Vec::new(), branches: vec![steps] }.into()
    }
}
