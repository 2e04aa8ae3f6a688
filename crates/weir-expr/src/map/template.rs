//! The output structure of a map.

use super::path::{self, Path};
use super::{JsonMap, MapFault, Selection, Slots, TreePath};
use crate::expr::{self, Expr, Scope};
use serde_json::Value;

/// A part of the output.
#[derive(Debug)]
pub(super) enum Out {
    /// Members: the name as JSON text with its colon.
    Object(Vec<(String, Out)>),
    /// Items.
    Array(Vec<Out>),
    /// JSON text.
    Constant(String),
    /// A value found in one pass.
    Slot(usize),
    /// The result of a path on the tree.
    Tree(usize),
    /// The result of an expression.
    Expr(Expr),
}

/// The values for the output.
pub(super) struct Input<'i, 'b> {
    pub(super) slots: &'i Slots<'b>,
    pub(super) tree: &'i Value,
    pub(super) paths: &'i [TreePath],
    pub(super) scope: &'i Scope,
}

impl Out {
    /// Appends the part to `out`; `false` (and nothing appended) if it is absent.
    pub(super) fn write(&self, input: &Input<'_, '_>, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Constant(json) => out.extend_from_slice(json.as_bytes()),
            Self::Slot(slot) => match input.slots.get(*slot) {
                Some(json) => out.extend_from_slice(json.as_bytes()),
                None => return false,
            },
            Self::Object(members) => {
                out.push(b'{');
                let mut first = true;
                for (name, value) in members {
                    let before = out.len();
                    if !first {
                        out.push(b',');
                    }
                    out.extend_from_slice(name.as_bytes());
                    if value.write(input, out) {
                        first = false;
                    } else {
                        out.truncate(before);
                    }
                }
                out.push(b'}');
            }
            Self::Array(items) => {
                out.push(b'[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    if !item.write(input, out) {
                        out.extend_from_slice(b"null");
                    }
                }
                out.push(b']');
            }
            Self::Tree(index) => return write_tree(input, *index, out),
            Self::Expr(expr) => match expr.value(input.scope) {
                Some(value) => out.extend_from_slice(value.to_string().as_bytes()),
                None => return false,
            },
        }
        true
    }

    /// Whether one of its expressions refers to this variable.
    pub(super) fn refers_to(&self, variable: &str) -> bool {
        match self {
            Self::Object(members) => members.iter().any(|(_, value)| value.refers_to(variable)),
            Self::Array(items) => items.iter().any(|item| item.refers_to(variable)),
            Self::Expr(expr) => expr.refers_to(variable),
            Self::Constant(_) | Self::Slot(_) | Self::Tree(_) => false,
        }
    }
}

fn write_tree(input: &Input<'_, '_>, index: usize, out: &mut Vec<u8>) -> bool {
    let Some(path) = input.paths.get(index) else { return false };
    let nodes = path.path.query(input.tree);
    let json = if path.singular {
        nodes.first().map(ToString::to_string)
    } else {
        serde_json::to_string(&nodes.all()).ok()
    };
    out.extend_from_slice(json.as_deref().unwrap_or_default().as_bytes());
    json.is_some()
}

/// Compiles a template.
pub(super) fn compile(template: &Value) -> Result<JsonMap, Vec<MapFault>> {
    let mut compiler = Compiler::default();
    let out = compiler.leaf_or_structure(template);
    let Compiler { selection, slots, tree, reads_request, faults, .. } = compiler;
    if faults.is_empty() {
        Ok(JsonMap { out, selection, slots, tree, reads_request })
    } else {
        Err(faults)
    }
}

#[derive(Default)]
struct Compiler {
    at: Vec<String>,
    selection: Selection,
    slots: usize,
    tree: Vec<TreePath>,
    reads_request: bool,
    faults: Vec<MapFault>,
}

impl Compiler {
    fn leaf_or_structure(&mut self, template: &Value) -> Out {
        match template {
            Value::Object(members) if members.len() == 1 => {
                match (members.get("literal"), members.get("cel")) {
                    (Some(literal), _) => Out::Constant(literal.to_string()),
                    (_, Some(source)) => self.expression(source),
                    _ => self.object(members),
                }
            }
            Value::Object(members) => self.object(members),
            Value::Array(items) => Out::Array(
                items
                    .iter()
                    .enumerate()
                    .map(|(i, item)| self.within(i.to_string(), |c| c.leaf_or_structure(item)))
                    .collect(),
            ),
            Value::String(text) if text.starts_with('$') => self.path(text),
            Value::String(text) => self.fault(format!(
                "{text:?} is not a path: paths begin with `$`, literals are \
                    written `{{literal: {text:?}}}`"
            )),
            constant => Out::Constant(constant.to_string()),
        }
    }

    fn object(&mut self, members: &serde_json::Map<String, Value>) -> Out {
        let members = members
            .iter()
            .map(|(name, value)| {
                let json = format!("{}:", Value::from(name.as_str()));
                (json, self.within(name.clone(), |c| c.leaf_or_structure(value)))
            })
            .collect();
        Out::Object(members)
    }

    fn within(&mut self, step: String, compile: impl FnOnce(&mut Self) -> Out) -> Out {
        self.at.push(step);
        let out = compile(self);
        self.at.pop();
        out
    }

    fn path(&mut self, text: &str) -> Out {
        match path::parse(text) {
            Ok(Path::Steps(steps)) => {
                self.selection.add(&steps, self.slots);
                self.slots += 1;
                Out::Slot(self.slots - 1)
            }
            Ok(Path::Tree { path, singular }) => {
                self.tree.push(TreePath { text: text.to_owned(), path, singular });
                Out::Tree(self.tree.len() - 1)
            }
            Err(message) => self.fault(message),
        }
    }

    fn expression(&mut self, source: &Value) -> Out {
        let Some(source) = source.as_str() else {
            return self.fault("`cel` takes a string".to_owned());
        };
        match Expr::compile(source, &expr::VARIABLES) {
            Ok(expr) => {
                self.reads_request = true;
                Out::Expr(expr)
            }
            Err(message) => self.fault(message),
        }
    }

    fn fault(&mut self, message: String) -> Out {
        self.faults.push(MapFault { at: self.at.clone(), message });
        Out::Constant("null".to_owned())
    }
}
