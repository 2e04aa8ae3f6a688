//! Loads: executors and groups of users.

use super::fields::{ONLY, count, pairs_of, parsed, rate, rate_of, share, word};
use super::search::{self, Slo};
use crate::program::{
    ArrivalRate, Cookies, Executor, Group, OnError, Phase, Program, Searched, Stage, Step, Users,
};
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, codes, words};
use weir_document::settings;
use weir_document::shape::fields::Fields;
use weir_document::shape::{Kind, Names, format};

settings! {
    /// Number of users or iterations, and their schedule.
    pub(super) struct Load is "a load" {
        /// Kind of load.
        executor = text(Kind::Enum(&EXECUTOR_NAMES)).required(),
        /// Users of `constant-vus` and `shared-iterations`; initial users of `ramping-vus`.
        vus: Option<u32> = count(),
        /// Users of `ramp-users`.
        users: Option<u32> = count(),
        /// Iterations of each user (`constant-vus`, `ramp-users`), or of all users together
        /// (`shared-iterations`).
        iterations: Option<u64> = count(),
        /// Ramp-up time of the users of `constant-vus`, and of those of each step of `find-max` and
        /// `steps`.
        pub(super) ramp: Option<Duration> = duration().absent("0; `1s` for each step of users"),
        /// Ramp-up time of the users of `ramp-users`.
        over: Duration = duration().default("0"),
        /// Duration of the load.
        duration: Option<Duration> = positive(),
        /// Stages of `ramping-vus` and `ramping-arrival-rate`, with linear changes from target to
        /// target.
        stages = by_hand(Kind::List(&Kind::Object(StageKeys::SHAPE))),
        /// Iterations per second of `constant-arrival-rate`, or a share of a rate that was measured
        /// before; initial rate of `ramping-arrival-rate`.
        rate: Option<f64> = value(RATE, rate_of),
        /// Load that `find-max` and `steps` increase.
        pub(super) of: Searched = word().default("rate"),
        /// First load of `find-max` and `steps`.
        pub(super) start: Option<f64> = rate().absent("100/s; 10 users; one `step` of `steps`"),
        /// Increase of each step of `steps`.
        pub(super) step: Option<f64> = rate(),
        /// Largest load of `find-max` and `steps`.
        pub(super) max: Option<f64> = rate().absent("10000 users; rates have no limit"),
        /// Objective of `find-max` and `steps`.
        slo = object::<Slo>(),
        /// Where a search of `find-max` stops.
        pub(super) precision: f64 = share().default("2%"),
        /// Searches of `find-max`, for the interval of the result.
        pub(super) repeats: Option<u32> = integer(1, 100).absent("3 of users, 1 of rates"),
        /// Duration of each step of `find-max` and `steps`, after the ramp-up.
        pub(super) hold: Duration = positive().default("10s"),
        /// Duration of the confirming step of `find-max`; 0 for none.
        pub(super) confirm: Duration = duration().default("60s"),
        /// Iterations start at multiples of the quantum; a coarser one is cheaper for the
        /// generator.
        pub(super) quantum: Duration = positive().default("1ms"),
        /// Largest number of users, and thus of connections, of an open model.
        pub(super) max_in_flight: u32 = count().default("1000"),
        /// Iterations that may wait for a user before further ones are dropped.
        backlog: Option<u64> = integer(0, 10_000_000).absent("the iterations of 10 s"),
        /// All requests in one iteration, or each request in its own group: consecutive or parallel
        /// groups.
        pub(super) groups: Grouping = word().default("together"),
        /// Time for iterations in flight after the end of the load; later their requests are aborted.
        graceful_stop: Duration = duration().default("30s"),
        /// Delay of the start.
        delay: Duration = duration().default("0"),
        /// Minimum time between the starts of two iterations of a user.
        pacing: Option<Duration> = positive(),
        /// Users keep cookies.
        cookies: bool = boolean().default("false"),
        /// Each iteration is a new user: no cookies, a new connection.
        new_user: bool = boolean().default("false"),
        only = same(ONLY),
        /// Behaviour after a failed sample.
        on_error: OnError = value(ON_ERROR, parsed).default("continue"),
    },
    misspellings: &[
        ("users", "`vus` of `constant-vus` and `shared-iterations`, `users` of `ramp-users`"),
        ("concurrency", "write `vus`"),
        ("rps", "write `rate: 100/s`"),
        ("requests", "write `iterations`"),
    ],
}

/// A rate per second, or a share of a measured one.
const RATE: Kind = Kind::Either(&[
    Kind::Integer(1, 10_000_000),
    Kind::Format(format::RATE),
    Kind::Object(MeasuredRateKeys::SHAPE),
]);

