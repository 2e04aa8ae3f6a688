//! Texts of a plan: characters with `${variable}` and `${__function(arguments)}`.
//!
//! As in JMeter, a backslash escapes `$`, `,` and `\`, but only in a text with a variable or
//! function.

use super::functions;
use super::variables::Variables;
use crate::program::{Text, TextPart};

/// Deepest nesting of functions.
const MAX_DEPTH: usize = 32;
/// Deepest nesting of brackets, also of JSON and scripts, of a text in which names are searched.
const MAX_NESTING: usize = 1000;
/// Bytes of arguments in which names are searched.
const MAX_ARGUMENTS_BYTES: usize = 64 * 1024;

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

/// A variable or function in a text.
pub(super) struct Reference<'t> {
    /// Its name.
    pub(super) name: &'t str,
    /// The arguments of a function as written.
    pub(super) arguments: Option<Vec<&'t str>>,
}

/// All variables and functions in a text, also those in arguments. None of a text that is nested too deeply to be
/// parsed: of each of its brackets the rest would be read.
pub(super) fn references(text: &str) -> impl Iterator<Item = Reference<'_>> {
    let reference = |(at, _): (usize, &'_ str)| {
        let rest = &text[at + 2..];
        let end = rest.find(['}', '(']).unwrap_or(rest.len());
        let name = rest[..end].trim();
        if !name.starts_with("__") || name.starts_with("__jm__") {
            let end = rest.find('}').unwrap_or(rest.len());
            return Reference { name: &rest[..end], arguments: None };
        }
        let inside = rest.get(end..).and_then(|rest| rest.strip_prefix('('));
        let arguments = inside.map_or_else(Vec::new, arguments_of);
        Reference { name, arguments: Some(arguments) }
    };
    let text = if nesting(text) > MAX_NESTING { "" } else { text };
    text.match_indices("${").map(reference)
}

/// The largest number of curly brackets that are open at the same time.
fn nesting(text: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for (_, found) in text.match_indices(['{', '}']) {
        open = if found == "{" { open + 1 } else { open.saturating_sub(1) };
        most = most.max(open);
    }
    most
}

/// Splits the arguments before the closing bracket. Without one, they end after [`MAX_ARGUMENTS_BYTES`]: a text of
/// many unclosed brackets is not read to its end for each of them.
fn arguments_of(text: &str) -> Vec<&str> {
    let (mut start, mut references, mut brackets) = (0, 0_usize, 0_usize);
    let mut arguments = Vec::new();
    let mut characters = text.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        if at > MAX_ARGUMENTS_BYTES {
            arguments.push(&text[start..at]);
            return arguments;
        }
        match character {
            '\\' => drop(characters.next()),
            '$' if matches!(characters.peek(), Some((_, '{'))) => references += 1,
            '}' => references = references.saturating_sub(1),
            '(' if references == 0 => brackets += 1,
            ')' if references == 0 && brackets == 0 => {
                arguments.push(&text[start..at]);
                return arguments;
            }
            ')' if references == 0 => brackets -= 1,
            ',' if references == 0 => {
                arguments.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    arguments.push(&text[start..]);
    arguments
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
            // JMeter takes the rest as it is, without `${`.
            self.depth -= 1;
            return Ok(Text::fixed(std::mem::take(&mut self.rest).replace('\\', "")));
        };
        let called = self.rest[end..].starts_with('(');
        let name = self.rest[..end].replace('\\', "");
        // `${ name }` with blanks is another variable in JMeter.
        let name = if called { name.trim().to_owned() } else { name };
        let written = self.rest;
        let before = self.variables.functions.len();
        self.rest = &self.rest[end + 1..];
        let mut arguments = Vec::new();
        if called {
            loop {
                let (argument, end) = self.text(Context::Argument)?;
                // `f()` has no argument.
                if !(end == End::Bracket && arguments.is_empty() && argument.is_empty()) {
                    arguments.push(argument);
                }
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
            true => match functions::call(&name, &arguments, self.variables) {
                // JMeter itself evaluates it, with the functions in its arguments.
                Err(TextError { skippable: true, .. }) if self.variables.scripts.is_some() => {
                    let length = written.len() - self.rest.len();
                    self.variables.functions.truncate(before);
                    Ok(self.variables.function(&format!("${{{}", &written[..length])))
                }
                result => result,
            },
            false => Ok(self.variables.value(&name)),
        }
    }
}
