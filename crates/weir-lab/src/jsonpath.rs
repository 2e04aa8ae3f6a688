//! JSON paths as JMeter's library (Jayway JsonPath 2) has them: names such as `$.x-y`, deep scans,
//! filters with `=~` and `in`, functions such as `length()`.
//!
//! RFC 9535 differs in all of these, and in the order of deep scans.

mod evaluate;
mod filter;
mod parse;

use crate::pattern::Pattern;
use serde_json::Value;
use std::borrow::Cow;
use std::fmt::Write;

/// Longest path.
const MAX_BYTES: usize = 64 * 1024;
/// Visited values of an evaluation, which bounds paths with several deep scans.
const MAX_VISITED: usize = 5_000_000;

/// A compiled path.
#[derive(Clone, Debug)]
pub struct JsonPath {
    source: String,
    steps: Vec<Step>,
}

/// A step.
#[derive(Clone, Debug)]
enum Step {
    /// Members of an object.
    Names(Vec<String>),
    /// All members or elements.
    All,
    /// Elements by their positions; negative ones count from the end.
    Indexes(Vec<i64>),
    /// Elements from a position to another one.
    Slice(Option<i64>, Option<i64>),
    /// Elements for which a condition holds, or the object itself.
    Filter(Box<filter::Condition>),
    /// The following step applies to a value and everything inside it.
    Deep,
    /// A function of the value.
    Function(Function),
}

/// A function at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString)]
#[strum(serialize_all = "lowercase")]
enum Function {
    #[strum(serialize = "length", serialize = "size")]
    Length,
    Min,
    Max,
    Avg,
    Sum,
    Stddev,
    Keys,
    First,
    Last,
}

/// What a path found: values of the document, or results of functions.
pub(crate) type Found<'v> = Vec<Cow<'v, Value>>;

impl JsonPath {
    /// Compiles a path; a path that starts with a name starts at the root.
    ///
    /// # Errors
    /// The path is invalid or unsupported.
    pub(crate) fn parse(source: &str) -> Result<Self, String> {
        let steps = parse::parse(source)?;
        Ok(Self { source: source.trim().to_owned(), steps })
    }

    /// The path as written.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// The path in brackets: `$['a'][0]`.
    pub(crate) fn normalized(&self) -> String {
        let mut out = "$".to_owned();
        for step in &self.steps {
            // Writing to a string cannot fail.
            let _ = match step {
                Step::Names(names) => {
                    let names: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
                    write!(out, "[{}]", names.join(","))
                }
                Step::Indexes(indexes) => {
                    let indexes: Vec<String> = indexes.iter().map(i64::to_string).collect();
                    write!(out, "[{}]", indexes.join(","))
                }
                Step::All => write!(out, "[*]"),
                Step::Deep => write!(out, ".."),
                Step::Slice(from, to) => {
                    let bound =
                        |bound: &Option<i64>| bound.map(|b| b.to_string()).unwrap_or_default();
                    write!(out, "[{}:{}]", bound(from), bound(to))
                }
                Step::Filter(_) => write!(out, "[?]"),
                Step::Function(_) => write!(out, ".()"),
            };
        }
        out
    }

    /// Whether the path has a function.
    pub(crate) fn has_function(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Function(_)))
    }

    /// Whether the path leads to one value at most.
    pub(crate) fn is_definite(&self) -> bool {
        evaluate::is_definite(&self.steps)
    }

    /// All values that the path leads to.
    ///
    /// # Errors
    /// Too many values were visited, or a regular expression took too long.
    pub(crate) fn find<'v>(&self, root: &'v Value) -> Result<Found<'v>, String> {
        evaluate::find(&self.steps, root, root, &mut MAX_VISITED.clone())
    }
}

/// A value as text as the library gives it: a string without quotation marks, objects and lists as
/// JSON with `\/`, numbers as Java writes them.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => number_text(number),
        other => {
            let mut out = String::new();
            write_json(other, &mut out);
            out
        }
    }
}

fn number_text(number: &serde_json::Number) -> String {
    match (number.is_f64(), number.as_f64()) {
        (true, Some(float)) => java_double(float),
        _ => number.to_string(),
    }
}

/// A number as Java's `Double.toString` writes it.
pub(crate) fn java_double(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 || (1e-3..1e7).contains(&size) {
        let text = number.to_string();
        return if text.contains('.') { text } else { text + ".0" };
    }
    let text = format!("{number:E}");
    match text.split_once('E') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0E{exponent}"),
        _ => text,
    }
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => write_string(text, out),
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (at, (name, member)) in members.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_string(name, out);
                out.push(':');
                write_json(member, out);
            }
            out.push('}');
        }
        other => out.push_str(&other.to_string()),
    }
}

/// A string as json-smart writes it, safe for web pages.
fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '/' => out.push_str("\\/"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{2000}'..='\u{20ff}' => {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{:04X}", u32::from(character));
            }
            character => out.push(character),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests;
