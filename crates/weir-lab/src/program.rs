//! Programs: the steps of virtual users. Scenario files, JMeter plans and the command line are
//! translated into a program, which the engine runs.
//!
//! Names are resolved: a variable, a label, a feeder or a counter is an index into a list of the
//! program. A request without variables and functions is encoded once.

mod assertion;
mod check;
mod condition;
mod control;
mod extract;
mod files;
mod function;
mod grpc;
pub(crate) mod keystore;
mod labels;
mod load;
mod number_format;
mod post_processor;
mod request;
mod scope;
mod script;
mod stream;
mod text;
mod tls_identity;

pub use assertion::{Assertion, JsonAssertion, ResponseAssertion};
pub(crate) use check::reason_of;
pub use check::{
    CEL_VARIABLES, Check, CheckKind, Comparison, Field, JsonCheck, Response, SizeOperator,
    StatusSet, TextCheck,
};
pub use condition::condition;
pub use control::{
    ChoiceOrder, Controller, ControllerKind, Dummy, FlowAction, ForEach, Gate, GateId, LocalKind,
    LocalSample, SharedTimer, TimerId,
};
pub use extract::{Extraction, Extractor};
pub(crate) use files::MAX_FILE_BYTES;
pub use files::{FileName, RowsFile};
pub(crate) use function::digest;
pub use function::{Call, JmeterFunction, Kind};
pub use grpc::{BoundCall, CallEnd, GrpcCall, MessageTemplate, TemplateError};
pub use keystore::{Keystore, KeystoreEntry, KeystoreError};
pub use labels::{Label, Labels, OTHER_LABELS};
pub use load::{
    ArrivalRate, ArrivalStage, ArrivalTimes, Climb, Executor, FindMax, Planned, Searched, Span,
    Stage, Users, UsersAtStart,
};
pub(crate) use load::{MAX_RATE, MAX_STAGE_SECONDS, valid_rate};
pub use number_format::NumberFormat;
pub(crate) use post_processor::JmesPath;
pub use post_processor::{Expression, PostProcessor, Rule, Source};
pub use request::{
    Body, CacheOptions, ClientOptions, Credentials, Multipart, Origin, Part, PartContent,
    Redirects, Request, Resources, Timeouts, Url, UrlError, target,
};
pub(crate) use scope::Changes;
pub use scope::{Scope, State, Values};
pub use script::{
    AfterScripts, Installation, ScriptElement, ScriptId, ScriptRole, ScriptStep, Scripts,
};
pub use stream::{EventsEnd, Exchange, Outgoing, Stream, StreamKind};
pub use text::{Escape, Function, Text, TextPart};
pub use tls_identity::{TlsError, TlsIdentity};

use regex::bytes::Regex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Index into [`Program::variables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variable(pub u32);

/// Index into [`Program::counters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterId(pub u32);

/// Index into [`Program::feeders`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeederId(pub u32);

/// Name of the variable with the success of the last sample, as in JMeter.
pub(crate) const LAST_SUCCESS: &str = "JMeterThread.last_sample_ok";

/// A complete load.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Groups of virtual users, in the order of the file. All of [`Phase::Setup`] run first, then
    /// all of [`Phase::Main`], then all of [`Phase::Teardown`].
    pub groups: Vec<Group>,
    /// Main groups run one after the other instead of all at once.
    pub consecutive: bool,
    /// Groups of [`Phase::Teardown`] run after a stop, too.
    pub teardown_after_stop: bool,
    /// Labels of samples, without duplicates.
    pub labels: Labels,
    /// Names of variables; every virtual user has its own values.
    pub variables: Vec<String>,
    /// Initial values of variables, rendered once for all users, in this order.
    pub initial: Vec<(Variable, Text)>,
    /// Functions that the helper JVM evaluates, each before the initial value with this index.
    pub initial_functions: Vec<(usize, ScriptId)>,
    /// Rows for users.
    pub feeders: Vec<Arc<Feeder>>,
    /// Counters.
    pub counters: Vec<Counter>,
    /// Gates.
    pub gates: Vec<Gate>,
    /// Timers that depend on other users.
    pub timers: Vec<SharedTimer>,
    /// Initial properties, read by `Function::Property` and written by `Function::SetProperty`;
    /// shared by all users.
    pub properties: Vec<(String, String)>,
    /// Cookies that users have from the start.
    pub preset_cookies: Vec<PresetCookie>,
    /// Texts may name variables while the program runs, so that all of them have to be kept.
    pub dynamic_names: bool,
    /// Scripts that run in the helper JVM.
    pub scripts: Option<Arc<Scripts>>,
    /// A function reads the text of the last response.
    pub reads_responses: bool,
    /// Certificates of `https` targets are not verified (like JMeter, wrk and ab).
    pub insecure: bool,
    /// Certificates of connections with TLS.
    pub tls: TlsIdentity,
    /// Client certificates of users; instead of the one of [`Self::tls`].
    pub keystore: Option<Arc<Keystore>>,
}

