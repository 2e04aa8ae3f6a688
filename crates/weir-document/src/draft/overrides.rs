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

impl Reader<'_> {
    /// Sets a value, written as YAML, in the main file, or in the included file that defines the
    /// named item.
    pub(crate) fn set(&mut self, root: &mut Node, path: &str, value: &str) {
        let text = format!("{path}={value}");
        let file = self.texts.add(PathBuf::from(format!("--set {path}")), PathBuf::new(), &text);
        let width = u32::try_from(path.chars().count()).unwrap_or(u32::MAX).max(1);
        let at = Span { width, ..Span::start(file) };
        let Some(steps) = steps(path) else {
            self.report
                .error(codes::BAD_OVERRIDE, at, format!("`{path}` is not a path"))
                .help("names separated by dots, indexes in brackets: `listen[0].addr`");
            return;
        };
        // The value begins after `path=`.
        let parsed = yaml::parse(value, file, width.saturating_add(1), self.report);
        let Ok(node) = parsed else { return };
        let mut node = node.unwrap_or_else(|| null(at));
        if !self.plain {
            substitute::substitute(self, &mut node);
        }
        let defines = |node: &Node| match steps.as_slice() {
            [Step::Name(table), Step::Name(name), ..] => {
                TABLES.contains(&table.as_str())
                    && node.get(table).is_some_and(|t| t.get(name).is_some())
            }
            _ => false,
        };
        let home = match defines(root) {
            true => None,
            false => self.included.iter_mut().find(|node| defines(node)),
        };
        if let Err(message) = set(home.unwrap_or(root), &steps, node, at) {
            let message = format!("`{path}` does not exist: {message}");
            self.report.error(codes::BAD_OVERRIDE, at, message);
        }
    }
}

/// Puts a value at a path such as `load.0.vus`, in place of the present one.
///
/// # Errors
/// The path does not exist; the message has the reason.
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
            let index = index.ok_or_else(|| format!("{step} is not an index of the list"))?;
            let length = items.len();
            if index == length {
                items.push(null(at));
            }
            match items.get_mut(index) {
                Some(item) => set(item, rest, value, at),
                None => Err(format!("[{index}] is out of range: {length} items")),
            }
        }
        (_, step) => Err(format!("{step} does not fit {kind}")),
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Name(name) => write!(f, "`{name}`"),
            Self::Index(index) => write!(f, "`[{index}]`"),
        }
    }
}
