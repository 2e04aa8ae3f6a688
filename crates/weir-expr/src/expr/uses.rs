//! The variables of an expression, and the members that it uses.

use cel::common::ast::{EntryExpr, Expr as Node, LiteralValue, operators};
use cel::parser::Expression;
use std::collections::BTreeMap;

/// Used members, at least two levels; an empty map at a leaf means the entire value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Uses {
    /// The entire value, not only the named members.
    pub(super) all: bool,
    members: BTreeMap<String, Uses>,
}

impl Uses {
    /// Uses of one member.
    pub(super) fn get(&self, name: &str) -> Option<&Uses> {
        self.members.get(name)
    }

    /// Names of used members.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    /// Whether this member is needed, and which part of it (`None`: all).
    pub(super) fn wants(&self, name: &str) -> Option<Option<&Uses>> {
        match self.members.get(name) {
            _ if self.all => Some(None),
            Some(uses) => Some(Some(uses)),
            None => None,
        }
    }

    fn add(&mut self, path: &[&str]) {
        match path {
            [] => self.all = true,
            [first, rest @ ..] => self.members.entry((*first).to_owned()).or_default().add(rest),
        }
    }
}

/// Names that are types in CEL, not variables.
const TYPES: [&str; 12] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "optional_type",
    "string",
    "timestamp",
    "type",
    "uint",
];

/// Functions and operators of the standard library that are available without dates.
const FUNCTIONS: [&str; 18] = [
    "bool",
    "bytes",
    "contains",
    "double",
    "dyn",
    "endsWith",
    "has",
    "int",
    "matches",
    "max",
    "min",
    "optional",
    "size",
    "startsWith",
    "string",
    "type",
    "uint",
    "optMap",
];

/// One walk over an expression.
#[derive(Default)]
pub(super) struct Scan<'e> {
    /// Used variables and members so far.
    pub(super) uses: Uses,
    /// Variables bound by comprehensions around the current node.
    bound: Vec<&'e str>,
    /// Comprehensions around the current node, and the most of them so far.
    loops: usize,
    pub(super) most_loops: usize,
    /// Nodes around the current node, and the most of them so far.
    depth: usize,
    pub(super) most_depth: usize,
    /// A function that is not in the library.
    pub(super) unknown_function: Option<String>,
}

impl<'e> Scan<'e> {
    pub(super) fn expression(&mut self, expression: &'e Expression) {
        self.depth += 1;
        self.most_depth = self.most_depth.max(self.depth);
        self.node(expression);
        self.depth -= 1;
    }

    fn node(&mut self, expression: &'e Expression) {
        if let Some((root, path)) = chain(expression) {
            if !self.bound.contains(&root) && !root.starts_with('@') && !TYPES.contains(&root) {
                self.uses.members.entry(root.to_owned()).or_default().add(&path);
            }
            return;
        }
        match &expression.expr {
            Node::Unspecified | Node::Ident(_) | Node::Literal(_) => {}
            Node::Select(select) => self.expression(&select.operand),
            Node::Call(call) => {
                // The names of operators are not identifiers.
                let name = call.func_name.as_str();
                if name.starts_with(|c: char| c.is_ascii_alphabetic()) && !FUNCTIONS.contains(&name)
                {
                    self.unknown_function.get_or_insert_with(|| name.to_owned());
                }
                if let Some(target) = &call.target {
                    self.expression(target);
                }
                call.args.iter().for_each(|a| self.expression(a));
            }
            Node::List(list) => list.elements.iter().for_each(|e| self.expression(e)),
            Node::Map(map) => map.entries.iter().for_each(|e| self.entry(&e.expr)),
            Node::Struct(structure) => structure.entries.iter().for_each(|e| self.entry(&e.expr)),
            Node::Comprehension(loops) => {
                self.expression(&loops.iter_range);
                self.expression(&loops.accu_init);
                let bound = self.bound.len();
                self.bound.push(&loops.iter_var);
                self.bound.extend(loops.iter_var2.as_deref());
                self.bound.push(&loops.accu_var);
                self.loops += 1;
                self.most_loops = self.most_loops.max(self.loops);
                self.expression(&loops.loop_cond);
                self.expression(&loops.loop_step);
                self.expression(&loops.result);
                self.loops -= 1;
                self.bound.truncate(bound);
            }
        }
    }

    fn entry(&mut self, entry: &'e EntryExpr) {
        match entry {
            EntryExpr::StructField(field) => self.expression(&field.value),
            EntryExpr::MapEntry(entry) => {
                self.expression(&entry.key);
                self.expression(&entry.value);
            }
        }
    }
}

/// `a.b['c']` as its variable and the names of members below it.
fn chain(expression: &Expression) -> Option<(&str, Vec<&str>)> {
    let mut path = Vec::new();
    let mut node = expression;
    loop {
        match &node.expr {
            Node::Ident(name) => {
                path.reverse();
                return Some((name, path));
            }
            Node::Select(select) => {
                path.push(select.field.as_str());
                node = &select.operand;
            }
            Node::Call(call) if call.func_name == operators::INDEX => {
                let [operand, index] = call.args.as_slice() else { return None };
                let Node::Literal(LiteralValue::String(name)) = &index.expr else { return None };
                path.push(name.inner());
                node = operand;
            }
            _ => return None,
        }
    }
}