/// Phase of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Before all others.
    Setup,
    /// The measured load.
    #[default]
    Main,
    /// After all others.
    Teardown,
}

/// Virtual users with the same steps.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name, in thread names of samples.
    pub name: String,
    /// Phase.
    pub phase: Phase,
    /// Number of users or iterations, and their start.
    pub executor: Executor,
    /// Time from the start of the phase to the first user.
    pub delay: Duration,
    /// Steps of an iteration.
    pub steps: Vec<Step>,
    /// Behaviour after a failed sample.
    pub on_error: OnError,
    /// Variable with the number of completed iterations.
    pub index: Option<Variable>,
    /// Cookies of users.
    pub cookies: Cookies,
    /// Every iteration starts with new connections.
    pub new_user: bool,
    /// Time for requests in flight after the end of the group; `None` is that of the run.
    pub grace: Option<Duration>,
}

/// Behaviour after a failed sample (JMeter's "action to be taken after a sampler error").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "kebab-case")]
pub enum OnError {
    /// Continue.
    #[default]
    Continue,
    /// Start the next iteration.
    NextIteration,
    /// End the user.
    StopUser,
    /// Stop the run after the samples in flight.
    #[strum(serialize = "stop")]
    StopRun,
    /// Stop the run immediately.
    #[strum(disabled)]
    StopNow,
}

/// Cookies of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cookies {
    /// No cookies.
    #[default]
    Ignored,
    /// Kept until the user ends.
    Kept,
    /// Kept until the iteration ends.
    KeptForIteration,
}

/// A cookie that the users of a group have from the start.
#[derive(Clone, Debug, PartialEq)]
pub struct PresetCookie {
    /// Index of the group.
    pub group: usize,
    /// A URL of its host.
    pub url: Text,
    /// The cookie as in `Set-Cookie`.
    pub field: Text,
}

/// A step of a user.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends a request and waits for its response: one sample.
    Request(Arc<Request>),
    /// Repeats steps.
    Loop {
        /// Number of iterations.
        times: LoopCount,
        /// The steps.
        steps: Vec<Step>,
    },
    /// Executes steps once for each user; directly in a loop, once each time the loop is entered.
    Once(Vec<Step>),
    /// Executes steps as a controller decides.
    Control(Box<Controller>),
    /// Changes the control flow.
    Flow(FlowAction),
    /// Changes the control flow if the sample before it has failed.
    OnFailure(FlowAction),
    /// A gate counts an iteration and decides about it.
    Decide(GateId),
    /// A sample without a request.
    Local(Arc<LocalSample>),
    /// Waits for other users.
    Shared(TimerId),
    /// Counts the samples of these steps as one additional sample with its own label. The sample
    /// has their total time, and fails if one of them fails.
    Transaction {
        /// Its label, unless it changes.
        label: Label,
        /// Label that is evaluated at the start of each one.
        name: Option<Text>,
        /// Include pauses (JMeter's `includeTimers`); otherwise the time is the sum of the samples.
        with_pauses: bool,
        /// Do not count the samples of the steps separately (JMeter's `parent`).
        parent_only: bool,
        /// Checks of a sample that replaces those of the steps. It has their status and sizes, no
        /// head and no body.
        checks: Arc<[Check]>,
        /// Scripts of such a sample.
        scripts: Option<Arc<AfterScripts>>,
        /// The steps.
        steps: Vec<Step>,
    },
    /// Pauses: think time, timers.
    Pause(Pause),
    /// Waits until this time after the previous execution of this step by the same user.
    Pacing(Duration),
    /// Waits for a rate of samples (JMeter's ConstantThroughputTimer).
    Throughput {
        /// Samples per minute; a text, since a function is allowed.
        per_minute: Text,
        /// Scope of the rate.
        of: ThroughputOf,
    },
    /// Sets variables.
    Set(Vec<(Variable, Text)>),
    /// Sets variables by the number of the user in its group: user 0 gets the first row; after the
    /// last row the first one follows (JMeter's UserParameters).
    SetByUser(Vec<Vec<(Variable, Text)>>),
    /// Sets the variables of the next row of a feeder.
    Feed(FeederId),
    /// Runs a script: a pre-processor, a timer, or a function of a later step.
    Script(ScriptStep),
    /// Sets the variable of a counter to its next value.
    Count(CounterId),
}

