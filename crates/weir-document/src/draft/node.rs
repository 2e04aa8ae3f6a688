//! The draft as a tree of nodes with their locations.

use crate::finding::Diagnostics;
use crate::source_map::Span;

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
    if let Some(digits) = text.strip_prefix("0x") {
        return !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return !digits.is_empty() && digits.bytes().all(|b| (b'0'..=b'7').contains(&b));
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_fits = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['-', '+']).unwrap_or(e);
        !e.is_empty() && digits(e)
    });
    !(integer.is_empty() && fraction.is_empty())
        && digits(integer)
        && digits(fraction)
        && exponent_fits
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
        let mut out = String::new();
        self.write_json(&mut out)?;
        Ok(out)
    }

    fn write_json(&self, out: &mut String) -> Result<(), Span> {
        match &self.data {
            Data::Scalar(scalar) => write_scalar(scalar, out).ok_or(self.at)?,
            Data::List(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    item.write_json(out)?;
                }
                out.push(']');
            }
            Data::Map(members) => {
                out.push('{');
                for (i, member) in members.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    write_text(&member.key, out);
                    out.push(':');
                    member.value.write_json(out)?;
                }
                out.push('}');
            }
        }
        Ok(())
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push_str(&serde_json::Value::from(text).to_string());
}

fn write_scalar(scalar: &Scalar, out: &mut String) -> Option<()> {
    match scalar.meaning() {
        Meaning::Null => out.push_str("null"),
        Meaning::Bool(value) => out.push_str(if value { "true" } else { "false" }),
        Meaning::Text => write_text(&scalar.text, out),
        Meaning::Number
            if serde_json::from_str::<&serde_json::value::RawValue>(&scalar.text).is_ok() =>
        {
            out.push_str(&scalar.text);
        }
        Meaning::Number => match scalar.integer() {
            Some(integer) => out.push_str(&integer.to_string()),
            None => {
                let number: f64 = scalar.text.parse().ok()?;
                out.push_str(&serde_json::Number::from_f64(number)?.to_string());
            }
        },
    }
    Some(())
}
