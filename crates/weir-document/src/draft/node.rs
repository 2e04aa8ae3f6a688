//! The draft as a tree: what is written, and where each piece of it stands.

use crate::finding::Diagnostics;
use crate::source_map::Span;

/// A node with its place.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it begins.
    pub at: Span,
    /// What it is.
    pub data: Data,
}

/// What a node can be.
#[derive(Clone, Debug)]
pub enum Data {
    /// A text, number, boolean or null.
    Scalar(Scalar),
    /// A list.
    List(Vec<Node>),
    /// Members in the order they are written.
    Map(Vec<Member>),
}

/// One member of a mapping.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its key.
    pub key: String,
    /// Where the key stands.
    pub at: Span,
    /// Its value.
    pub value: Node,
}

/// A scalar as written.
#[derive(Clone, Debug)]
pub struct Scalar {
    /// Its text, quotes and escapes resolved, substitutions done.
    pub text: String,
    /// Written without quotes, so that `8080` is a number and `true` a boolean.
    pub plain: bool,
    /// Its text is the content of a file.
    pub from_file: bool,
    /// A substitution in it failed: a finding says so, and nothing more is to be said of it.
    pub lost: bool,
}

/// What a scalar means by the core schema of YAML 1.2 (section 10.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// `null`, `~` or nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number,
    /// Anything else.
    Text,
}

impl Scalar {
    /// What it means.
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

    /// The whole number it is, if it is one that fits.
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
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_fits = exponent.is_none_or(|e| {
        let e = e.strip_prefix(['-', '+']).unwrap_or(e);
        !e.is_empty() && digits(e)
    });
    !(whole.is_empty() && fraction.is_empty()) && digits(whole) && digits(fraction) && exponent_fits
}

impl Node {
    /// Calls `visit` for every scalar in it, but for keys.
    pub fn each_scalar(&self, visit: &mut dyn FnMut(&Self)) {
        match &self.data {
            Data::Scalar(_) => visit(self),
            Data::List(items) => items.iter().for_each(|item| item.each_scalar(visit)),
            Data::Map(members) => {
                members.iter().for_each(|member| member.value.each_scalar(visit));
            }
        }
    }

    /// Masks every scalar in it in excerpts; keys stay.
    pub fn redact(&self, report: &mut Diagnostics) {
        self.each_scalar(&mut |scalar| report.redact(scalar.at));
    }

    /// Its scalar, if it is one.
    pub fn scalar(&self) -> Option<&Scalar> {
        match &self.data {
            Data::Scalar(scalar) => Some(scalar),
            Data::List(_) | Data::Map(_) => None,
        }
    }

    /// Its text, if it is a scalar that is not null.
    pub fn text(&self) -> Option<&str> {
        let scalar = self.scalar().filter(|s| !s.lost && s.meaning() != Meaning::Null)?;
        Some(&scalar.text)
    }

    /// Its members, if it is a mapping.
    pub fn members(&self) -> Option<&[Member]> {
        match &self.data {
            Data::Map(members) => Some(members),
            Data::Scalar(_) | Data::List(_) => None,
        }
    }

    /// The member of this name.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.members()?.iter().find(|m| m.key == key).map(|m| &m.value)
    }

    /// Its items, if it is a list.
    pub fn items(&self) -> Option<&[Node]> {
        match &self.data {
            Data::List(items) => Some(items),
            Data::Scalar(_) | Data::Map(_) => None,
        }
    }

    /// Lost to a failed substitution?
    pub fn is_lost(&self) -> bool {
        self.scalar().is_some_and(|s| s.lost)
    }

    /// Null or nothing written?
    pub fn is_null(&self) -> bool {
        self.scalar().is_some_and(|s| s.meaning() == Meaning::Null)
    }

    /// What it is, for messages: `a list`, `the number 5`.
    pub fn describe(&self) -> String {
        match &self.data {
            Data::List(_) => "a list".to_owned(),
            Data::Map(_) => "a mapping".to_owned(),
            Data::Scalar(scalar) => match scalar.meaning() {
                Meaning::Null => "nothing".to_owned(),
                Meaning::Bool(_) => "a boolean".to_owned(),
                Meaning::Number => "a number".to_owned(),
                Meaning::Text => "a text".to_owned(),
            },
        }
    }

    /// The node as JSON: member order and the digits of numbers are kept.
    ///
    /// # Errors
    /// The place of a number that JSON does not have (`.inf`, `.nan`).
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
