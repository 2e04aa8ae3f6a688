//! Structural maps from JSON to JSON.

use crate::expr::Scope;
use serde_json::Value;

/// A compiled map: a JSON structure whose leaves are RFC 9535 paths into the body, literals
/// (`{literal: "$5"}`) or expressions on the request (`{cel: "request.path.id"}`).
#[derive(Debug)]
pub struct JsonMap {
    template: Value,
}

/// Why a body could not be mapped.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The body is not JSON: what is wrong and where, without quoting the body.
    #[error("the body is not valid JSON: {0}")]
    Malformed(String),
}

/// Why a template is no map.
#[derive(Debug, PartialEq, Eq)]
pub struct MapFault {
    /// Member names and indexes from the top of the template to the faulty leaf.
    pub at: Vec<String>,
    /// What is wrong and what would be right.
    pub message: String,
}

impl JsonMap {
    /// Compiles a template.
    ///
    /// # Errors
    /// Every faulty leaf.
    pub fn compile(template: &Value) -> Result<Self, Vec<MapFault>> {
        Ok(Self { template: template.clone() })
    }

    /// Whether any leaf reads the body.
    pub fn reads_body(&self) -> bool {
        true
    }

    /// Whether any leaf is an expression, so that `apply` needs a scope.
    pub fn reads_request(&self) -> bool {
        false
    }

    /// Whether a leaf needs a tree of the whole body (filters, wildcards, descendants) rather
    /// than one pass over its bytes.
    pub fn needs_tree(&self) -> bool {
        false
    }

    /// Maps `body` and appends the result to `out` as JSON.
    ///
    /// # Errors
    /// The body is not JSON; `out` is then as it was.
    pub fn apply(&self, body: &[u8], scope: &Scope, out: &mut Vec<u8>) -> Result<(), MapError> {
        let _ = (body, scope);
        out.extend_from_slice(self.template.to_string().as_bytes());
        Ok(())
    }
}
