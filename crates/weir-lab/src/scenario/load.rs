//! Loads: executors and groups of users.

use super::fields::{Fields, rate};
use super::keys::PERCENTILES;
use crate::program::{ArrivalRate, Cookies, Executor, FindMax, Group, Phase, Stage, Step, Users};
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, codes};

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
    load: &Node,
    name: String,
    steps: Vec<Step>,
    report: &mut Diagnostics,
) -> Option<Group> {
    let fields = Fields(load);
    let executor = executor(load, report)?;
    let mut all = Vec::new();
    all.extend(fields.duration("pacing").map(Step::Pacing));
    all.extend(steps);
    Some(Group {
        name,
        phase: Phase::Main,
        executor,
        delay: fields.duration("delay").unwrap_or_default(),
        steps: all,
        on_error: fields.choice("on_error").unwrap_or_default(),
        cookies: match (fields.bool("cookies", false), fields.bool("new_user", false)) {
            (false, _) => Cookies::Ignored,
            (true, false) => Cookies::Kept,
            (true, true) => Cookies::KeptForIteration,
        },
        new_user: fields.bool("new_user", false),
    })
}

fn executor(load: &Node, report: &mut Diagnostics) -> Option<Executor> {
    let fields = Fields(load);
    let name = fields.text("executor")?;
    let (_, needed, taken) = EXECUTORS.iter().find(|(known, _, _)| *known == name)?;
    let mut complete = true;
    for key in needed.iter().filter(|key| fields.get(key).is_none()) {
        report.error(codes::MISSING_KEY, load.at, format!("`{name}` needs `{key}`"));
        complete = false;
    }
    for member in load.members().unwrap_or_default() {
        let known = |keys: &[&str]| keys.contains(&member.key.as_str());
        let other = EXECUTORS.iter().any(|(_, needed, taken)| known(needed) || known(taken));
        if other && !known(needed) && !known(taken) && !known(&COMMON) {
            let takes: Vec<String> =
                needed.iter().chain(*taken).map(|key| format!("`{key}`")).collect();
            report
                .error(
                    codes::CONFLICT,
                    member.at,
                    format!("`{name}` does not support `{}`", member.key),
                )
                .help(format!("supported keys: {}", takes.join(", ")));
        }
    }
    if !complete {
        return None;
    }
    Some(match name {
        "constant-vus" => {
            let (iterations, duration) =
                (fields.integer("iterations"), fields.duration("duration"));
            if iterations.is_none() && duration.is_none() {
                report
                    .error(codes::MISSING_KEY, load.at, "this load is endless")
                    .help("add `duration` or `iterations`");
            }
            let users = fields.integer("vus")?;
            let ramp = fields.duration("ramp").unwrap_or_default();
            Executor::Users(Users { users, ramp, iterations, duration })
        }
        "ramp-users" => Executor::Users(Users {
            users: fields.integer("users")?,
            ramp: fields.duration("over").unwrap_or_default(),
            iterations: Some(fields.integer("iterations").unwrap_or(1)),
            duration: fields.duration("duration"),
        }),
        "ramping-vus" => Executor::RampingVus {
            start: fields.integer("vus").unwrap_or(0),
            stages: stages(load)?,
        },
        "shared-iterations" => Executor::SharedIterations {
            vus: fields.integer("vus")?,
            iterations: fields.integer("iterations")?,
            limit: fields.duration("duration"),
        },
        "find-max" => Executor::FindMax(find_max(fields)?),
        _ => arrivals(load)?,
    })
}

/// `constant-arrival-rate` and `ramping-arrival-rate`.
fn arrivals(load: &Node) -> Option<Executor> {
    let fields = Fields(load);
    let start = fields.rate("rate");
    let stages = match fields.duration("duration") {
        Some(duration) => vec![Stage { duration, target: start? }],
        None => stages(load)?,
    };
    let highest = stages.iter().map(|stage| stage.target).fold(start.unwrap_or(0.0), f64::max);
    Some(Executor::ArrivalRate(ArrivalRate {
        start: start.unwrap_or(0.0),
        stages,
        quantum: quantum(fields),
        max_in_flight: max_in_flight(fields),
        backlog: fields.integer("backlog").unwrap_or((highest * BACKLOG_SECONDS).ceil() as u64),
    }))
}

fn quantum(fields: Fields<'_>) -> Duration {
    fields.duration("quantum").unwrap_or(Duration::from_millis(1))
}

fn max_in_flight(fields: Fields<'_>) -> u32 {
    fields.integer("max_in_flight").unwrap_or(1_000)
}

fn stages(load: &Node) -> Option<Vec<Stage>> {
    let stages = Fields(load).many("stages").iter().map(|stage| {
        let duration = Fields(stage).duration("duration")?;
        Some(Stage { duration, target: rate(stage.get("target")?)? })
    });
    stages.collect()
}

fn find_max(fields: Fields<'_>) -> Option<FindMax> {
    let slo = fields.object("slo")?;
    let limits = PERCENTILES.iter().filter_map(|(key, p)| Some((*p, slo.duration(key)?)));
    Some(FindMax {
        start: fields.rate("start").unwrap_or(100.0),
        errors: slo.share("errors").unwrap_or(0.0),
        limits: limits.collect(),
        precision: fields.share("precision").unwrap_or(0.02),
        step_duration: fields.duration("hold").unwrap_or(Duration::from_secs(10)),
        confirm: fields.duration("confirm").unwrap_or(Duration::from_secs(60)),
        quantum: quantum(fields),
        max_in_flight: max_in_flight(fields),
    })
}
