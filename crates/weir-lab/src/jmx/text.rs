//! Texts of a plan: `${variable}` and `${__function(arguments)}` among characters.
//!
//! As in JMeter a backslash takes the meaning from `$`, `,` and `\`, but only in a text that has a
//! variable or function; in any other it is a character.

use super::functions;
use super::variables::Variables;
use crate::program::{Piece, Text};

/// Deepest nesting of functions.
const DEPTH: usize = 32;

/// What is wrong with a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// What is wrong.
    pub(super) message: String,
    /// It is something that the Lab does not have; the text may stand as it is written.
    pub(super) skippable: bool,
}

impl Fault {
    /// Something that is wrong.
    pub(super) fn wrong(message: impl Into<String>) -> Self {
        Self { message: message.into(), skippable: false }
    }

    /// Something that the Lab does not have.
    pub(super) fn missing(message: impl Into<String>) -> Self {
        Self { message: message.into(), skippable: true }
    }
}

/// Parses a text.
pub(super) fn parse(text: &str, variables: &mut Variables<'_>) -> Result<Text, Fault> {
    if !text.contains("${") {
        return Ok(Text::fixed(text));
    }
    let mut parser = Parser { rest: text, depth: 0, functions: 0, variables };
    let (parsed, _) = parser.text(Place::Outside)?;
    // Nothing was a variable after all (`\${`): then nothing was escaped either.
    if parser.functions == 0 { Ok(Text::fixed(text)) } else { Ok(parsed) }
}

/// Where a text stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// By itself.
    Outside,
    /// Among the arguments of a function.
    Argument,
}

/// What ended a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Text,
    Comma,
    Bracket,
}

struct Parser<'t, 'v, 'p> {
    rest: &'t str,
    depth: usize,
    /// Variables and functions so far.
    functions: usize,
    variables: &'v mut Variables<'p>,
}

impl Parser<'_, '_, '_> {
    fn text(&mut self, place: Place) -> Result<(Text, End), Fault> {
        let mut pieces = Vec::new();
        let mut literal = String::new();
        let mut brackets = 0;
        let end = loop {
            if self.rest.starts_with("${") {
                self.rest = &self.rest[2..];
                let text = self.reference()?;
                pieces.push(Piece::Literal(std::mem::take(&mut literal).into()));
                pieces.extend(text.pieces().iter().cloned());
                continue;
            }
            let mut characters = self.rest.chars();
            let Some(character) = characters.next() else { break End::Text };
            self.rest = characters.as_str();
            match character {
                '\\' => {
                    let escaped = characters.next();
                    if !matches!(escaped, Some('$' | ',' | '\\')) {
                        literal.push('\\');
                    }
                    literal.extend(escaped);
                    self.rest = characters.as_str();
                }
                ',' if place == Place::Argument => break End::Comma,
                ')' if place == Place::Argument && brackets == 0 => break End::Bracket,
                character => {
                    match character {
                        '(' => brackets += 1,
                        ')' => brackets -= 1,
                        _ => {}
                    }
                    literal.push(character);
                }
            }
        };
        pieces.push(Piece::Literal(literal.into()));
        Ok((Text::from_pieces(pieces), end))
    }

    /// What follows `${`.
    fn reference(&mut self) -> Result<Text, Fault> {
        self.depth += 1;
        self.functions += 1;
        if self.depth > DEPTH {
            return Err(Fault::wrong(format!("functions are nested deeper than {DEPTH}")));
        }
        let end = self.rest.find(['}', '(']).filter(|end| {
            let name = self.rest[..*end].trim();
            self.rest[*end..].starts_with('}') || name.starts_with("__")
        });
        // A name of a variable may have brackets.
        let end = end.or_else(|| self.rest.find('}'));
        let Some(end) = end else {
            return Err(Fault::wrong("a `${` is not closed"));
        };
        let name = self.rest[..end].trim().to_owned();
        let called = self.rest[end..].starts_with('(');
        self.rest = &self.rest[end + 1..];
        let mut arguments = Vec::new();
        if called {
            loop {
                let (argument, end) = self.text(Place::Argument)?;
                arguments.push(argument);
                match end {
                    End::Comma => {}
                    End::Bracket => break,
                    End::Text => {
                        return Err(Fault::wrong(format!(
                            "the brackets of `{name}` are not closed"
                        )));
                    }
                }
            }
            let Some(rest) = self.rest.trim_start().strip_prefix('}') else {
                return Err(Fault::wrong(format!("`{name}(…)` is not followed by `}}`")));
            };
            self.rest = rest;
        }
        self.depth -= 1;
        match name.starts_with("__") {
            true => functions::call(&name, &arguments, self.variables),
            false => Ok(self.variables.value(&name)),
        }
    }
}
