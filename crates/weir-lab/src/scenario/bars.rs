//! `bars` of a scenario.

use super::fields::{ONLY, valid_or_help};
use super::{Cell, conditions};
use crate::bars::{Bar, ScenarioBar};
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, codes, words};
use weir_document::settings;
use weir_document::shape::Kind;
use weir_document::shape::fields::Fields;

settings! {
    /// A comparison of contenders that has to hold.
    pub(super) struct BarKeys is "a bar" {
        /// The comparison.
        bar = by_hand(Kind::Text).required(),
        /// Title in tables.
        title: Option<String> = text(Kind::Text).absent("the comparison"),
        /// Label in the chart of all scenarios that `weir lab tables --charts` draws.
        overview: Option<String> = text(Kind::Text),
        /// Why the bar is missed, for tables.
        reason: Option<String> = text(Kind::Text),
        only = same(ONLY),
    },
    short: Some("bar"),
}

/// The bars, each with the loads that it applies to.
pub(super) fn bars(
    root: &Fields<'_>,
    cells: &[Cell],
    report: &mut Diagnostics,
) -> Vec<ScenarioBar> {
    let counters = root.get("observe").and_then(|observe| observe.get("counters"));
    let counters = counters.and_then(Node::members).unwrap_or_default();
    let known = Known {
        contenders: cells.iter().map(Cell::contender_name).collect(),
        counters: counters.iter().map(|member| member.key.clone()).collect(),
        cells,
    };
    root.many("bars").iter().filter_map(|node| bar(node, &known, report)).collect()
}

/// Names that bars may have.
#[derive(Debug)]
struct Known<'c> {
    contenders: Vec<String>,
    counters: Vec<String>,
    cells: &'c [Cell],
}

fn bar(node: &Node, known: &Known<'_>, report: &mut Diagnostics) -> Option<ScenarioBar> {
    let help = "for example `cpu of weir <= 0.8 x nginx`, `cpu of script <= echo + 40us`, \
                `memory of weir <= 25MiB` or `rate of weir within 3% of wrk`";
    let text = node.get("bar").unwrap_or(node);
    let bar = Bar::with_counters(text.text()?, &known.counters);
    let bar = valid_or_help(bar, text, Some(help), report)?;
    for name in [Some(&bar.subject), bar.reference()].into_iter().flatten() {
        if !known.contenders.contains(name) {
            let mut names: Vec<&str> = known.contenders.iter().map(String::as_str).collect();
            names.dedup();
            let message = format!("`{name}` is not a contender");
            report
                .error(codes::UNKNOWN_NAME, text.at, message)
                .help(format!("contenders: {}", words(&names)));
        }
    }
    conditions::check_label(bar.label.as_deref(), text, known.cells, report);
    let BarKeys { title, overview, reason } = BarKeys::read(&Fields::new(node, BarKeys::SHAPE));
    let only = node.get("only").and_then(Node::members).unwrap_or_default();
    let values = |node: &Node| {
        let items = node.items().unwrap_or(std::slice::from_ref(node));
        items.iter().filter_map(|item| Some(item.text()?.to_owned())).collect()
    };
    let only = only.iter().map(|member| (member.key.clone(), values(&member.value))).collect();
    let title = title.unwrap_or_else(|| bar.text.clone());
    Some(ScenarioBar { bar, title, overview, reason, only })
}
