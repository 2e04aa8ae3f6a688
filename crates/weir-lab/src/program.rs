//! What virtual users do: the one form into which scenario files, JMeter plans and the command
//! line are translated, and which the engine runs.
//!
//! Names are resolved: a variable, a label, a feeder or a counter is an index into the program's
//! list of them. A request whose texts have no variables and functions is put together once.

mod check;
mod extract;
mod load;
mod request;
mod scope;
mod text;

pub use check::{Check, CheckKind, Comparison, Field, Reply, SizeOrder, StatusSet};
pub use extract::{Extract, Extractor, Further};
pub use load::{Executor, FindMax, Stage, Users};
pub use request::{Body, Origin, Part, Redirects, Request, Timeouts, Url, UrlError, target};
pub use scope::{Scope, State, Values};
pub use text::{Function, Piece, Text};

use std::sync::Arc;
use std::time::Duration;

/// Index into [`Program::labels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub u32);

/// Index into [`Program::variables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Variable(pub u32);

/// Index into [`Program::counters`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterId(pub u32);

/// Index into [`Program::feeders`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FeederId(pub u32);

/// A load, whole.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Groups of virtual users, in the order of the file. All of [`Phase::Setup`] run first, then
    /// all of [`Phase::Main`], then all of [`Phase::Teardown`].
    pub groups: Vec<Group>,
    /// Main groups one after the other instead of all at once.
    pub consecutive: bool,
    /// Names under which samples are counted; each once.
    pub labels: Vec<String>,
    /// Names of variables; every virtual user has values of its own.
    pub variables: Vec<String>,
    /// Values that variables have at first, put together once for all users, in this order.
    pub initial: Vec<(Variable, Text)>,
    /// Rows that are handed out to users.
    pub feeders: Vec<Arc<Feeder>>,
    /// Counters.
    pub counters: Vec<Counter>,
    /// Properties at the start, which `Function::Property` reads and `Function::SetProperty`
    /// writes; shared by all users.
    pub properties: Vec<(String, String)>,
    /// Certificates of `https` targets are not verified (as JMeter, wrk and ab do it).
    pub insecure: bool,
}

/// When a group runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Before all others.
    Setup,
    /// The load itself.
    #[default]
    Main,
    /// After all others, also after a stop.
    Teardown,
}

/// Virtual users that do the same steps.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its name, in thread names of samples.
    pub name: String,
    /// When it runs.
    pub phase: Phase,
    /// How many users or iterations, and when.
    pub executor: Executor,
    /// From the start of its phase to its first user.
    pub delay: Duration,
    /// One iteration.
    pub steps: Vec<Step>,
    /// What a failed sample does.
    pub on_error: OnError,
    /// Whether users keep cookies.
    pub cookies: Cookies,
    /// Every iteration is a new user's: cookies are forgotten, connections closed.
    pub fresh_user: bool,
}

/// What a failed sample does (JMeter's "action to be taken after a sampler error").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Nothing: go on.
    #[default]
    Continue,
    /// The next iteration begins.
    NextIteration,
    /// The user ends.
    StopUser,
    /// The whole run ends after the samples under way.
    StopRun,
    /// The whole run ends at once.
    StopNow,
}

/// Cookies of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cookies {
    /// None are kept or sent.
    #[default]
    Ignored,
    /// Kept until the user ends.
    Kept,
    /// Kept until the iteration ends.
    KeptForIteration,
}

/// One thing a user does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends a request and waits for its answer: one sample.
    Request(Arc<Request>),
    /// Does steps again and again.
    Loop {
        /// How often.
        times: Times,
        /// What.
        steps: Vec<Step>,
    },
    /// Does steps in the first iteration of each user only.
    Once(Vec<Step>),
    /// Samples of these steps together are one sample more, under a label of its own: its time
    /// is theirs, it fails if one fails.
    Transaction {
        /// Its label.
        label: Label,
        /// Whether pauses inside count (JMeter's `includeTimers`); otherwise the time is the sum of
        /// the samples' own.
        with_pauses: bool,
        /// The samples of the steps themselves are not counted (JMeter's `parent`).
        instead: bool,
        /// What belongs to it.
        steps: Vec<Step>,
    },
    /// Waits: think time, timers.
    Pause(Pause),
    /// Waits until this long after the last time this step was passed by the same user.
    Pacing(Duration),
    /// Waits so that samples come at this rate (JMeter's ConstantThroughputTimer).
    Throughput {
        /// Samples a minute; text, for it may be a function.
        per_minute: Text,
        /// Of whom.
        of: ThroughputOf,
    },
    /// Gives variables a value.
    Set(Vec<(Variable, Text)>),
    /// Gives variables a value by the number of the user in its group: user 0 takes the first row,
    /// and after the last row comes the first again (JMeter's UserParameters).
    SetByUser(Vec<Vec<(Variable, Text)>>),
    /// Takes the next row of a feeder into its variables.
    Feed(FeederId),
    /// Takes the next value of a counter into its variable.
    Count(CounterId),
}

/// How often a loop goes round.
#[derive(Clone, Debug, PartialEq)]
pub enum Times {
    /// Until the user ends.
    Forever,
    /// So often, put together when the loop is entered; what is no number is 0.
    Count(Text),
}