settings! {
    /// A share of the lowest rate that a case reached in other cells of the run.
    struct MeasuredRateKeys is "a share of a measured rate" {
        /// The share.
        fraction: Option<f64> = share().required(),
        /// Values of `matrix` of the cells whose lowest rate it is. They are measured before.
        of = by_hand(Kind::Table(Names::Name, &Kind::Scalar)).required(),
    }
}

/// A share of the lowest rate that a case reached in other cells.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRate {
    /// The share.
    pub fraction: f64,
    /// Values of the matrix of these cells.
    pub of: Vec<(String, String)>,
    /// The backlog is the default of the rate.
    pub default_backlog: bool,
}

/// The rate of the only load of a cell, if it is a share of a measured one.
pub(super) fn measured_rate(loads: &[Node]) -> Option<MeasuredRate> {
    let [load] = loads else { return None };
    let rate = Fields::new(load, Load::SHAPE).object("rate", MeasuredRateKeys::SHAPE)?;
    let fraction = MeasuredRateKeys::read(&rate).fraction?;
    let default_backlog = load.get("backlog").is_none();
    Some(MeasuredRate { fraction, of: pairs_of(rate.get("of")?)?, default_backlog })
}

/// Reports a measured rate where it would be another load: beside other loads, or of another executor.
pub(super) fn check_measured_rates(loads: &[Node], report: &mut Diagnostics) {
    for load in loads.iter().filter(|load| is_measured(load)) {
        let executor = load.get("executor").and_then(Node::text).unwrap_or_default();
        let message = if loads.len() > 1 {
            "a measured rate is possible only for the single load of a cell"
        } else if executor != "constant-arrival-rate" {
            "a measured rate is possible only with `constant-arrival-rate`"
        } else {
            continue;
        };
        report.error(codes::CONFLICT, load.at, message).help("write a number as `rate`");
    }
}

/// Whether the rate of a load is a share of a measured one.
pub(super) fn is_measured(load: &Node) -> bool {
    load.get("rate").is_some_and(|rate| rate.members().is_some())
}

/// The rate of a load until it is known.
const UNKNOWN_RATE: f64 = 1.0;

settings! {
    /// A linear change to a target.
    struct StageKeys is "a stage" {
        /// Length of the stage.
        duration: Option<Duration> = duration().required(),
        /// Users, or iterations per second, at its end.
        target: Option<f64> = value(STAGE_TARGET, rate_of).required(),
    }
}

const STAGE_TARGET: Kind =
    Kind::Either(&[Kind::Integer(0, 10_000_000), Kind::Format(format::RATE)]);
const ON_ERROR: Kind = Kind::Enum(&["continue", "next-iteration", "stop-user", "stop"]);

/// Grouping of the requests of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub(super) enum Grouping {
    /// All requests in one iteration.
    Together,
    /// Each request in its own group, one after the other.
    Consecutive,
    /// Each request in its own group, all at once.
    Parallel,
}

/// Names of the executors.
const EXECUTOR_NAMES: [&str; EXECUTORS.len()] = {
    let mut names = [""; EXECUTORS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = EXECUTORS[at].0;
        at += 1;
    }
    names
};
/// Keys of all executors.
const COMMON: [&str; 9] = [
    "executor",
    "groups",
    "delay",
    "pacing",
    "cookies",
    "new_user",
    "on_error",
    "only",
    "graceful_stop",
];
/// Required and optional keys of each executor.
const EXECUTORS: [(&str, &[&str], &[&str]); 8] = [
    ("constant-vus", &["vus"], &["ramp", "duration", "iterations"]),
    ("ramping-vus", &["stages"], &["vus"]),
    ("shared-iterations", &["vus", "iterations"], &["duration"]),
    ("ramp-users", &["users"], &["over", "iterations", "duration"]),
    ("constant-arrival-rate", &["rate", "duration"], &["quantum", "max_in_flight", "backlog"]),
    ("ramping-arrival-rate", &["stages"], &["rate", "quantum", "max_in_flight", "backlog"]),
    ("find-max", &["slo"], &search::FIND_MAX_KEYS),
    ("steps", &["step", "slo"], &search::STEPS_KEYS),
];
/// Default backlog: iterations of this number of seconds.
const BACKLOG_SECONDS: f64 = 10.0;

