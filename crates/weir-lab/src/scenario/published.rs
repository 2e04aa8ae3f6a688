//! Published figures of cells.

use super::cells::{self, Combination};
use super::fields::{ONLY, pairs, share, valid};
use super::named;
use crate::results::{CaseAttributes, Published};
use weir_document::draft::Node;
use weir_document::finding::Diagnostics;
use weir_document::settings;
use weir_document::shape::fields::Fields;
use weir_document::shape::{Group, Kind, Names};
use weir_document::units;

settings! {
    /// A published figure.
    pub(super) struct PublishedKeys is "a published figure" {
        /// Source and hardware.
        source: Option<String> = text(Kind::Text).required(),
        only = same(ONLY),
        /// Requests per second.
        throughput = by_hand(Kind::Scalar),
        /// Mean of the response time.
        mean = duration(),
        /// Percentile of the response time.
        p50 = duration(),
        /// Likewise.
        p90 = duration(),
        /// Likewise.
        p95 = duration(),
        /// Likewise.
        p99 = duration(),
        /// Largest response time.
        max = duration(),
        /// Share of requests that failed.
        errors: Option<f64> = share(),
        /// Throughput relative to the case `to`.
        relative = by_hand(Kind::Scalar),
        /// Reference case of `relative`: values that differ from those of `only`.
        to: Vec<(String, String)> = pairs(Names::Name),
    },
    groups: &[Group { keys: FIGURES, required: true }],
}

/// The keys that are figures.
const FIGURES: &[&str] =
    &["throughput", "mean", "p50", "p90", "p95", "p99", "max", "errors", "relative"];

/// Names of time figures.
const TIMES: [&str; 6] = ["mean", "p50", "p90", "p95", "p99", "max"];

/// The published figures of a cell.
pub(super) fn published(
    root: &Fields<'_>,
    cell: &Combination,
    report: &mut Diagnostics,
) -> Vec<Published> {
    let all = root.many("published").iter();
    all.filter(|node| cells::is_for(node, cell, false))
        .filter_map(|node| figure(node, cell, report))
        .collect()
}

fn figure(node: &Node, cell: &Combination, report: &mut Diagnostics) -> Option<Published> {
    let fields = Fields::new(node, PublishedKeys::SHAPE);
    let PublishedKeys { source, errors, to } = PublishedKeys::read(&fields);
    let source = source?;
    let mut number = |key: &str| {
        let node = fields.get(key)?;
        let found = node.text()?.parse::<f64>().ok().filter(|value| value.is_finite());
        valid(found.ok_or_else(|| format!("`{key}` takes a number")), node, report)
    };
    let (what, value, to) = if let Some(value) = number("throughput") {
        ("throughput", value, None)
    } else if let Some(value) = number("relative") {
        let other = |list: &[(String, weir_document::draft::Scalar)]| {
            let changed = |name: &str| to.iter().find(|(known, _)| known == name);
            let values = list.iter().map(|(name, value)| {
                changed(name).cloned().unwrap_or_else(|| (name.clone(), value.text.clone()))
            });
            values.collect::<Vec<_>>()
        };
        let (values, case) = (other(&cell.values), other(&cell.case));
        let to = Some(named(values.iter().chain(&case)));
        ("relative throughput", value, to)
    } else if let Some(share) = errors {
        ("error rate", share, None)
    } else {
        let (what, time) = TIMES.iter().find_map(|key| Some((*key, fields.duration(key)?)))?;
        (what, time.as_secs_f64() * 1e3, None)
    };
    Some(Published { what: what.to_owned(), value, source, to })
}

/// Attributes for the columns of published tables, by their usual names.
pub(super) fn attributes(cell: &Combination) -> CaseAttributes {
    let of = |names: &[&str]| names.iter().find_map(|name| cell.text(name));
    let size = |text: &str| text.parse().ok().or_else(|| units::size(text).ok());
    let delay = of(&["backend_delay", "delay"]).and_then(|text| units::duration(text).ok());
    CaseAttributes {
        users: of(&["users", "vus"]).and_then(|text| text.parse().ok()),
        message_bytes: of(&["payload", "message", "size"]).and_then(size),
        delay_ms: delay.map(|delay| delay.as_secs_f64() * 1e3),
        heap: of(&["heap"]).map(str::to_owned),
        gc_throughput: None,
    }
}
