//! Cells: the product of a matrix and the levels of factors, with `${name}` replaced.

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
}

impl Combination {
    /// The value of a name.
    fn value(&self, name: &str) -> Option<&Scalar> {
        let mut all = self.values.iter().chain(&self.case);
        all.find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The value of a name, as text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.value(name).map(|value| value.text.as_str())
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

/// Reports names under `only` that are no names of the matrix or of the cases.
pub(super) fn check_only(root: &Node, report: &mut Diagnostics) {
    let factors = root.get("cases").and_then(|cases| cases.get("factors"));
    let known = root.get("matrix").into_iter().chain(factors);
    let known: Vec<&str> =
        known.flat_map(|node| node.members().unwrap_or_default()).map(|m| m.key.as_str()).collect();
    for key in ["requests", "load", "published"] {
        let Some(node) = root.get(key) else { continue };
        for item in node.items().unwrap_or(std::slice::from_ref(node)) {
            let names = ["only", "to"].iter().filter_map(|key| item.get(key)?.members()).flatten();
            for member in names.filter(|member| !known.contains(&member.key.as_str())) {
                let message = format!("`{}` is not a name of `matrix` or `cases`", member.key);
                report.error(codes::UNKNOWN_NAME, member.at, message);
            }
        }
    }
}

/// All combinations, the last name changing fastest; a single one without matrix and cases.
pub(super) fn combinations(root: &Node, report: &mut Diagnostics) -> Vec<Combination> {
    let matrix = axes(root.get("matrix"), report);
    let factors = axes(root.get("cases").and_then(|cases| cases.get("factors")), report);
    for (name, _) in &factors {
        if matrix.iter().any(|(other, _)| other == name) {
            let at = root.get("cases").map_or(root.at, |node| node.at);
            report.error(codes::DUPLICATE_NAME, at, format!("`{name}` is also in the matrix"));
        }
    }
    let count = matrix.iter().chain(&factors).map(|(_, values)| values.len());
    let count = count.fold(1_usize, usize::saturating_mul);
    if count > MAX_CELLS {
        let message = format!("{count} cells exceed the limit of {MAX_CELLS}");
        report.error(codes::TOO_MANY, root.get("matrix").unwrap_or(root).at, message);
        return Vec::new();
    }
    let mut all = vec![Combination::default()];
    for (name, values) in &matrix {
        all = multiply(&all, values, |cell, value| cell.values.push((name.clone(), value)));
    }
    for (name, values) in &factors {
        all = multiply(&all, values, |cell, value| cell.case.push((name.clone(), value)));
    }
    all
}

fn multiply(
    all: &[Combination],
    values: &[Scalar],
    add: impl Fn(&mut Combination, Scalar),
) -> Vec<Combination> {
    let each = all.iter().flat_map(|cell| values.iter().map(move |value| (cell, value)));
    each.map(|(cell, value)| {
        let mut cell = cell.clone();
        add(&mut cell, value.clone());
        cell
    })
    .collect()
}

/// Names and their values.
fn axes(node: Option<&Node>, report: &mut Diagnostics) -> Vec<(String, Vec<Scalar>)> {
    let members = node.and_then(Node::members).unwrap_or_default();
    let mut axes = Vec::new();
    for member in members {
        let items = member.value.items().unwrap_or(std::slice::from_ref(&member.value));
        let values: Vec<Scalar> = items.iter().filter_map(Node::scalar).cloned().collect();
        if values.len() != items.len() || values.is_empty() {
            report.error(
                codes::WRONG_TYPE,
                member.value.at,
                format!("`{}` takes a list of values", member.key),
            );
            continue;
        }
        axes.push((member.key.clone(), values));
    }
    axes
}

/// The scenario with the values of one cell, and only its requests and loads; `None` without any.
/// `matrix` and `cases.factors` are unchanged.
pub(super) fn fill_in(root: &Node, cell: &Combination) -> Option<Node> {
    let mut root = root.clone();
    for key in ["requests", "load"] {
        if !retain(&mut root, key, cell) {
            return None;
        }
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
    let Data::Map(members) = &mut root.data else { return true };
    let Some(member) = members.iter_mut().find(|member| member.key == key) else { return true };
    match &mut member.value.data {
        Data::List(items) => {
            let before = items.len();
            items.retain(|item| is_for(item, cell, true));
            !items.is_empty() || before == 0
        }
        _ => is_for(&member.value, cell, true),
    }
}

fn node(node_: &mut Node, cell: &Combination) {
    match &mut node_.data {
        Data::Scalar(scalar) => {
            if let Some(filled) = scalar_with(scalar, cell) {
                *scalar = filled;
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
fn scalar_with(scalar: &Scalar, cell: &Combination) -> Option<Scalar> {
    if !scalar.text.contains("${") {
        return None;
    }
    // A single value keeps its type: `"${users}"` is the number 100.
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
            Some(value) => {
                out.push_str(&rest[..open]);
                out.push_str(&value.text);
                changed = true;
            }
            None => out.push_str(&rest[..end]),
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    changed.then(|| Scalar { text: out, plain: false, ..scalar.clone() })
}

/// The value of a name; with `.bytes` as a size.
fn value_of(name: &str, cell: &Combination) -> Option<Scalar> {
    cell.value(name).cloned().or_else(|| {
        let value = cell.value(name.strip_suffix(".bytes")?)?;
        let bytes = value.integer().or_else(|| units::size(&value.text).ok())?;
        Some(Scalar { text: bytes.to_string(), ..value.clone() })
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
