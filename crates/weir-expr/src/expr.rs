//! CEL expressions, compiled once.
//!
//! An evaluation builds only the values that the expression refers to, never the entire request.
//! Its work is bounded by the size of the expression: comprehensions are the only loops of the
//! language, and may be nested [`COMPREHENSIONS`] deep.

mod uses;
mod values;

use cel::{Context, Env, Program};
use serde_json::Value;
use std::sync::{Arc, LazyLock};
use uses::Uses;

/// All variables.
pub const VARIABLES: [&str; 3] = ["request", "claims", "consumer"];
/// Maximum length of an expression in bytes.
const LENGTH: usize = 4096;
/// Maximum nesting of comprehensions (`all`, `exists`, `map`, `filter`).
const COMPREHENSIONS: usize = 2;

/// Maximum nesting of operations: the evaluation is recursive, on the stack of a worker (2 MiB), with up
/// to 40 KiB for a level without optimisation. `a + b + c` has two levels; `&&` and `||` are balanced.
const DEPTH: usize = 32;
/// Stack of the parser, in bytes. It accepts 96 levels of nesting, each with a dozen calls: up to 160 KiB
/// without optimisation. A configuration can be compiled on a thread with a stack of 2 MiB.
const PARSER_STACK: usize = 32 << 20;

/// The standard library: building it costs more than most evaluations.
static LIBRARY: LazyLock<Arc<Env>> = LazyLock::new(|| Arc::new(Env::stdlib()));

/// Values of the variables. Absent values are not in scope.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// `request`: the request.
    pub request: Option<RequestFacts>,
    /// `claims`: claims of the verified token.
    pub claims: Option<Value>,
    /// `consumer`: name of the consumer.
    pub consumer: Option<String>,
    /// `call`: a metered call, in the expression of a price.
    pub call: Option<CallFacts>,
}

/// `call` in the expression of a price; each field has the same name there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallFacts {
    /// Name of the API.
    pub api: String,
    /// Name of the operation.
    pub operation: String,
    /// Name of the consumer.
    pub consumer: String,
    /// Status of the response.
    pub status: u16,
    /// Bytes of the request body.
    pub request_bytes: u64,
    /// Bytes of the response body.
    pub response_bytes: u64,
    /// Duration in whole milliseconds.
    pub duration_ms: u64,
}

/// `request` in an expression: `request.method`, `.path.NAME` (path parameters), `.target`
/// (normalised path), `.host`, `.query.NAME` (first value), `.headers['name']` (lower case, first
/// value), `.address` (client address).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFacts {
    /// Method in upper case.
    pub method: String,
    /// Normalised path.
    pub target: String,
    /// Host, lower case, without port.
    pub host: String,
    /// Client address.
    pub address: String,
    /// Path parameters, decoded.
    pub path: Vec<(String, String)>,
    /// Query parameters, decoded, in order.
    pub query: Vec<(String, String)>,
    /// Headers, lower-case names.
    pub headers: Vec<(String, String)>,
}

/// A compiled expression; copies share it.
#[derive(Clone)]
pub struct Expr(Arc<Compiled>);

struct Compiled {
    source: String,
    program: Program,
    uses: Uses,
}

impl std::fmt::Debug for Expr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Expr").field(&self.0.source).finish()
    }
}

/// Parses an expression on a thread of its own, whose stack suffices.
fn parsed(source: &str) -> Result<Program, String> {
    let parse = || {
        LIBRARY.compile(source).map_err(|errors| {
            let first = errors.errors.first();
            let (position, what) = first.map_or((0, String::new()), |e| (e.pos.1, plain(&e.msg)));
            format!("invalid CEL expression: {what} (at character {position})")
        })
    };
    std::thread::scope(|scope| {
        let parser = std::thread::Builder::new().stack_size(PARSER_STACK);
        let parser = parser.spawn_scoped(scope, parse);
        let parser = parser.map_err(|error| format!("cannot start a thread: {error}"))?;
        parser.join().map_err(|_| "the parser failed on the expression".to_owned())?
    })
}

