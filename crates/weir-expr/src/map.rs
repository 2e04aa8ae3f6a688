//! Structural maps from JSON to JSON.
//!
//! Paths of names and indexes are copied as byte ranges in one pass over the body, without a tree
//! (`pass`); paths with other selectors are evaluated on a tree. Both use the last of duplicate
//! names, preserve types, and reject a body that is not entirely valid JSON.

pub(crate) mod pass;
pub(crate) mod path;
mod scan;
mod template;

use crate::expr::Scope;
use pass::{Selection, Slots};
use serde_json::Value;
use serde_json_path::JsonPath;
use template::Out;

/// A compiled map: a JSON structure whose leaves are RFC 9535 paths into the body, literals
/// (`{literal: "$5"}`) or expressions on the request (`{cel: "request.path.id"}`).
///
/// Numbers, booleans and null are constants. A member whose singular path or expression has no
/// result is left out; in an array, and at the top level, the result is null. A path that is not
/// singular produces an array.
#[derive(Debug)]
pub struct JsonMap {
    out: Out,
    selection: Selection,
    /// Number of leaves that are read in one pass.
    slots: usize,
    /// Paths that are evaluated on a tree, and whether each is singular.
    tree: Vec<TreePath>,
    reads_request: bool,
}

#[derive(Debug)]
struct TreePath {
    text: String,
    path: JsonPath,
    singular: bool,
}

/// Why a body cannot be mapped.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The body is not JSON: fault and location, without quoting the body.
    #[error("the body is not valid JSON: {0}")]
    Malformed(String),
}

/// Why a template is not a map.
#[derive(Debug, PartialEq, Eq)]
pub struct MapFault {
    /// Member names and indexes from the top of the template to the faulty leaf.
    pub at: Vec<String>,
    /// Fault and remedy.
    pub message: String,
}

impl JsonMap {
    /// Compiles a template.
    ///
    /// # Errors
    /// Every faulty leaf.
    pub fn compile(template: &Value) -> Result<Self, Vec<MapFault>> {
        template::compile(template)
    }

    /// Whether any leaf reads the body.
    pub fn reads_body(&self) -> bool {
        self.slots > 0 || self.needs_tree()
    }

    /// Whether any leaf is an expression, so that `apply` needs a scope.
    pub fn reads_request(&self) -> bool {
        self.reads_request
    }

    /// Whether an expression refers to this variable (`request`, `claims`, `consumer`), which is
    /// then needed in the scope.
    pub fn refers_to(&self, variable: &str) -> bool {
        self.out.refers_to(variable)
    }

    /// Whether a leaf needs a tree of the entire body (filters, wildcards, descendants) instead of
    /// one pass over its bytes.
    pub fn needs_tree(&self) -> bool {
        !self.tree.is_empty()
    }

    /// The paths that need a tree, as written.
    pub fn tree_paths(&self) -> impl Iterator<Item = &str> {
        self.tree.iter().map(|t| t.text.as_str())
    }

    /// Maps `body` and appends the result to `out` as JSON. A map that does not read the body
    /// ignores it.
    ///
    /// # Errors
    /// The body is not JSON; `out` is then unchanged.
    pub fn apply(&self, body: &[u8], scope: &Scope, out: &mut Vec<u8>) -> Result<(), MapError> {
        let mut slots = Slots::new(self.slots);
        let mut tree = Value::Null;
        if self.reads_body() {
            let text = std::str::from_utf8(body).map_err(|e| {
                MapError::Malformed(format!("invalid UTF-8 at byte {}", e.valid_up_to()))
            })?;
            pass::read(text, &self.selection, &mut slots).map_err(|e| malformed(&e))?;
            if self.needs_tree() {
                tree = serde_json::from_str(text).map_err(|e| malformed(&e))?;
            }
        }
        let input = template::Input { slots: &slots, tree: &tree, paths: &self.tree, scope };
        if !self.out.write(&input, out) {
            out.extend_from_slice(b"null");
        }
        Ok(())
    }
}

/// Fault and location; syntax errors of serde_json do not quote the body.
fn malformed(error: &serde_json::Error) -> MapError {
    MapError::Malformed(error.to_string())
}

#[cfg(test)]
pub(crate) mod tests;
