//! Texts with variables and functions.

use super::{CounterId, Scope, Variable};
use std::borrow::Cow;

/// A text, taken apart once: literal pieces, variables, functions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Text {
    pieces: Vec<Piece>,
}

/// A part of a [`Text`].
#[derive(Clone, Debug, PartialEq)]
pub enum Piece {
    /// As it is.
    Literal(Box<str>),
    /// The variable's value; `${name}` as long as it has none.
    Variable(Variable),
    /// What the function gives.
    Function(Box<Function>),
}

/// A function (JMeter's names in brackets).
#[derive(Clone, Debug, PartialEq)]
pub enum Function {
    /// A number from `least` to `most` (`__Random`).
    Random {
        /// Least.
        least: Text,
        /// Most; included.
        most: Text,
        /// Kept here as well.
        keep: Option<Variable>,
    },
    /// So many characters of these (`__RandomString`).
    RandomString {
        /// How many.
        length: Text,
        /// Of which; printable ASCII if empty.
        of: Text,
        /// Kept here as well.
        keep: Option<Variable>,
    },
    /// Milliseconds since 1970, divided by this (`__time`, `__time(/1000)`).
    Time {
        /// 1 for milliseconds.
        divisor: u64,
        /// Kept here as well.
        keep: Option<Variable>,
    },
    /// The time in a Java pattern such as `yyyy-MM-dd'T'HH:mm:ss` (`__time(pattern)`), UTC.
    TimeFormat {
        /// A `strftime` pattern, already translated.
        pattern: String,
        /// Kept here as well.
        keep: Option<Variable>,
    },
    /// Number of the user in its group, from 1 (`__threadNum`).
    UserNumber,
    /// Counts its own calls, from 1 (`__counter`); a counter without variable.
    Counter {
        /// Which.
        id: CounterId,
        /// Kept here as well.
        keep: Option<Variable>,
    },
    /// A random UUID (`__UUID`).
    Uuid,
    /// A property's value at that moment (`__P` and `__property` where `SetProperty` is used;
    /// otherwise the translation puts the value there).
    Property {
        /// Its name.
        name: Text,
        /// If it has no value.
        default: Text,
        /// Kept here as well.
        keep: Option<Variable>,
    },
    /// A text encoded as a value of a form (`application/x-www-form-urlencoded`).
    FormEncode {
        /// What is encoded.
        text: Text,
    },
    /// Sets a property (`__setProperty`); gives nothing, or the value before.
    SetProperty {
        /// Its name.
        name: Text,
        /// Its new value.
        value: Text,
        /// Whether the value before is given.
        give_old: bool,
    },
}

impl Text {
    /// A text that is always the same.
    pub fn fixed(text: impl Into<Box<str>>) -> Self {
        let text = text.into();
        let pieces = if text.is_empty() { Vec::new() } else { vec![Piece::Literal(text)] };
        Self { pieces }
    }

    /// A text of these pieces; literals side by side become one.
    pub fn from_pieces(pieces: impl IntoIterator<Item = Piece>) -> Self {
        let mut merged: Vec<Piece> = Vec::new();
        for piece in pieces {
            match (merged.last_mut(), piece) {
                (_, Piece::Literal(text)) if text.is_empty() => {}
                (Some(Piece::Literal(before)), Piece::Literal(text)) => {
                    *before = format!("{before}{text}").into();
                }
                (_, piece) => merged.push(piece),
            }
        }
        Self { pieces: merged }
    }

    /// The text, if it is always the same.
    pub fn as_fixed(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Its pieces.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Appends the text as it is now to `out`.
    pub fn write(&self, scope: &mut Scope<'_>, out: &mut String) {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => out.push_str(text),
                Piece::Variable(variable) => scope.write_variable(*variable, out),
                Piece::Function(function) => scope.call(function, out),
            }
        }
    }

    /// The text as it is now.
    pub fn render<'a>(&'a self, scope: &mut Scope<'_>) -> Cow<'a, str> {
        if let Some(fixed) = self.as_fixed() {
            return Cow::Borrowed(fixed);
        }
        let mut out = String::new();
        self.write(scope, &mut out);
        Cow::Owned(out)
    }

    /// The number that the text is now; 0 if it is none.
    pub fn number(&self, scope: &mut Scope<'_>) -> f64 {
        self.render(scope).trim().parse().unwrap_or(0.0)
    }

    /// The whole number that the text is now; 0 if it is none.
    pub fn integer(&self, scope: &mut Scope<'_>) -> i64 {
        let text = self.render(scope);
        let text = text.trim();
        text.parse().unwrap_or_else(|_| text.parse().map_or(0, |number: f64| number as i64))
    }
}