/// The group of a load with these steps.
pub(super) fn group(
    fields: &Fields<'_>,
    name: String,
    steps: Vec<Step>,
    report: &mut Diagnostics,
) -> Option<Group> {
    let load = Load::read(fields);
    Some(Group {
        name,
        phase: Phase::Main,
        executor: executor(fields, &load, report)?,
        delay: load.delay,
        steps: load.pacing.map(Step::Pacing).into_iter().chain(steps).collect(),
        on_error: load.on_error,
        index: None,
        grace: Some(load.graceful_stop),
        cookies: match (load.cookies, load.new_user) {
            (false, _) => Cookies::Ignored,
            (true, false) => Cookies::Kept,
            (true, true) => Cookies::KeptForIteration,
        },
        new_user: load.new_user,
    })
}

fn executor(fields: &Fields<'_>, load: &Load, report: &mut Diagnostics) -> Option<Executor> {
    let name = fields.text("executor")?;
    check_keys(fields, name, report)?;
    Some(match name {
        "constant-vus" => {
            if load.iterations.is_none() && load.duration.is_none() {
                report
                    .error(codes::MISSING_KEY, fields.node().at, "this load is endless")
                    .help("add `duration` or `iterations`");
            }
            Executor::Users(Users {
                users: load.vus?,
                ramp: load.ramp.unwrap_or_default(),
                iterations: load.iterations,
                duration: load.duration,
            })
        }
        "ramp-users" => Executor::Users(Users {
            users: load.users?,
            ramp: load.over,
            iterations: load.iterations.or(Some(1)),
            duration: load.duration,
        }),
        "ramping-vus" => {
            let (start, stages) = (load.vus.unwrap_or(0), stages(fields)?);
            Executor::RampingVus { start, stages, iterations: None }
        }
        "shared-iterations" => Executor::SharedIterations {
            vus: load.vus?,
            iterations: load.iterations?,
            limit: load.duration,
        },
        "find-max" => Executor::FindMax(search::find_max(fields, load, report)?),
        "steps" => Executor::FindMax(search::steps(fields, load, report)?),
        _ => Executor::ArrivalRate(arrival_rate(fields, load)?),
    })
}

/// Reports missing and unsupported keys of an executor; `None` if a key is missing.
fn check_keys(fields: &Fields<'_>, name: &str, report: &mut Diagnostics) -> Option<()> {
    let load = fields.node();
    let (_, needed, taken) = EXECUTORS.iter().find(|(known, _, _)| *known == name)?;
    let mut complete = Some(());
    for key in needed.iter().filter(|key| fields.get(key).is_none()) {
        report.error(codes::MISSING_KEY, load.at, format!("`{name}` needs `{key}`"));
        complete = None;
    }
    for member in load.members().unwrap_or_default() {
        let known = |keys: &[&str]| keys.contains(&member.key.as_str());
        let other = EXECUTORS.iter().any(|(_, needed, taken)| known(needed) || known(taken));
        if other && !known(needed) && !known(taken) && !known(&COMMON) {
            let message = format!("`{name}` does not support `{}`", member.key);
            report
                .error(codes::CONFLICT, member.at, message)
                .help(format!("supported keys: {}", words(&[*needed, *taken].concat())));
        }
    }
    complete
}

/// `constant-arrival-rate` and `ramping-arrival-rate`.
fn arrival_rate(fields: &Fields<'_>, load: &Load) -> Option<ArrivalRate> {
    let is_measured = fields.object("rate", MeasuredRateKeys::SHAPE).is_some();
    let rate = load.rate.or(is_measured.then_some(UNKNOWN_RATE));
    let stages = match load.duration {
        Some(duration) => vec![Stage { duration, target: rate? }],
        None => stages(fields)?,
    };
    let start = rate.unwrap_or(0.0);
    let highest = stages.iter().map(|stage| stage.target).fold(start, f64::max);
    Some(ArrivalRate {
        start,
        stages,
        quantum: load.quantum,
        max_in_flight: load.max_in_flight,
        backlog: load.backlog.unwrap_or_else(|| backlog(highest)),
    })
}

/// Default backlog of a rate.
fn backlog(rate: f64) -> u64 {
    (rate * BACKLOG_SECONDS).ceil() as u64
}

/// Sets the constant rate of a program, and the backlog if that is the default of the rate.
pub(crate) fn set_rate(program: &mut Program, rate: f64, default_backlog: bool) {
    for group in &mut program.groups {
        if let Executor::ArrivalRate(arrivals) = &mut group.executor {
            arrivals.start = rate;
            arrivals.stages.iter_mut().for_each(|stage| stage.target = rate);
            if default_backlog {
                arrivals.backlog = backlog(rate);
            }
        }
    }
}

fn stages(fields: &Fields<'_>) -> Option<Vec<Stage>> {
    let stages = fields.many("stages").iter().map(|stage| {
        let stage = StageKeys::read(&Fields::new(stage, StageKeys::SHAPE));
        Some(Stage { duration: stage.duration?, target: stage.target? })
    });
    stages.collect()
}
