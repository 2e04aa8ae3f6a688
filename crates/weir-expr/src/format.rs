//! Rendering JSON texts in the formats of a response.
//!
//! Both formats are written from the tokens of the text: the order of members and the digits of
//! numbers are preserved, and there is no recursion. [`crate::xml`] describes the XML.

use crate::json_tokens::{Token, break_line, tokens};
use crate::xml::{self, XmlWriting};
use serde_json::value::RawValue;

/// A format that a JSON text can be rendered in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// `application/json`.
    Json {
        /// Spaces per level of indentation; 0 for compact output.
        indent: usize,
    },
    /// XML.
    Xml(XmlWriting),
}

impl Format {
    /// Content-Type value.
    pub fn content_type(&self) -> &str {
        match self {
            Self::Json { .. } => "application/json",
            Self::Xml(writing) => &writing.content_type,
        }
    }

    /// Renders a JSON text.
    ///
    /// # Errors
    /// The text is not JSON.
    pub fn render(&self, json: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
        let json: &RawValue = serde_json::from_slice(json)?;
        let text = json.get();
        Ok(match self {
            Self::Json { indent } => pretty(text, *indent).into_bytes(),
            Self::Xml(writing) => xml::write(text, writing)?.into_bytes(),
        })
    }
}

/// JSON with `indent` spaces per level; without white space if 0.
fn pretty(text: &str, indent: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut closers = Vec::new();
    // An empty object or array stays on one line.
    let mut opened = false;
    for token in tokens(text) {
        if opened && token != Token::Close {
            break_line(&mut out, indent, closers.len());
        }
        let was_opened = std::mem::replace(&mut opened, false);
        match token {
            Token::OpenObject | Token::OpenArray => {
                let object = token == Token::OpenObject;
                out.push(if object { '{' } else { '[' });
                closers.push(if object { '}' } else { ']' });
                opened = true;
            }
            Token::Close => {
                let closer = closers.pop().unwrap_or('}');
                if !was_opened {
                    break_line(&mut out, indent, closers.len());
                }
                out.push(closer);
            }
            Token::Comma => {
                out.push(',');
                break_line(&mut out, indent, closers.len());
            }
            Token::Colon => out.push_str(if indent > 0 { ": " } else { ":" }),
            Token::Text(text) | Token::Bare(text) => out.push_str(text),
        }
    }
    out
}

#[cfg(test)]
mod tests;
