//! Texts of a plan: characters with `${variable}` and `${__function(arguments)}`.
//!
//! As in JMeter, a backslash escapes `$`, `,` and `\`, but only in a text with a variable or
//! function.

use super::functions;
use super::variables::Variables;
use crate::program::{Text, TextPart};

/// Deepest nesting of functions.
const MAX_DEPTH: usize = 32;

/// An invalid or unsupported text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextError {
    /// The problem.
    pub(super) message: String,
    /// Unsupported by the Lab: the text may be used unchanged.
    pub(super) skippable: bool,
}

impl TextError {
    /// An invalid text.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self { message: message.into(), skippable: false }
    }

    /// An unsupported text.
    pub(super) fn unsupported(message: impl Into<String>) -> Self {
        Self { message: message.into(), skippable: true }
    }
}

/// Parses a text.
pub(super) fn parse(text: &str, variables: &mut Variables<'_>) -> Result<Text, TextError> {
    if !text.contains("${") {
        return Ok(Text::fixed(text));
    }
    let mut parser = Parser { rest: text, depth: 0, functions: 0, variables };
    let (parsed, _) = parser.text(Context::Outside)?;
    // The text has no variable after all (`\${`), so the text is not escaped.
    if parser.functions == 0 { Ok(Text::fixed(text)) } else { Ok(parsed) }
}

/// Context of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Context {
    /// A property.
    Outside,
    /// An argument of a function.
    Argument,
}

/// End of a text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Text,
    Comma,
    Bracket,
}

struct Parser<'t, 'v, 'p> {
    rest: &'t str,
    depth: usize,
    /// Number of variables and functions.
    functions: usize,
    variables: &'v mut Variables<'p>,
}

impl Parser<'_, '_, '_> {
    fn text(&mut self, context: Context) -> Result<(Text, End), TextError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut brackets = 0;
        let end = loop {
            if self.rest.starts_with("${") {
                self.rest = &self.rest[2..];
                let text = self.reference()?;
                parts.push(TextPart::Literal(std::mem::take(&mut literal).into()));
                parts.extend(text.parts().iter().cloned());
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
                ',' if context == Context::Argument => break End::Comma,
                ')' if context == Context::Argument && brackets == 0 => break End::Bracket,
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
        parts.push(TextPart::Literal(literal.into()));
        Ok((Text::from_parts(parts), end))
    }

    /// Parses a reference after `${`.
    fn reference(&mut self) -> Result<Text, TextError> {
        self.depth += 1;
        self.functions += 1;
        if self.depth > MAX_DEPTH {
            return Err(TextError::invalid(format!(
                "functions are nested deeper than {MAX_DEPTH}"
            )));
        }
        let end = self.rest.find(['}', '(']).filter(|end| {
            let name = self.rest[..*end].trim();
            self.rest[*end..].starts_with('}') || name.starts_with("__")
        });
        // Names of variables may contain parentheses.
        let end = end.or_else(|| self.rest.find('}'));
        let Some(end) = end else {
            return Err(TextError::invalid("`${` is not closed"));
        };
        let name = self.rest[..end].trim().to_owned();
        let called = self.rest[end..].starts_with('(');
        self.rest = &self.rest[end + 1..];
        let mut arguments = Vec::new();
        if called {
            loop {
                let (argument, end) = self.text(Context::Argument)?;
                arguments.push(argument);
                match end {
                    End::Comma => {}
                    End::Bracket => break,
                    End::Text => {
                        return Err(TextError::invalid(format!(
                            "the brackets of `{name}` are not closed"
                        )));
                    }
                }
            }
            let Some(rest) = self.rest.trim_start().strip_prefix('}') else {
                return Err(TextError::invalid(format!("`{name}(…)` is not followed by `}}`")));
            };
            self.rest = rest;
        }
        self.depth -= 1;
        // JMeter's own variables, such as the indexes of loops, start like functions.
        match name.starts_with("__") && !name.starts_with("__jm__") {
            true => functions::call(&name, &arguments, self.variables),
            false => Ok(self.variables.value(&name)),
        }
    }
}
