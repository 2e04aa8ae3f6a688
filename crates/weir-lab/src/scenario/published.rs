//! Published figures of cells.

use super::cells::{self, Combination};
use super::fields::Fields;
use super::named;
use crate::results::{CaseAttributes, Published};
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, codes};
use weir_document::units;

/// Names of time figures.
const TIMES: [&str; 6] = ["mean", "p50", "p90", "p95", "p99", "max"];

/// The published figures of a cell.
pub(super) fn published(
    root: &Node,
    cell: &Combination,
    report: &mut Diagnostics,
) -> Vec<Published> {
    let all = Fields(root).many("published").iter();
    all.filter(|node| cells::is_for(node, cell, false))
        .filter_map(|node| figure(node, cell, report))
        .collect()
}

fn figure(node: &Node, cell: &Combination, report: &mut Diagnostics) -> Option<Published> {
    let fields = Fields(node);
    let source = fields.owned("source")?;
    let mut number = |key: &str| {
        let node = fields.get(key)?;
        let found = node.text()?.parse::<f64>().ok().filter(|value| value.is_finite());
        if found.is_none() {
            report.error(codes::BAD_VALUE, node.at, format!("`{key}` takes a number"));
        }
        found
    };
    if let Some(value) = number("throughput") {
        return Some(Published { what: "throughput".to_owned(), value, source, to: None });
    }
    if let Some(value) = number("relative") {
        let to = fields.pairs("to");
        let other = |list: &[(String, weir_document::draft::Scalar)]| {
            let changed = |name: &str| to.iter().find(|(known, _)| known == name);
            let values = list.iter().map(|(name, value)| {
                changed(name).cloned().unwrap_or_else(|| (name.clone(), value.text.clone()))
            });
            values.collect::<Vec<_>>()
        };
        let (values, case) = (other(&cell.values), other(&cell.case));
        let to = Some(named(values.iter().chain(&case)));
        return Some(Published { what: "relative throughput".to_owned(), value, source, to });
    }
    if let Some(share) = fields.share("errors") {
        return Some(Published { what: "error rate".to_owned(), value: share, source, to: None });
    }
    let (what, time) = TIMES.iter().find_map(|key| Some((*key, fields.duration(key)?)))?;
    Some(Published { what: what.to_owned(), value: time.as_secs_f64() * 1e3, source, to: None })
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
