//! Texts with variables and functions.

use super::{Call, CounterId, FeederId, NumberFormat, Scope, Variable};
use crate::budget::{MAX_TEXT_BYTES, cut};
use crate::charset::Charset;
use crate::form::{decode, form_encode};
use crate::java_time::TimePattern;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::borrow::Cow;

/// A parsed text: literals, variables, functions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Text {
    parts: Vec<TextPart>,
}

/// A part of a [`Text`].
#[derive(Clone, Debug, PartialEq)]
pub enum TextPart {
    /// A literal.
    Literal(Box<str>),
    /// The value of a variable; `${name}` without a value.
    Variable(Variable),
    /// The result of a function.
    Function {
        /// The function.
        function: Box<Function>,
        /// Variable that also gets the result.
        store_in: Option<Variable>,
    },
}

/// A function (JMeter's names in parentheses).
#[derive(Clone, Debug, PartialEq)]
pub enum Function {
    /// A number from `min` to `max` (`__Random`).
    Random {
        /// Minimum.
        min: Text,
        /// Maximum, inclusive.
        max: Text,
    },
    /// A number in a format.
    Formatted(Text, NumberFormat),
    /// Random characters of a set (`__RandomString`).
    RandomString {
        /// Number of characters.
        length: Text,
        /// The set; printable ASCII if empty.
        of: Text,
    },
    /// Milliseconds since 1970, divided by this (`__time`, `__time(/1000)`).
    Time {
        /// 1 for milliseconds.
        divisor: u64,
    },
    /// The time in a Java pattern such as `yyyy-MM-dd'T'HH:mm:ss` (`__time(pattern)`), in the time
    /// zone of the machine.
    TimeFormat(TimePattern),
    /// Number of the user in its group, from 1 (`__threadNum`).
    UserNumber,
    /// A counter of the calls of this function, from 1 (`__counter`).
    Counter(CounterId),
    /// A random UUID (`__UUID`).
    Uuid,
    /// The current value of a property (`__P` and `__property` in plans with `SetProperty`;
    /// otherwise the translation inserts the value).
    Property {
        /// Its name.
        name: Text,
        /// Default value.
        default: Text,
    },
    /// `true` or `false`: a condition in JavaScript.
    Condition(Text),
    /// A form-encoded text (`application/x-www-form-urlencoded`).
    FormEncode {
        /// The text.
        text: Text,
        /// The text is encoded already, and decoded before.
        again: bool,
        /// Encoding of its characters.
        encoding: Charset,
    },
    /// A text with its special characters escaped.
    Escape {
        /// The text.
        text: Text,
        /// For what.
        escape: Escape,
    },
    /// The value of a row of a feeder (`__StringFromFile`, `__CSVRead`).
    Row {
        /// The feeder.
        feeder: FeederId,
        /// Its variable with the result; `None` for an empty result.
        column: Option<Variable>,
        /// Take the next row; otherwise only for a user without a row.
        advance: bool,
    },
    /// Index of a weight, chosen at random in proportion to the weights.
    Weighted(Box<[u32]>),
    /// Any other function.
    Jmeter(Call),
    /// Sets a property (`__setProperty`); the result is empty or the previous value.
    SetProperty {
        /// Its name.
        name: Text,
        /// Its new value.
        value: Text,
        /// Return the previous value.
        return_old: bool,
    },
}

/// What special characters of a text are escaped for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// A text of JSON, without its quotation marks (RFC 8259, section 7).
    Json,
    /// Path or query of a URL: all but unreserved characters (RFC 3986, section 2.3).
    Percent,
}

/// What is not unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl Escape {
    /// The escaped text.
    #[must_use]
    pub fn apply(self, text: &str) -> String {
        match self {
            Self::Json => {
                let quoted = serde_json::Value::from(text).to_string();
                quoted[1..quoted.len() - 1].to_owned()
            }
            Self::Percent => utf8_percent_encode(text, RESERVED).to_string(),
        }
    }

    /// A part of a text, escaped now or when the text is rendered.
    pub(crate) fn part(self, part: TextPart) -> TextPart {
        match part {
            TextPart::Literal(text) => self.apply(&text).as_str().into(),
            part => Function::Escape { text: Text::from_parts([part]), escape: self }.into(),
        }
    }
}

