//! The structural difference of two documents: which values were added, removed or changed, by their paths.
//!
//! Mappings are compared by key, whatever their order. Items of lists are aligned by the longest common
//! subsequence; items between are compared if they have the same label, the first member of a mapping
//! (`get: /orders`), and are removed and added otherwise.

use crate::document::Document;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use similar::{Algorithm, DiffOp, TextDiff, capture_diff_slices};
use std::fmt::Write as _;
use std::path::Path;

/// A value that one of two documents does not have, or has otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Where: `apis.orders.routes[get /orders].timeout`; empty for the whole document.
    pub path: String,
    /// The value before; absent if it was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// The value after; absent if it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// What changed between two YAML texts; `None` if one of them is not YAML.
pub fn changes(before: &str, after: &str) -> Option<Vec<Change>> {
    let (before, after) = (value(before)?, value(after)?);
    let mut all = Vec::new();
    compare(&mut String::new(), &before, &after, &mut all);
    Some(all)
}

/// The changed lines as a unified diff with three lines of context, without a header.
pub fn unified(before: &str, after: &str) -> String {
    TextDiff::from_lines(before, after).unified_diff().to_string()
}

fn value(text: &str) -> Option<Value> {
    let document = Document::read(Path::new("text"), &replace_stars(text, "'***'"));
    serde_json::to_value(document.root?).ok()
}

/// A text with all redacted secrets alike, whatever their lengths, so that it tells nothing about them. They are
/// scalars of stars.
pub fn with_equal_stars(text: &str) -> String {
    replace_stars(text, "***")
}

/// Replaces scalars of stars. YAML would take them for aliases.
fn replace_stars(text: &str, by: &str) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('*') {
        let (before, stars) = rest.split_at(at);
        let after = stars.trim_start_matches('*');
        replaced.push_str(before);
        // A scalar begins there: `2 * 3` and `"* *"` have none.
        let line = replaced.rsplit('\n').next().unwrap_or_default().trim_end_matches(' ');
        let begins = line.is_empty() || line.ends_with([':', '-', ',', '[', '{']);
        let ends = after.chars().next().is_none_or(|c| c.is_whitespace() || ",]}".contains(c));
        let is_scalar = begins && ends;
        replaced.push_str(if is_scalar { by } else { &stars[..stars.len() - after.len()] });
        rest = after;
    }
    replaced + rest
}

fn compare(path: &mut String, before: &Value, after: &Value, all: &mut Vec<Change>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => compare_maps(path, before, after, all),
        (Value::Array(before), Value::Array(after)) => compare_lists(path, before, after, all),
        _ if before == after => {}
        _ => all.push(Change {
            path: path.clone(),
            before: Some(before.clone()),
            after: Some(after.clone()),
        }),
    }
}

fn compare_maps(
    path: &mut String,
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    all: &mut Vec<Change>,
) {
    let added = after.keys().filter(|key| !before.contains_key(*key));
    for key in before.keys().chain(added) {
        let length = path.len();
        if length > 0 {
            path.push('.');
        }
        path.push_str(key);
        compare_optional(path, before.get(key), after.get(key), all);
        path.truncate(length);
    }
}

fn compare_optional(
    path: &mut String,
    before: Option<&Value>,
    after: Option<&Value>,
    all: &mut Vec<Change>,
) {
    match (before, after) {
        (Some(before), Some(after)) => compare(path, before, after, all),
        _ => {
            all.push(Change { path: path.clone(), before: before.cloned(), after: after.cloned() })
        }
    }
}

fn compare_lists(path: &mut String, before: &[Value], after: &[Value], all: &mut Vec<Change>) {
    let texts = |list: &[Value]| list.iter().map(Value::to_string).collect::<Vec<_>>();
    let operations = capture_diff_slices(Algorithm::Myers, &texts(before), &texts(after));
    // Neighbouring removals and additions are one replacement.
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    for operation in operations {
        if let DiffOp::Equal { .. } = operation {
            compare_items(path, &mut removed, &mut added, all);
            continue;
        }
        let (old, new) = (operation.old_range(), operation.new_range());
        removed.extend(old.filter_map(|at| Some((at, before.get(at)?))));
        added.extend(new.filter_map(|at| Some((at, after.get(at)?))));
    }
    compare_items(path, &mut removed, &mut added, all);
}

