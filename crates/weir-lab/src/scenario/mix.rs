//! Weighted mixes: each iteration executes one of several requests or flows.

use super::request::RequestKeys;
use crate::program::{Controller, ControllerKind, Function, Step, Text};
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, codes};
use weir_document::shape::fields::Fields;

/// A branch of the mix.
struct Branch {
    flow: Option<String>,
    weight: u32,
    steps: Vec<Step>,
}

/// Whether a request is a part of a mix.
pub(super) fn is_weighted(request: &Node) -> bool {
    request.get("weight").is_some() || request.get("flow").is_some()
}

/// The steps of all requests. Those with a weight become one step, in place of the first of them.
pub(super) fn steps(
    requests: &[(&Node, Vec<Step>)],
    report: &mut Diagnostics,
) -> Option<Vec<Step>> {
    let mut branches: Vec<Branch> = Vec::new();
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (node, steps) in requests {
        let keys = RequestKeys::read(&Fields::new(node, RequestKeys::SHAPE));
        if !is_weighted(node) {
            let place = if branches.is_empty() { &mut before } else { &mut after };
            place.extend(steps.iter().cloned());
            continue;
        }
        let known = branches.iter_mut().find(|b| keys.flow.is_some() && b.flow == keys.flow);
        match (known, keys.weight) {
            (Some(branch), None) => branch.steps.extend(steps.iter().cloned()),
            (Some(_), Some(_)) => {
                report
                    .error(codes::CONFLICT, node.at, "this flow has a weight already")
                    .help("only the first request of a flow has a `weight`");
                return None;
            }
            (None, Some(weight)) => {
                branches.push(Branch { flow: keys.flow, weight, steps: steps.clone() });
            }
            (None, None) => {
                report
                    .error(codes::MISSING_KEY, node.at, "the first request of a flow has no weight")
                    .help("write `weight: 1`");
                return None;
            }
        }
    }
    if !branches.is_empty() {
        let weights = branches.iter().map(|branch| branch.weight).collect();
        let selection = Text::from_parts(vec![Function::Weighted(weights).into()]);
        let names = (0..branches.len()).map(|at| Text::fixed(at.to_string())).collect();
        before.push(Step::Control(Box::new(Controller {
            kind: ControllerKind::Switch { selection, names },
            scripts: Vec::new(),
            branches: branches.into_iter().map(|branch| branch.steps).collect(),
        })));
    }
    before.extend(after);
    Some(before)
}