impl From<&str> for TextPart {
    fn from(text: &str) -> Self {
        Self::Literal(text.into())
    }
}

impl From<Function> for TextPart {
    fn from(function: Function) -> Self {
        Self::Function { function: Box::new(function), store_in: None }
    }
}

impl IntoIterator for Text {
    type Item = TextPart;
    type IntoIter = std::vec::IntoIter<TextPart>;

    fn into_iter(self) -> Self::IntoIter {
        self.parts.into_iter()
    }
}

impl Text {
    /// A constant text.
    pub fn fixed(text: impl Into<Box<str>>) -> Self {
        let text = text.into();
        let parts = if text.is_empty() { Vec::new() } else { vec![TextPart::Literal(text)] };
        Self { parts }
    }

    /// A text of these parts; neighbouring literals are merged.
    pub fn from_parts(parts: impl IntoIterator<Item = TextPart>) -> Self {
        let mut merged: Vec<TextPart> = Vec::new();
        for part in parts {
            match (merged.last_mut(), part) {
                (_, TextPart::Literal(text)) if text.is_empty() => {}
                (Some(TextPart::Literal(before)), TextPart::Literal(text)) => {
                    *before = format!("{before}{text}").into();
                }
                (_, part) => merged.push(part),
            }
        }
        Self { parts: merged }
    }

    /// The text, if constant.
    pub fn as_fixed(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [TextPart::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether the text is constant and empty.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// The literal at the start; empty if the text is empty or starts with a variable.
    pub fn start(&self) -> &str {
        if let Some(TextPart::Literal(start)) = self.parts.first() { start } else { "" }
    }

    /// The parts.
    pub fn parts(&self) -> &[TextPart] {
        &self.parts
    }

    /// The text with form encoding: constants are encoded now, variables when the text is rendered.
    #[must_use]
    pub fn form_encoded(&self, encoding: Charset) -> Self {
        Self::from_parts(self.parts.iter().map(|part| match part {
            TextPart::Literal(text) => form_encode(text, encoding).as_str().into(),
            other => {
                let text = Self::from_parts([other.clone()]);
                Function::FormEncode { text, again: false, encoding }.into()
            }
        }))
    }

    /// The same for a text that is encoded already: as a whole, for it is decoded before.
    #[must_use]
    pub fn form_encoded_again(&self, encoding: Charset) -> Self {
        match self.as_fixed() {
            Some(text) => Self::fixed(form_encode(&decode(text, encoding), encoding)),
            None => {
                let text = self.clone();
                Self::from_parts([Function::FormEncode { text, again: true, encoding }.into()])
            }
        }
    }

    /// Appends the current text to `out`, which is cut off at its limit.
    pub fn write(&self, scope: &mut Scope<'_>, out: &mut String) {
        for part in &self.parts {
            match part {
                TextPart::Literal(text) => out.push_str(text),
                TextPart::Variable(variable) => scope.write_variable(*variable, out),
                TextPart::Function { function, store_in } => scope.call(function, *store_in, out),
            }
            if out.len() > MAX_TEXT_BYTES {
                return cut(out, MAX_TEXT_BYTES);
            }
        }
    }

    /// The current text.
    pub fn render<'a>(&'a self, scope: &mut Scope<'_>) -> Cow<'a, str> {
        if let Some(fixed) = self.as_fixed() {
            return Cow::Borrowed(fixed);
        }
        let mut out = String::new();
        self.write(scope, &mut out);
        Cow::Owned(out)
    }

    /// Whether the current text is `true`.
    pub fn is_true(&self, scope: &mut Scope<'_>) -> bool {
        self.render(scope).trim().eq_ignore_ascii_case("true")
    }

    /// The current text as a number; 0 if invalid.
    pub fn number(&self, scope: &mut Scope<'_>) -> f64 {
        self.render(scope).trim().parse().unwrap_or(0.0)
    }

    /// The current text as an integer; 0 if invalid.
    pub fn integer(&self, scope: &mut Scope<'_>) -> i64 {
        let text = self.render(scope);
        let text = text.trim();
        text.parse().unwrap_or_else(|_| text.parse().map_or(0, |number: f64| number as i64))
    }
}