/// Compares items of lists that are not equal, with their indexes.
fn compare_items(
    path: &mut String,
    removed: &mut Vec<(usize, &Value)>,
    added: &mut Vec<(usize, &Value)>,
    all: &mut Vec<Change>,
) {
    for (index, before) in removed.drain(..) {
        let own = label(before);
        let same = added.iter().position(|(_, after)| own.is_some() && label(after) == own);
        let after = same.map(|at| added.remove(at).1);
        compare_item(path, (index, own), (Some(before), after), all);
    }
    for (index, after) in added.drain(..) {
        compare_item(path, (index, label(after)), (None, Some(after)), all);
    }
}

fn compare_item(
    path: &mut String,
    (index, label): (usize, Option<String>),
    (before, after): (Option<&Value>, Option<&Value>),
    all: &mut Vec<Change>,
) {
    let length = path.len();
    let _ = match label {
        Some(label) => write!(path, "[{label}]"),
        None => write!(path, "[{index}]"),
    };
    compare_optional(path, before, after, all);
    path.truncate(length);
}

/// What names an item: its first member, if that is a string or a number.
fn label(item: &Value) -> Option<String> {
    match item.as_object()?.iter().next()? {
        (key, Value::String(text)) => Some(format!("{key} {text}")),
        (key, Value::Number(number)) => Some(format!("{key} {number}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(before: &str, after: &str) -> Vec<(String, Option<Value>, Option<Value>)> {
        let all = changes(before, after).unwrap();
        all.into_iter().map(|one| (one.path, one.before, one.after)).collect()
    }

    #[test]
    fn values_are_compared_by_their_paths() {
        let before = "listen: [{addr: 1}]\nupstreams:\n  billing: {targets: [a, b], timeout: 2s}\n";
        let after = "upstreams:\n  billing: {timeout: 5s, targets: [a, c, b], retries: 1}\nlisten: [{addr: 1}]\n";
        assert_eq!(
            of(before, after),
            [
                ("upstreams.billing.targets[1]".to_owned(), None, Some(json!("c"))),
                ("upstreams.billing.timeout".to_owned(), Some(json!("2s")), Some(json!("5s"))),
                ("upstreams.billing.retries".to_owned(), None, Some(json!(1))),
            ]
        );
        assert_eq!(of(before, before), []);
        assert_eq!(of("a: 1\n", "a: \"1\"\n").len(), 1, "a number is not a string");
    }

    #[test]
    fn items_are_compared_with_those_of_the_same_label() {
        let before =
            "routes:\n- {get: /a, timeout: 1s}\n- {get: /b}\n- {post: /a, reply: {text: x}}\n";
        let after =
            "routes:\n- {get: /new}\n- {get: /a, timeout: 3s}\n- {post: /a, reply: {text: y}}\n";
        assert_eq!(
            of(before, after),
            [
                ("routes[get /a].timeout".to_owned(), Some(json!("1s")), Some(json!("3s"))),
                ("routes[get /b]".to_owned(), Some(json!({"get": "/b"})), None),
                ("routes[post /a].reply.text".to_owned(), Some(json!("x")), Some(json!("y"))),
                ("routes[get /new]".to_owned(), None, Some(json!({"get": "/new"}))),
            ]
        );
    }

    #[test]
    fn redacted_secrets_are_values_and_other_stars_stay() {
        let before = "a: &x {path: \"/**\", key: ****}\nb: *x\nc: [***, ***]\nd: ***\n\
            e: 'call.bytes * 2'\nf: \"*/5 * * * *\"\n";
        let changed = of(before, &before.replace("d: ***", "d: ******").replace("* 2", "* 3"));
        let e = (Some(json!("call.bytes * 2")), Some(json!("call.bytes * 3")));
        assert_eq!(changed, [("e".to_owned(), e.0, e.1)]);
        assert_eq!(
            with_equal_stars("a: *******\nb: [*, ****]\nc: '* *'\n"),
            "a: ***\nb: [***, ***]\nc: '* *'\n"
        );
    }

    #[test]
    fn a_change_of_type_is_one_change_and_broken_texts_have_none() {
        assert_eq!(
            of("a: [1]\n", "a: {b: 1}\n"),
            [("a".to_owned(), Some(json!([1])), Some(json!({"b": 1})))]
        );
        assert_eq!(of("", "a: 1\n"), [("a".to_owned(), None, Some(json!(1)))]);
        assert_eq!(changes("a: [", "a: 1"), None);
    }
}
