//! Cells: the product of a matrix, contenders and the levels of factors, with `${name}` replaced.

use super::axes::{Axis, axes};
use super::contenders;
use super::side_loads::SIDE_LOADS;
use serde_json::{Value, json};
use weir_document::draft::{Data, Member, Node, Scalar};
use weir_document::finding::{Diagnostics, codes};
use weir_document::units;

/// Largest number of cells.
const MAX_CELLS: usize = 2_000;

/// One combination.
#[derive(Clone, Debug, Default)]
pub(super) struct Combination {
    /// Names of the matrix and their values.
    pub(super) values: Vec<(String, Scalar)>,
    /// Factors and their levels.
    pub(super) case: Vec<(String, Scalar)>,
    /// Values of the levels: `${load.users}`, `${contender.path}`.
    given: Vec<(String, Node)>,
}

impl Combination {
    /// The level of a name.
    fn level(&self, name: &str) -> Option<&Scalar> {
        let mut all = self.values.iter().chain(&self.case);
        all.find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The value of a name.
    fn value(&self, name: &str) -> Option<Data> {
        let given = || self.given.iter().find(|(known, _)| known == name);
        let level = self.level(name).cloned().map(Data::Scalar);
        level.or_else(|| Some(given()?.1.data.clone()))
    }

    /// The level of a name, as text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.level(name).map(|value| value.text.as_str())
    }
}

/// Whether `only` includes this cell. Names that the cell does not have count as `unknown`.
pub(super) fn is_for(node: &Node, cell: &Combination, unknown: bool) -> bool {
    let only = node.get("only").and_then(Node::members).unwrap_or_default();
    only.iter().all(|Member { key, value, .. }| {
        let items = value.items().unwrap_or(std::slice::from_ref(value));
        cell.text(key).map_or(unknown, |is| items.iter().any(|item| item.text() == Some(is)))
    })
}

/// All combinations, the last name changing fastest; a single one without matrix and cases.
pub(super) fn combinations(root: &Node, report: &mut Diagnostics) -> Vec<Combination> {
    let matrix = axes(root.get("matrix"), report);
    let mut factors = axes(root.get("cases").and_then(|cases| cases.get("factors")), report);
    factors.splice(0..0, contenders::axis(root));
    for (at, Axis { name, .. }) in factors.iter().enumerate() {
        let known = matrix.iter().chain(&factors[..at]);
        if known.into_iter().any(|other| other.name == *name) {
            let place = root.get("cases").map_or(root.at, |node| node.at);
            let message = format!("`{name}` is also in the matrix, or the name of the contenders");
            report.error(codes::DUPLICATE_NAME, place, message);
        }
    }
    let count = matrix.iter().chain(&factors).map(|axis| axis.levels.len());
    let count = count.fold(1_usize, usize::saturating_mul);
    if count > MAX_CELLS {
        let message = format!("{count} cells exceed the limit of {MAX_CELLS}");
        report.error(codes::TOO_MANY, root.get("matrix").unwrap_or(root).at, message);
        return Vec::new();
    }
    let mut all = vec![Combination::default()];
    for axis in &matrix {
        all = multiply(&all, axis, |cell, level| cell.values.push(level));
    }
    for axis in &factors {
        all = multiply(&all, axis, |cell, level| cell.case.push(level));
    }
    all
}

fn multiply(
    all: &[Combination],
    axis: &Axis,
    add: impl Fn(&mut Combination, (String, Scalar)),
) -> Vec<Combination> {
    let each = all.iter().flat_map(|cell| axis.levels.iter().map(move |level| (cell, level)));
    each.map(|(cell, level)| {
        let mut cell = cell.clone();
        add(&mut cell, (axis.name.clone(), level.level.clone()));
        cell.given.extend(level.values.iter().cloned());
        cell
    })
    .collect()
}

/// The scenario with the values of one cell, and only its requests and loads; `None` without any, or
/// without its contender. `matrix` and `cases.factors` are unchanged.
pub(super) fn fill_in(root: &Node, cell: &Combination) -> Option<Node> {
    let contender =
        cell.text(contenders::FACTOR).and_then(|name| root.get("contenders")?.get(name));
    if contender.is_some_and(|contender| !is_for(contender, cell, true)) {
        return None;
    }
    let mut root = root.clone();
    if !["requests", "load"].into_iter().all(|key| retain(&mut root, key, cell)) {
        return None;
    }
    if let Data::Map(members) = &mut root.data {
        // A cell may have no load of this kind.
        members.retain_mut(|Member { key, value, .. }| {
            if !SIDE_LOADS.contains(&key.as_str()) {
                return true;
            }
            retain_checks(value, "requests", cell);
            ["requests", "load"].into_iter().all(|key| retain(value, key, cell))
        });
    }
    for key in ["verify", "probes"] {
        retain_or_remove(&mut root, key, cell);
    }
    for key in ["requests", "probes"] {
        retain_checks(&mut root, key, cell);
    }
    if let Data::Map(members) = &mut root.data {
        let stays = |key: &str| matches!(key, "matrix" | "levels");
        for member in members.iter_mut().filter(|member| !stays(&member.key)) {
            node(&mut member.value, cell);
        }
    }
    Some(root)
}

