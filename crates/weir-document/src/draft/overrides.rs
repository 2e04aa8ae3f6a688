//! `--set path=value`: overrides of the written configuration.

use super::node::{Data, Member, Node};
use super::reader::{Reader, null};
use super::{TABLES, substitute, yaml};
use crate::finding::codes;
use crate::source_map::Span;
use std::path::PathBuf;

/// One step of a path, and its location in `path=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Name(String),
    Index(usize),
}

/// Applies an override to the main file, or to the included file that defines the named item.
pub(super) fn apply(reader: &mut Reader<'_>, root: &mut Node, path: &str, value: &str) {
    let text = format!("{path}={value}");
    let file = reader.texts.add(PathBuf::from(format!("--set {path}")), PathBuf::new(), &text);
    let width = u32::try_from(path.chars().count()).unwrap_or(u32::MAX).max(1);
    let at = Span { file, line: 1, column: 1, width, until: None };
    let Some(steps) = steps(path) else {
        reader
            .report
            .error(codes::BAD_OVERRIDE, at, format!("`{path}` is not a path"))
            .help("names separated by dots, indexes in brackets: `listen[0].addr`");
        return;
    };
    // The value begins after `path=`.
    let Ok(node) = yaml::parse(value, file, width.saturating_add(1), reader.report) else { return };
    let mut node = node.unwrap_or_else(|| null(at));
    if !reader.plain {
        substitute::substitute(reader, &mut node);
    }
    let home = match steps.as_slice() {
        [Step::Name(table), Step::Name(name), ..]
            if TABLES.contains(&table.as_str())
                && root.get(table).is_none_or(|t| t.get(name).is_none()) =>
        {
            reader.included_with(table, name)
        }
        _ => None,
    };
    let result = match home {
        Some(index) => {
            let mut included = reader.remove_included(index);
            let result = set(&mut included, &steps, node, at);
            reader.insert_included(index, included);
            result
        }
        None => set(root, &steps, node, at),
    };
    if let Err(message) = result {
        reader.report.error(codes::BAD_OVERRIDE, at, format!("`{path}` does not exist: {message}"));
    }
}

/// Puts a value at a path, in place of the present one.
pub fn put(root: &mut Node, path: &str, value: Node) -> Result<(), String> {
    let at = value.at;
    let steps = steps(path).ok_or_else(|| format!("`{path}` is not a path"))?;
    set(root, &steps, value, at).map_err(|reason| format!("`{path}` does not exist: {reason}"))
}

/// `a.b[0].c`, `a.0`, `apis."v1.2".base`.
fn steps(path: &str) -> Option<Vec<Step>> {
    let mut steps = Vec::new();
    let mut rest = path;
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let (name, tail) = quoted.split_once('"')?;
            steps.push(Step::Name(name.to_owned()));
            rest = tail;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let name = &rest[..end];
            if name.is_empty() {
                return None;
            }
            // Numbers are indexes of lists, and names elsewhere.
            steps.push(Step::Name(name.to_owned()));
            rest = &rest[end..];
        }
        while let Some(tail) = rest.strip_prefix('[') {
            let (index, tail) = tail.split_once(']')?;
            steps.push(Step::Index(index.parse().ok()?));
            rest = tail;
        }
        match rest.strip_prefix('.') {
            Some(tail) => rest = tail,
            None => return rest.is_empty().then_some(steps),
        }
    }
}

fn set(node: &mut Node, steps: &[Step], value: Node, at: Span) -> Result<(), String> {
    let [step, rest @ ..] = steps else {
        *node = value;
        return Ok(());
    };
    if node.is_null() {
        node.at = at;
        node.data = match step {
            Step::Name(_) => Data::Map(Vec::new()),
            Step::Index(_) => Data::List(Vec::new()),
        };
    }
    let kind = node.describe();
    match (&mut node.data, step) {
        (Data::Map(members), Step::Name(name)) => {
            if let Some(member) = members.iter_mut().find(|m| m.key == *name) {
                if rest.is_empty() {
                    member.at = at;
                }
                return set(&mut member.value, rest, value, at);
            }
            let mut member = Member { key: name.clone(), at, value: null(at) };
            set(&mut member.value, rest, value, at)?;
            members.push(member);
            Ok(())
        }
        (Data::List(items), step) => {
            let index = match step {
                Step::Index(index) => Some(*index),
                Step::Name(name) => name.parse().ok(),
            };
            let index =
                index.ok_or_else(|| format!("{} is not an index of the list", show(step)))?;
            let length = items.len();
            if index == length {
                items.push(null(at));
            }
            match items.get_mut(index) {
                Some(item) => set(item, rest, value, at),
                None => Err(format!("[{index}] is out of range: {length} items")),
            }
        }
        (_, step) => Err(format!("{} does not fit {kind}", show(step))),
    }
}

fn show(step: &Step) -> String {
    match step {
        Step::Name(name) => format!("`{name}`"),
        Step::Index(index) => format!("`[{index}]`"),
    }
}