/// How long a pause is; milliseconds, put together each time. What is no number is 0.
#[derive(Clone, Debug, PartialEq)]
pub enum Pause {
    /// Always the same.
    Constant(Text),
    /// `offset` and evenly up to `range` more.
    Uniform {
        /// Least.
        offset: Text,
        /// Width.
        range: Text,
    },
    /// Around `offset`, with this standard deviation; never below 0.
    Gaussian {
        /// Mean.
        offset: Text,
        /// Standard deviation.
        deviation: Text,
    },
    /// `offset` and Poisson distributed with this mean more.
    Poisson {
        /// Least.
        offset: Text,
        /// Mean of what comes on top.
        mean: Text,
    },
}

/// Whose rate [`Step::Throughput`] holds (JMeter's `calcMode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThroughputOf {
    /// Each user by itself.
    #[default]
    User,
    /// All users of the run divide it: each waits for its share, from its own last sample.
    AllUsers,
    /// All users of the group divide it, likewise.
    Group,
    /// All users of the run, on one shared schedule.
    AllUsersShared,
    /// All users of the group, on one shared schedule.
    GroupShared,
}

/// Rows for variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Feeder {
    /// Its name, for messages.
    pub name: String,
    /// The variables of its columns.
    pub variables: Vec<Variable>,
    /// The rows; a short one leaves the rest of the variables unset.
    pub rows: Vec<Vec<Box<str>>>,
    /// After the last row comes the first.
    pub recycle: bool,
    /// Without `recycle`, a user that finds no row ends; otherwise its variables become `<EOF>`.
    pub stop_user: bool,
    /// Who shares a position in it.
    pub share: Share,
    /// Rows come in random order, each drawn anew.
    pub random: bool,
}

/// Who shares a feeder's or a counter's position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// All users.
    #[default]
    All,
    /// The users of a group.
    Group,
    /// Nobody: each user begins at the first row.
    User,
}

/// A number that goes up.
#[derive(Clone, Debug, PartialEq)]
pub struct Counter {
    /// Where its value goes.
    pub variable: Variable,
    /// First value; put together once a run (a user with [`Share::User`]).
    pub start: Text,
    /// Step.
    pub increment: Text,
    /// After it comes the first value again; an empty text is no end.
    pub maximum: Text,
    /// Least number of digits, filled up with zeros (JMeter's format `000`).
    pub digits: u8,
    /// What stands before the digits.
    pub prefix: String,
    /// Whose it is.
    pub share: Share,
    /// Each iteration of the group begins at the first value again; with [`Share::User`] only.
    pub reset_each_iteration: bool,
}

impl Program {
    /// Labels of transactions: their samples are other samples once more.
    #[must_use]
    pub fn transactions(&self) -> Vec<Label> {
        let mut found = Vec::new();
        for group in &self.groups {
            find_transactions(&group.steps, &mut found);
        }
        found
    }

    /// Sends what goes to one server to another one.
    pub fn retarget(&mut self, from: &Origin, to: &Origin) {
        if from != to {
            self.groups.iter_mut().for_each(|group| retarget(&mut group.steps, from, to));
        }
    }

    /// Users of its main groups, if their number is known: of groups that follow each other the
    /// most.
    #[must_use]
    pub fn users(&self) -> Option<u64> {
        let main = self.groups.iter().filter(|group| group.phase == Phase::Main);
        let users = main.map(|group| match &group.executor {
            Executor::Users(users) => Some(u64::from(users.users)),
            Executor::SharedIterations { vus, .. } => Some(u64::from(*vus)),
            _ => None,
        });
        let users: Option<Vec<u64>> = users.collect();
        users.and_then(|users| {
            if self.consecutive { users.into_iter().max() } else { Some(users.iter().sum()) }
        })
    }

    /// The label of this name, added if it is not there.
    pub fn label(&mut self, name: &str) -> Label {
        Label(place(&mut self.labels, name))
    }

    /// The variable of this name, added if it is not there.
    pub fn variable(&mut self, name: &str) -> Variable {
        Variable(place(&mut self.variables, name))
    }
}

fn retarget(steps: &mut [Step], from: &Origin, to: &Origin) {
    for step in steps {
        match step {
            Step::Request(request) => {
                if let Url::Parts { origin, .. } = &mut Arc::make_mut(request).url
                    && origin == from
                {
                    *origin = to.clone();
                }
            }
            Step::Loop { steps, .. } | Step::Once(steps) | Step::Transaction { steps, .. } => {
                retarget(steps, from, to);
            }
            _ => {}
        }
    }
}

fn find_transactions(steps: &[Step], found: &mut Vec<Label>) {
    for step in steps {
        match step {
            Step::Transaction { label, steps, .. } => {
                if !found.contains(label) {
                    found.push(*label);
                }
                find_transactions(steps, found);
            }
            Step::Loop { steps, .. } | Step::Once(steps) => find_transactions(steps, found),
            _ => {}
        }
    }
}

/// Where `name` is in `names`, at the end if it was not there.
fn place(names: &mut Vec<String>, name: &str) -> u32 {
    let found = names.iter().position(|known| known == name).unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    });
    u32::try_from(found).unwrap_or(u32::MAX)
}