/// Number of iterations of a loop.
#[derive(Clone, Debug, PartialEq)]
pub enum LoopCount {
    /// Endless.
    Forever,
    /// Evaluated when the loop is entered; 0 for an invalid number.
    Count(Text),
}

/// Length of a pause in milliseconds, evaluated each time: a constant and a random part. An invalid
/// number is 0, and a negative length is no pause.
#[derive(Clone, Debug, PartialEq)]
pub struct Pause {
    /// The constant part.
    pub offset: Text,
    /// Distribution of the random part.
    pub distribution: Distribution,
    /// Parameter of the distribution.
    pub spread: Text,
}

/// Distribution of the random part of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// No random part.
    None,
    /// Uniform from 0 to the spread.
    Uniform,
    /// Normal around 0; the spread is the standard deviation.
    Normal,
    /// Poisson; the spread is the mean.
    Poisson,
    /// Exponential; the spread is the mean.
    Exponential,
    /// Log-normal; the constant part is the median, the spread the standard deviation of the logarithm.
    LogNormal,
}

impl Pause {
    /// A pause without a random part.
    pub fn constant(offset: Text) -> Self {
        Self { offset, distribution: Distribution::None, spread: Text::default() }
    }
}

/// Scope of the rate of [`Step::Throughput`] (JMeter's `calcMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThroughputOf {
    /// Each user.
    #[default]
    User,
    /// Divided by all users of the run: each waits for its share, from its own last sample.
    AllUsers,
    /// Divided by all users of the group, likewise.
    Group,
    /// All users of the run, on one shared schedule.
    AllUsersShared,
    /// All users of the group, on one shared schedule.
    GroupShared,
}

/// Rows for variables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Feeder {
    /// Name for messages.
    pub name: String,
    /// Variables of the columns.
    pub variables: Vec<Variable>,
    /// The rows; a short row leaves the remaining variables as they are.
    pub rows: Vec<Vec<Box<str>>>,
    /// The first row follows after the last one.
    pub recycle: bool,
    /// Without `recycle`, a user without a row ends; otherwise its variables become `<EOF>`.
    pub stop_user: bool,
    /// Scope of the position.
    pub share: Share,
    /// Random rows, each chosen independently.
    pub random: bool,
    /// The rows are those of this file instead.
    pub file: Option<Box<RowsFile>>,
}

/// Scope of the position of a feeder or counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Share {
    /// All users.
    #[default]
    All,
    /// The users of a group.
    Group,
    /// One position per user.
    User,
}

/// An increasing number.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// The variable.
    pub variable: Variable,
    /// First value, evaluated once per run (once per user with [`Share::User`]).
    pub start: Text,
    /// Step.
    pub increment: Text,
    /// Largest value, followed by the first value; endless if empty.
    pub maximum: Text,
    /// Format of its values.
    pub format: NumberFormat,
    /// Scope.
    pub share: Share,
    /// Reset at each iteration of the group; only with [`Share::User`].
    pub reset_each_iteration: bool,
}

impl Program {
    /// All steps, each before the steps inside it.
    #[must_use]
    pub fn steps(&self) -> Vec<&Step> {
        let mut found = Vec::new();
        self.groups.iter().for_each(|group| collect(&group.steps, &mut found));
        found
    }

    /// Labels of transactions, whose samples repeat the samples of their requests.
    #[must_use]
    pub fn transactions(&self) -> Vec<Label> {
        let label = |step: &Step| match step {
            Step::Transaction { label, name: None, .. } => Some(*label),
            _ => None,
        };
        let labels: BTreeSet<Label> = self.steps().into_iter().filter_map(label).collect();
        labels.into_iter().chain(self.labels.of_transactions()).collect()
    }

    /// The variable with the success of the last sample, if the program uses it.
    pub(crate) fn last_success(&self) -> Option<Variable> {
        let at = self.variables.iter().position(|name| name == LAST_SUCCESS)?;
        u32::try_from(at).ok().map(Variable)
    }

    /// Redirects requests from one origin to another. Returns the number of redirected requests.
    pub fn retarget(&mut self, from: &Origin, to: &Origin) -> usize {
        if from == to {
            return 0;
        }
        self.groups.iter_mut().map(|group| retarget(&mut group.steps, from, to)).sum()
    }

