//! Conditions of a scenario on its results: `thresholds` and `stop`.

use super::Cell;
use super::fields::valid_or_help;
use crate::program::Labels;
use crate::stop::StopCondition;
use crate::threshold::Threshold;
use std::collections::BTreeSet;
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, codes, words};
use weir_document::shape::fields::Fields;

/// `thresholds`.
pub(super) fn thresholds(
    root: &Fields<'_>,
    cells: &[Cell],
    report: &mut Diagnostics,
) -> Vec<Threshold> {
    let help = Some("for example `p99<500ms for echo`, `error-rate<=0` or `rps>=1000`");
    let threshold = |node: &Node| {
        let threshold = Threshold::parse(node.text().unwrap_or_default());
        let threshold = valid_or_help(threshold, node, help, report)?;
        check_label(threshold.label.as_deref(), node, cells, report);
        Some(threshold)
    };
    root.many("thresholds").iter().filter_map(threshold).collect()
}

/// `stop`.
pub(super) fn stop(
    root: &Fields<'_>,
    cells: &[Cell],
    report: &mut Diagnostics,
) -> Vec<StopCondition> {
    let help = Some("for example `error-rate>5% for 10s` or `p99>2s for echo for 30s`");
    let condition = |node: &Node| {
        let condition = StopCondition::parse(node.text().unwrap_or_default());
        let condition = valid_or_help(condition, node, help, report)?;
        check_label(condition.label(), node, cells, report);
        Some(condition)
    };
    root.many("stop").iter().filter_map(condition).collect()
}

/// Reports the name of a request that no cell has: a figure of it would never be measured.
pub(super) fn check_label(
    label: Option<&str>,
    node: &Node,
    cells: &[Cell],
    report: &mut Diagnostics,
) {
    let Some(label) = label else { return };
    let labels = || cells.iter().map(|cell| &cell.program.labels);
    if labels().any(|labels| labels.may_have(label)) {
        return;
    }
    let names: BTreeSet<String> = labels().flat_map(Labels::names).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    report
        .error(codes::UNKNOWN_NAME, node.at, format!("`{label}` is not the name of a request"))
        .help(format!("names of requests: {}", words(&names)));
}