/// Removes the items of a list (or a single item) that are not for the cell. Returns `false` if
/// none is left.
fn retain(root: &mut Node, key: &str, cell: &Combination) -> bool {
    let Some(member) = member_mut(root, key) else { return true };
    match &mut member.value.data {
        Data::List(items) => {
            let before = items.len();
            items.retain(|item| is_for(item, cell, true));
            !items.is_empty() || before == 0
        }
        _ => is_for(&member.value, cell, true),
    }
}

/// As [`retain`]; a list without items is removed.
fn retain_or_remove(root: &mut Node, key: &str, cell: &Combination) {
    let stays = retain(root, key, cell);
    if let (false, Data::Map(members)) = (stays, &mut root.data) {
        members.retain(|member| member.key != key);
    }
}

/// Removes the checks of requests that are not for the cell.
fn retain_checks(root: &mut Node, key: &str, cell: &Combination) {
    let requests = member_mut(root, key).map(|member| &mut member.value.data);
    if let Some(Data::List(requests)) = requests {
        requests.iter_mut().for_each(|request| retain_or_remove(request, "checks", cell));
    }
}

/// A member of a mapping.
fn member_mut<'n>(root: &'n mut Node, key: &str) -> Option<&'n mut Member> {
    let Data::Map(members) = &mut root.data else { return None };
    members.iter_mut().find(|member| member.key == key)
}

fn node(node_: &mut Node, cell: &Combination) {
    match &mut node_.data {
        Data::Scalar(scalar) => {
            if let Some(filled) = scalar_with(scalar, cell) {
                node_.data = filled;
            }
        }
        Data::List(items) => items.iter_mut().for_each(|item| node(item, cell)),
        Data::Map(members) => {
            for Member { key, value, .. } in members {
                if key != "factors" {
                    node(value, cell);
                }
            }
        }
    }
}

/// A scalar with the values of the cell; `None` if it has none of their names.
fn scalar_with(scalar: &Scalar, cell: &Combination) -> Option<Data> {
    if !scalar.text.contains("${") {
        return None;
    }
    // A single value keeps its type: `"${users}"` is the number 100, `"${load.cores}"` a list.
    if let Some(name) = scalar.text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'))
        && let Some(value) = value_of(name.trim(), cell)
    {
        return Some(value);
    }
    let mut out = String::new();
    let mut rest = scalar.text.as_str();
    let mut changed = false;
    while let Some(open) = rest.find("${") {
        let end = rest[open..].find('}').map_or(rest.len(), |end| open + end + 1);
        let escaped = rest[..open].ends_with('$');
        let name = rest[open..end].trim_start_matches("${").trim_end_matches('}').trim();
        match value_of(name, cell).filter(|_| !escaped) {
            Some(Data::Scalar(value)) => {
                out.push_str(&rest[..open]);
                out.push_str(&value.text);
                changed = true;
            }
            // A list or mapping is no part of a text.
            _ => out.push_str(&rest[..end]),
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    changed.then(|| Data::Scalar(Scalar { text: out, plain: false, ..scalar.clone() }))
}

/// The value of a name; with `.bytes` as a size.
fn value_of(name: &str, cell: &Combination) -> Option<Data> {
    cell.value(name).or_else(|| {
        let Data::Scalar(value) = cell.value(name.strip_suffix(".bytes")?)? else { return None };
        let bytes = value.integer().or_else(|| units::size(&value.text).ok())?;
        Some(Data::Scalar(Scalar { text: bytes.to_string(), ..value }))
    })
}

/// Makes a schema accept `${name}` for values of any type.
pub(super) fn allow_placeholders(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            let typed = members.get("type").and_then(Value::as_str);
            if matches!(typed, Some("integer" | "boolean")) && !members.contains_key("anyOf") {
                let mut alone = std::mem::take(members);
                let description = alone.remove("description");
                let filled = json!({ "type": "string", "pattern": r"^\$\{.*\}$" });
                members.insert("anyOf".to_owned(), json!([alone, filled]));
                members.extend(description.map(|text| ("description".to_owned(), text)));
                return;
            }
            if let Some(Value::String(pattern)) = members.get_mut("pattern") {
                pattern.push_str(r"|\$\{");
            }
            for (name, value) in members.iter_mut() {
                if name != "propertyNames" {
                    allow_placeholders(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(allow_placeholders),
        _ => {}
    }
}