    /// Users of the main groups, if known; for consecutive groups the maximum.
    #[must_use]
    pub fn users(&self) -> Option<u64> {
        let main = self.groups.iter().filter(|group| group.phase == Phase::Main);
        let users = main.map(|group| match &group.executor {
            Executor::Users(users) => Some(u64::from(users.users)),
            Executor::SharedIterations { vus, .. } => Some(u64::from(*vus)),
            Executor::Planned(planned) => Some(planned.spans.len() as u64),
            _ => None,
        });
        let users: Option<Vec<u64>> = users.collect();
        users.and_then(|users| {
            if self.consecutive { users.into_iter().max() } else { Some(users.iter().sum()) }
        })
    }

    /// Adds a counter.
    pub(crate) fn add_counter(&mut self, counter: Counter) -> CounterId {
        self.counters.push(counter);
        CounterId(u32::try_from(self.counters.len() - 1).unwrap_or(u32::MAX))
    }

    /// Adds a gate.
    pub(crate) fn add_gate(&mut self, gate: Gate) -> GateId {
        self.gates.push(gate);
        GateId(u32::try_from(self.gates.len() - 1).unwrap_or(u32::MAX))
    }

    /// Adds a timer.
    pub(crate) fn add_timer(&mut self, timer: SharedTimer) -> TimerId {
        self.timers.push(timer);
        TimerId(u32::try_from(self.timers.len() - 1).unwrap_or(u32::MAX))
    }

    /// The label of requests of this name; added if missing.
    pub fn label(&mut self, name: &str) -> Label {
        self.labels.fixed(name, false)
    }

    /// The label of transactions of this name; added if missing.
    pub fn transaction_label(&mut self, name: &str) -> Label {
        self.labels.fixed(name, true)
    }

    /// The variable of this name; added if missing.
    pub fn variable(&mut self, name: &str) -> Variable {
        Variable(index_of(&mut self.variables, name))
    }
}

impl Step {
    /// The steps inside: of a loop or a transaction, or the branches of a controller.
    pub(crate) fn branches(&self) -> &[Vec<Self>] {
        match self {
            Self::Loop { steps, .. } | Self::Once(steps) | Self::Transaction { steps, .. } => {
                std::slice::from_ref(steps)
            }
            Self::Control(controller) => &controller.branches,
            _ => &[],
        }
    }

    pub(crate) fn branches_mut(&mut self) -> &mut [Vec<Self>] {
        match self {
            Self::Loop { steps, .. } | Self::Once(steps) | Self::Transaction { steps, .. } => {
                std::slice::from_mut(steps)
            }
            Self::Control(controller) => &mut controller.branches,
            _ => &mut [],
        }
    }

    /// Whether this is a transaction beside its samples.
    pub(crate) fn is_additional_transaction(&self) -> bool {
        matches!(self, Self::Transaction { parent_only: false, .. })
    }

    /// Whether this is a sampler: a request or an action, after which controllers decide again.
    pub(crate) fn is_sampler(&self) -> bool {
        matches!(self, Self::Request(_) | Self::Local(_) | Self::Flow(_))
    }
}

fn collect<'s>(steps: &'s [Step], found: &mut Vec<&'s Step>) {
    for step in steps {
        found.push(step);
        step.branches().iter().for_each(|steps| collect(steps, found));
    }
}

fn retarget(steps: &mut [Step], from: &Origin, to: &Origin) -> usize {
    let mut count = 0;
    for step in steps {
        if let Step::Request(request) = step
            && let Url::Parts { origin, .. } = &mut Arc::make_mut(request).url
            && origin == from
        {
            *origin = to.clone();
            count += 1;
        }
        count +=
            step.branches_mut().iter_mut().map(|steps| retarget(steps, from, to)).sum::<usize>();
    }
    count
}

/// Compiles a regular expression; an error is one line.
pub(crate) fn parse_regex(pattern: &str) -> Result<Regex, String> {
    Regex::new(pattern).map_err(|error| {
        let error = error.to_string();
        let reason = error.lines().last().unwrap_or_default().trim();
        reason.trim_start_matches("error: ").to_owned()
    })
}

/// Index of `name` in `names`; added if missing.
fn index_of(names: &mut Vec<String>, name: &str) -> u32 {
    let found = names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    });
    u32::try_from(found).unwrap_or(u32::MAX)
}
