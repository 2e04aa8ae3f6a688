//! Probes: requests that are sent once before the load, each with checks of its own.

use super::feeders;
use super::request::{self, Context};
use crate::program::{Program, StatusSet, Step};
use std::sync::Arc;
use weir_document::draft::Node;
use weir_document::finding::Diagnostics;
use weir_document::shape::fields::Fields;

/// Every status: the checks of a probe decide.
const ALL: (u16, u16) = (100, 599);

/// The program of the probes, one after the other; `None` without any.
pub(super) fn probes(
    root: &Fields<'_>,
    context: &Context<'_>,
    program: &Program,
    report: &mut Diagnostics,
) -> Option<Program> {
    let nodes = root.many("probes");
    if nodes.is_empty() {
        return None;
    }
    let mut probes = program.clone();
    let mut all = feeders::feed(nodes, &probes);
    for node in nodes {
        let mut steps = request::steps(node, context, &mut probes, report)?;
        if has_status(node) {
            for step in &mut steps {
                if let Step::Request(request) = step {
                    Arc::make_mut(request).success = StatusSet { ranges: vec![ALL] };
                }
            }
        }
        all.extend(steps);
    }
    probes.groups.truncate(1);
    probes.groups.first_mut()?.steps = all;
    Some(probes)
}

/// Whether a check names the expected status.
fn has_status(node: &Node) -> bool {
    let checks = node.get("checks").and_then(Node::items).unwrap_or_default();
    checks.iter().any(|check| check.get("status").is_some())
}
