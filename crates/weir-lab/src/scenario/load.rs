//! Loads: executors and groups of users.

use super::fields::{ONLY, count, parsed, rate, rate_of, share, share_of, word};
use crate::program::{
    ArrivalRate, Cookies, Executor, FindMax, Group, OnError, Phase, Stage, Step, Users,
};
use std::time::Duration;
use weir_document::finding::{Diagnostics, codes, words};
use weir_document::settings;
use weir_document::shape::fields::Fields;
use weir_document::shape::{Kind, format};

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
        /// Ramp-up time of the users of `constant-vus`.
        ramp: Duration = duration().default("0"),
        /// Ramp-up time of the users of `ramp-users`.
        over: Duration = duration().default("0"),
        /// Duration of the load.
        duration: Option<Duration> = positive(),
        /// Stages of `ramping-vus` and `ramping-arrival-rate`, with linear changes from target to
        /// target.
        stages = by_hand(Kind::List(&Kind::Object(StageKeys::SHAPE))),
        /// Iterations per second of `constant-arrival-rate`; initial rate of
        /// `ramping-arrival-rate`.
        rate: Option<f64> = rate(),
        /// First rate of `find-max`.
        start: f64 = rate().default("100/s"),
        /// Objective of `find-max`.
        slo = object::<Slo>(),
        /// Where `find-max` stops.
        precision: f64 = share().default("2%"),
        /// Duration of each rate step of `find-max`.
        hold: Duration = positive().default("10s"),
        /// Duration of the confirming step of `find-max`.
        confirm: Duration = duration().default("60s"),
        /// Iterations start at multiples of the quantum; a coarser one is cheaper for the
        /// generator.
        quantum: Duration = positive().default("1ms"),
        /// Largest number of users, and thus of connections, of an open model.
        max_in_flight: u32 = count().default("1000"),
        /// Iterations that may wait for a user before further ones are dropped.
        backlog: Option<u64> = integer(0, 10_000_000).absent("the iterations of 10 s"),
        /// All requests in one iteration, or each request in its own group: consecutive or parallel
        /// groups.
        pub(super) groups: Grouping = word().default("together"),
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

settings! {
    /// A linear change to a target.
    struct StageKeys is "a stage" {
        /// Length of the stage.
        duration: Option<Duration> = duration().required(),
        /// Users, or iterations per second, at its end.
        target: Option<f64> = value(STAGE_TARGET, rate_of).required(),
    }
}

settings! {
    /// Objective of the highest rate.
    struct Slo is "an objective" {
        /// Largest share of errors.
        errors: f64 = value(SHARE_OR_ZERO, share_of).default("0"),
        /// Limit of the median response time.
        p50 = positive(),
        /// Limit of the 90th percentile.
        p90 = positive(),
        /// Limit of the 95th percentile.
        p95 = positive(),
        /// Limit of the 99th percentile.
        p99 = positive(),
        /// Limit of the 99.9th percentile.
        p99_9 = positive().name("p99.9"),
    }
}

const STAGE_TARGET: Kind =
    Kind::Either(&[Kind::Integer(0, 10_000_000), Kind::Format(format::RATE)]);
const SHARE_OR_ZERO: Kind = Kind::Either(&[Kind::Integer(0, 0), Kind::Format(format::PERCENT)]);
const ON_ERROR: Kind = Kind::Enum(&["continue", "next-iteration", "stop-user", "stop"]);

/// Percentiles of an objective.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9)];

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
const COMMON: [&str; 8] =
    ["executor", "groups", "delay", "pacing", "cookies", "new_user", "on_error", "only"];
/// Required and optional keys of each executor.
const EXECUTORS: [(&str, &[&str], &[&str]); 7] = [
    ("constant-vus", &["vus"], &["ramp", "duration", "iterations"]),
    ("ramping-vus", &["stages"], &["vus"]),
    ("shared-iterations", &["vus", "iterations"], &["duration"]),
    ("ramp-users", &["users"], &["over", "iterations", "duration"]),
    ("constant-arrival-rate", &["rate", "duration"], &["quantum", "max_in_flight", "backlog"]),
    ("ramping-arrival-rate", &["stages"], &["rate", "quantum", "max_in_flight", "backlog"]),
    ("find-max", &["slo"], &["start", "precision", "hold", "confirm", "quantum", "max_in_flight"]),
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
                ramp: load.ramp,
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
        "find-max" => {
            let slo = fields.object("slo", Slo::SHAPE)?;
            let limit = |(key, p): &(&str, f64)| Some((*p, slo.duration(key)?));
            Executor::FindMax(FindMax {
                start: load.start,
                errors: Slo::read(&slo).errors,
                limits: PERCENTILES.iter().filter_map(limit).collect(),
                precision: load.precision,
                step_duration: load.hold,
                confirm: load.confirm,
                quantum: load.quantum,
                max_in_flight: load.max_in_flight,
            })
        }
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
    let stages = match load.duration {
        Some(duration) => vec![Stage { duration, target: load.rate? }],
        None => stages(fields)?,
    };
    let start = load.rate.unwrap_or(0.0);
    let highest = stages.iter().map(|stage| stage.target).fold(start, f64::max);
    Some(ArrivalRate {
        start,
        stages,
        quantum: load.quantum,
        max_in_flight: load.max_in_flight,
        backlog: load.backlog.unwrap_or((highest * BACKLOG_SECONDS).ceil() as u64),
    })
}

fn stages(fields: &Fields<'_>) -> Option<Vec<Stage>> {
    let stages = fields.many("stages").iter().map(|stage| {
        let stage = StageKeys::read(&Fields::new(stage, StageKeys::SHAPE));
        Some(Stage { duration: stage.duration?, target: stage.target? })
    });
    stages.collect()
}
