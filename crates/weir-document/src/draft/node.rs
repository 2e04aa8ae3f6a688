//! The draft as a tree of nodes with their locations.

use crate::finding::Diagnostics;
use crate::source_map::Span;
use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::Number;
use serde_json::value::RawValue;

/// A node with its location.
#[derive(Clone, Debug)]
pub struct Node {
    /// The start of the node.
    pub at: Span,
    /// The content of the node.
    pub data: Data,
}

/// The content of a node.
#[derive(Clone, Debug)]
pub enum Data {
    /// A string, number, boolean or null.
    Scalar(Scalar),
    /// A list.
    List(Vec<Node>),
    /// Members in the order of the text.
    Map(Vec<Member>),
}

/// One member of a mapping.
#[derive(Clone, Debug)]
pub struct Member {
    /// The key.
    pub key: String,
    /// Location of the key.
    pub at: Span,
    /// The value.
    pub value: Node,
}

/// A scalar as written.
#[derive(Clone, Debug)]
pub struct Scalar {
    /// The text, with quotes and escapes resolved and substitutions made.
    pub text: String,
    /// Written without quotes, so that `8080` is a number and `true` a boolean.
    pub plain: bool,
    /// Whether the text is the content of a file.
    pub from_file: bool,
    /// Whether the text has the value of an environment variable.
    pub from_env: bool,
    /// Whether a substitution failed: a finding has been reported, and no further one should be.
    pub lost: bool,
}

/// The type of a scalar in the core schema of YAML 1.2 (section 10.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number,
    /// Any other text.
    Text,
}

impl Scalar {
    /// The type and value of the scalar.
    pub fn meaning(&self) -> Meaning {
        if !self.plain {
            return Meaning::Text;
        }
        match self.text.as_str() {
            "" | "~" | "null" | "Null" | "NULL" => Meaning::Null,
            "true" | "True" | "TRUE" => Meaning::Bool(true),
            "false" | "False" | "FALSE" => Meaning::Bool(false),
            text if is_number(text) => Meaning::Number,
            _ => Meaning::Text,
        }
    }

    /// The value as an integer, if it is one that fits.
    pub fn integer(&self) -> Option<u64> {
        let text = self.text.strip_prefix('+').unwrap_or(&self.text);
        match self.meaning() {
            Meaning::Number => match text.get(..2) {
                Some("0x") => u64::from_str_radix(&text[2..], 16).ok(),
                Some("0o") => u64::from_str_radix(&text[2..], 8).ok(),
                _ => text.parse().ok(),
            },
            _ => None,
        }
    }
}

/// Integer (decimal, octal, hexadecimal) or float of the core schema.
fn is_number(text: &str) -> bool {
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return !digits.is_empty() && digits.chars().all(|c| c.is_digit(radix));
        }
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    // Decimal numbers have the syntax of Rust, which also has words (`inf`).
    matches!(unsigned, ".inf" | ".Inf" | ".INF")
        || matches!(text, ".nan" | ".NaN" | ".NAN")
        || (unsigned.starts_with(|c: char| c == '.' || c.is_ascii_digit())
            && unsigned.parse::<f64>().is_ok())
}

impl Node {
    /// Calls `visit` for every scalar below the node, except keys.
    pub fn each_scalar(&self, visit: &mut dyn FnMut(&Self)) {
        match &self.data {
            Data::Scalar(_) => visit(self),
            Data::List(items) => items.iter().for_each(|item| item.each_scalar(visit)),
            Data::Map(members) => {
                members.iter().for_each(|member| member.value.each_scalar(visit));
            }
        }
    }

    /// Redacts every scalar below the node in excerpts, except keys.
    pub fn redact(&self, report: &mut Diagnostics) {
        self.each_scalar(&mut |scalar| report.redact(scalar.at));
    }

    /// The scalar, if the node is one.
    pub fn scalar(&self) -> Option<&Scalar> {
        match &self.data {
            Data::Scalar(scalar) => Some(scalar),
            Data::List(_) | Data::Map(_) => None,
        }
    }

    /// The text, if the node is a scalar that is not null.
    pub fn text(&self) -> Option<&str> {
        let scalar = self.scalar().filter(|s| !s.lost && s.meaning() != Meaning::Null)?;
        Some(&scalar.text)
    }

    /// The members, if the node is a mapping.
    pub fn members(&self) -> Option<&[Member]> {
        match &self.data {
            Data::Map(members) => Some(members),
            Data::Scalar(_) | Data::List(_) => None,
        }
    }

    /// The value of the member with this name.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.members()?.iter().find(|m| m.key == key).map(|m| &m.value)
    }

    /// The member or item of a step of a JSON pointer (RFC 6901), which is unescaped.
    pub fn child(&self, step: &str) -> Option<&Node> {
        match &self.data {
            Data::List(items) => items.get(step.parse::<usize>().ok()?),
            Data::Map(_) | Data::Scalar(_) => self.get(step),
        }
    }

    /// The items, if the node is a list.
    pub fn items(&self) -> Option<&[Node]> {
        match &self.data {
            Data::List(items) => Some(items),
            Data::Scalar(_) | Data::Map(_) => None,
        }
    }

    /// Whether a substitution failed.
    pub fn is_lost(&self) -> bool {
        self.scalar().is_some_and(|s| s.lost)
    }

    /// Whether the node is null or empty.
    pub fn is_null(&self) -> bool {
        self.scalar().is_some_and(|s| s.meaning() == Meaning::Null)
    }

    /// The type, for messages: `a list`, `the number 5`.
    pub fn describe(&self) -> String {
        match &self.data {
            Data::List(_) => "a list".to_owned(),
            Data::Map(_) => "a mapping".to_owned(),
            Data::Scalar(scalar) => match scalar.meaning() {
                Meaning::Null => "nothing".to_owned(),
                Meaning::Bool(_) => "a boolean".to_owned(),
                Meaning::Number => "a number".to_owned(),
                Meaning::Text => "a string".to_owned(),
            },
        }
    }

    /// The node as JSON, with the order of members and the digits of numbers.
    ///
    /// # Errors
    /// The location of a number that JSON does not have (`.inf`, `.nan`).
    pub fn to_json(&self) -> Result<String, Span> {
        serde_json::to_string(self).map_err(|_| {
            let mut faulty = None;
            self.each_scalar(&mut |scalar| {
                if faulty.is_none() && serde_json::to_string(scalar).is_err() {
                    faulty = Some(scalar.at);
                }
            });
            faulty.unwrap_or(self.at)
        })
    }
}

/// As JSON, with the order of members and the digits of numbers.
impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.data {
            Data::Scalar(scalar) => scalar.serialize(serializer),
            Data::List(items) => items.serialize(serializer),
            Data::Map(members) => {
                serializer.collect_map(members.iter().map(|m| (&m.key, &m.value)))
            }
        }
    }
}

impl Serialize for Scalar {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.meaning() {
            Meaning::Null => serializer.serialize_unit(),
            Meaning::Bool(value) => serializer.serialize_bool(value),
            Meaning::Text => serializer.serialize_str(&self.text),
            Meaning::Number => {
                match (serde_json::from_str::<&RawValue>(&self.text), self.integer()) {
                    (Ok(number), _) => number.serialize(serializer),
                    (Err(_), Some(integer)) => serializer.serialize_u64(integer),
                    (Err(_), None) => {
                        let number = self.text.parse().ok().and_then(Number::from_f64);
                        let number = number.ok_or_else(|| S::Error::custom("not a JSON number"))?;
                        number.serialize(serializer)
                    }
                }
            }
        }
    }
}
