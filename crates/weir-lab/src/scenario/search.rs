//! Loads that search: `find-max` and `steps`.

use super::fields::share_of;
use super::load::Load;
use crate::program::{Climb, FindMax, MAX_RATE, Searched};
use std::ops::RangeInclusive;
use std::time::Duration;
use weir_document::finding::{Diagnostics, codes};
use weir_document::settings;
use weir_document::shape::fields::Fields;
use weir_document::shape::{Kind, format};

settings! {
    /// Objective of the highest load.
    pub(super) struct Slo is "an objective" {
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

const SHARE_OR_ZERO: Kind = Kind::Either(&[Kind::Integer(0, 0), Kind::Format(format::PERCENT)]);

/// Percentiles of an objective.
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0), ("p99.9", 99.9)];

/// Keys of `find-max` besides the required ones.
pub(super) const FIND_MAX_KEYS: [&str; 10] = [
    "of",
    "start",
    "max",
    "precision",
    "repeats",
    "hold",
    "confirm",
    "ramp",
    "quantum",
    "max_in_flight",
];
/// Keys of `steps` besides the required ones.
pub(super) const STEPS_KEYS: [&str; 7] =
    ["of", "start", "max", "hold", "ramp", "quantum", "max_in_flight"];

/// Default of `ramp` of a step of users.
const RAMP: Duration = Duration::from_secs(1);
/// Possible values of `precision`.
const PRECISIONS: RangeInclusive<f64> = 0.001..=0.45;
/// Default of `max`.
const MAX_USERS: f64 = 10_000.0;

/// `find-max`.
pub(super) fn find_max(
    fields: &Fields<'_>,
    load: &Load,
    report: &mut Diagnostics,
) -> Option<FindMax> {
    let start = if load.of == Searched::Users { 10.0 } else { 100.0 };
    search(fields, load, (Climb::Double, start), report)
}

/// `steps`.
pub(super) fn steps(fields: &Fields<'_>, load: &Load, report: &mut Diagnostics) -> Option<FindMax> {
    let step = load.step?;
    search(fields, load, (Climb::Add(step), step), report)
}

fn search(
    fields: &Fields<'_>,
    load: &Load,
    (climb, start): (Climb, f64),
    report: &mut Diagnostics,
) -> Option<FindMax> {
    let slo = fields.object("slo", Slo::SHAPE)?;
    let is_users = load.of == Searched::Users;
    let start = load.start.unwrap_or(start);
    let max = load.max.unwrap_or(if is_users { MAX_USERS } else { MAX_RATE });
    if start > max {
        let at = fields.get("start").or(fields.get("max")).map_or(fields.node().at, |node| node.at);
        report
            .error(codes::CONFLICT, at, format!("the first load, {start}, is above `max`, {max}"))
            .help("write a smaller `start` or a larger `max`");
    }
    for (key, load) in [("start", start), ("max", max)] {
        if load < 1.0 {
            let at = fields.get(key).map_or(fields.node().at, |node| node.at);
            report
                .error(codes::BAD_VALUE, at, format!("`{key}` is {load}, less than 1"))
                .help("write at least 1, or 1/s");
        }
    }
    if !PRECISIONS.contains(&load.precision) {
        let at = fields.get("precision").map_or(fields.node().at, |node| node.at);
        report
            .error(codes::BAD_VALUE, at, format!("`precision` is {} %", 100.0 * load.precision))
            .help("write 0.1% to 45%");
    }
    check_keys(fields, is_users, report);
    let limit = |(key, p): &(&str, f64)| Some((*p, slo.duration(key)?));
    let repeats = load.repeats.unwrap_or(if is_users { 3 } else { 1 });
    Some(FindMax {
        of: load.of,
        climb,
        start,
        max,
        errors: Slo::read(&slo).errors,
        limits: PERCENTILES.iter().filter_map(limit).collect(),
        precision: load.precision,
        repeats: if climb == Climb::Double { repeats } else { 1 },
        step_duration: load.hold,
        confirm: load.confirm,
        ramp: load.ramp.unwrap_or(RAMP),
        quantum: load.quantum,
        max_in_flight: load.max_in_flight,
    })
}

/// Reports keys of the other load model.
fn check_keys(fields: &Fields<'_>, is_users: bool, report: &mut Diagnostics) {
    let (others, of): (&[&str], _) =
        if is_users { (&["quantum", "max_in_flight"], "rate") } else { (&["ramp"], "users") };
    for key in others {
        if let Some(node) = fields.get(key) {
            report
                .error(codes::CONFLICT, node.at, format!("`{key}` needs `of: {of}`"))
                .help(format!("remove `{key}`, or write `of: {of}`"));
        }
    }
    for key in ["start", "step", "max"].iter().filter(|_| is_users) {
        if let Some(node) = fields.get(key)
            && node.scalar().is_some_and(|scalar| scalar.integer().is_none())
        {
            report
                .error(codes::BAD_VALUE, node.at, format!("`{key}` is a number of users here"))
                .help("write a whole number, without `/s`");
        }
    }
}
