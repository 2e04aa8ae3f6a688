//! Axes of a scenario: the names of `matrix` and `cases.factors`, the contenders, and their levels.

use weir_document::draft::{Member, Node, Scalar};
use weir_document::finding::{Diagnostics, codes, words};

/// A name with its levels.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) name: String,
    pub(super) levels: Vec<AxisLevel>,
}

/// A level of an axis.
#[derive(Clone, Debug)]
pub(super) struct AxisLevel {
    /// `${AXIS}`.
    pub(super) level: Scalar,
    /// `${AXIS.NAME}` of this level.
    pub(super) values: Vec<(String, Node)>,
}

/// Names and their levels: `{users: [1, 2]}`, or with values of each level
/// `{load: {light: {users: 1}, heavy: {users: 9}}}`.
pub(super) fn axes(node: Option<&Node>, report: &mut Diagnostics) -> Vec<Axis> {
    let members = node.and_then(Node::members).unwrap_or_default();
    members.iter().filter_map(|member| axis(member, report)).collect()
}

fn axis(member: &Member, report: &mut Diagnostics) -> Option<Axis> {
    let name = member.key.clone();
    if let Some(levels) = member.value.members().filter(|levels| !levels.is_empty()) {
        check_names(&name, levels, report);
        let levels = levels.iter().map(|one| level(&name, &one.key, Some(&one.value))).collect();
        return Some(Axis { name, levels });
    }
    let items = member.value.items().unwrap_or(std::slice::from_ref(&member.value));
    let levels: Vec<AxisLevel> = items
        .iter()
        .filter_map(Node::scalar)
        .map(|level| AxisLevel { level: level.clone(), values: Vec::new() })
        .collect();
    if levels.len() != items.len() || levels.is_empty() {
        let message = format!("`{name}` takes a list of values, or levels with their values");
        report.error(codes::WRONG_TYPE, member.value.at, message);
        return None;
    }
    Some(Axis { name, levels })
}

/// A level with a mapping of values.
pub(super) fn level(axis: &str, name: &str, values: Option<&Node>) -> AxisLevel {
    let members = values.and_then(Node::members).unwrap_or_default();
    let value = |member: &Member| (format!("{axis}.{}", member.key), member.value.clone());
    AxisLevel { level: text(name), values: members.iter().map(value).collect() }
}

/// Reports names that some levels of an axis have, and others have not.
fn check_names(axis: &str, levels: &[Member], report: &mut Diagnostics) {
    let names = |member: &Member| -> Vec<String> {
        let values = member.value.members().unwrap_or_default();
        values.iter().map(|value| value.key.clone()).collect()
    };
    let mut all: Vec<String> = levels.iter().flat_map(names).collect();
    all.sort_unstable();
    all.dedup();
    for member in levels {
        let own = names(member);
        let missing: Vec<&str> =
            all.iter().filter(|name| !own.contains(name)).map(String::as_str).collect();
        if !missing.is_empty() {
            let message = format!("`{}` has no {}", member.key, words(&missing));
            report
                .error(codes::MISSING_KEY, member.at, message)
                .help(format!("all levels of `{axis}` have the same names of values"));
        }
    }
}

/// A text as a value.
fn text(text: &str) -> Scalar {
    Scalar { text: text.to_owned(), plain: false, from_file: false, from_env: false, lost: false }
}