impl Expr {
    /// Compiles `source`; only `variables` may be used.
    ///
    /// # Errors
    /// The text is no expression, or names another variable: the fault in one sentence.
    pub fn compile(source: &str, variables: &[&str]) -> Result<Self, String> {
        if source.len() > LENGTH {
            return Err(format!("the expression exceeds {LENGTH} bytes"));
        }
        if source.trim().is_empty() {
            return Err("the expression is empty".to_owned());
        }
        let program = parsed(source)?;
        let mut scan = uses::Scan::default();
        scan.expression(program.expression());
        if scan.most_depth > DEPTH {
            return Err(format!("the expression is nested deeper than {DEPTH} levels"));
        }
        if scan.most_loops > COMPREHENSIONS {
            return Err(format!("comprehensions are nested deeper than {COMPREHENSIONS}"));
        }
        if let Some(name) = scan.unknown_function {
            return Err(format!("unknown function `{name}`"));
        }
        let uses = scan.uses;
        if let Some(name) = uses.names().find(|n| !variables.contains(n)) {
            return Err(format!("unknown variable `{name}`; known: {}", quoted(variables)));
        }
        for (variable, members) in [("request", values::MEMBERS), ("call", values::FACTS)] {
            let mut used = uses.get(variable).into_iter().flat_map(Uses::names);
            if let Some(name) = used.find(|name| !members.contains(name)) {
                let known = quoted(&members);
                return Err(format!("unknown member `{variable}.{name}`; known: {known}"));
            }
        }
        Ok(Self(Arc::new(Compiled { source: source.to_owned(), program, uses })))
    }

    /// The source text.
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// Whether the expression refers to this variable (`request`, `claims`, `consumer`); other
    /// variables need not be in the scope.
    pub fn refers_to(&self, variable: &str) -> bool {
        self.0.uses.get(variable).is_some()
    }

    /// Whether the expression may refer to this member of a variable.
    pub(crate) fn refers_to_member(&self, variable: &str, member: &str) -> bool {
        self.0.uses.get(variable).is_some_and(|uses| uses.get(member).is_some())
    }

    /// Whether the result is true. Errors, missing members and other types than boolean are false.
    pub fn holds(&self, scope: &Scope) -> bool {
        matches!(self.evaluate(scope), Some(cel::Value::Bool(true)))
    }

    /// The result as JSON; `None` if evaluation fails (a missing member) or the result is null.
    pub fn value(&self, scope: &Scope) -> Option<Value> {
        let value = self.evaluate(scope)?.json().ok()?;
        (!value.is_null()).then_some(value)
    }

    /// The result for variables that are JSON values, those of [`Self::compile`].
    ///
    /// # Errors
    /// Why the evaluation fails, for example a missing member.
    pub fn value_of(&self, variables: &[(&str, &Value)]) -> Result<Value, String> {
        let mut context = Context::with_env(Arc::clone(&LIBRARY));
        for (name, value) in variables {
            if let Some(uses) = self.0.uses.get(name) {
                context.add_variable_from_value(*name, values::json(value, Some(uses)));
            }
        }
        let result = self.0.program.execute(&context).map_err(|error| error.to_string())?;
        result.json().map_err(|error| error.to_string())
    }

    fn evaluate(&self, scope: &Scope) -> Option<cel::Value> {
        let mut context = Context::with_env(Arc::clone(&LIBRARY));
        if let (Some(uses), Some(request)) = (self.0.uses.get("request"), &scope.request) {
            context.add_variable_from_value("request", values::request(request, uses));
        }
        if let (Some(uses), Some(claims)) = (self.0.uses.get("claims"), &scope.claims) {
            context.add_variable_from_value("claims", values::json(claims, Some(uses)));
        }
        if let (Some(_), Some(consumer)) = (self.0.uses.get("consumer"), &scope.consumer) {
            context.add_variable_from_value("consumer", consumer.as_str());
        }
        if let (Some(_), Some(call)) = (self.0.uses.get("call"), &scope.call) {
            context.add_variable_from_value("call", values::call(call));
        }
        self.0.program.execute(&context).ok()
    }
}

/// Names as a list for messages.
fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The parser's message without the list of possible tokens.
fn plain(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    let line = line.split(" expecting ").next().unwrap_or_default();
    line.trim_start_matches("Syntax error: ").replace("'<EOF>'", "the end")
}

#[cfg(test)]
mod tests;
