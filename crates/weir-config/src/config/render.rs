//! Rendering JSON texts in the formats a reply offers.
//!
//! Both formats are written from the text's own tokens: member order and the digits of numbers
//! stay, and nothing recurses.
//!
//! XML follows one convention. The value stands in the root element. A member becomes an element
//! of its name; a member whose value is an array becomes one element for each item; items of an
//! array that is no member's value (the root's, or an array's within an array) become `item`
//! elements. Texts, numbers and booleans are character data, null is an empty element. A name
//! that is no XML name is made one: each character that cannot stand in it becomes `_`, and one
//! that cannot begin with what it begins with gets a `_` in front. Control characters, which XML
//! 1.0 does not have, become U+FFFD.

use super::Format;
use quick_xml::escape::escape;
use serde_json::value::RawValue;

/// Elements of arrays that have no name of their own.
const ITEM: &str = "item";

impl Format {
    /// Content-Type value.
    pub fn content_type(&self) -> &'static str {
        match self {
            Self::Json { .. } => "application/json",
            Self::Xml { .. } => "application/xml",
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
            Self::Xml { root, indent } => xml(text, root, *indent)?.into_bytes(),
        })
    }
}

/// Whether a text is a name in XML (without colons, which belong to name spaces).
pub(crate) fn is_xml_name(text: &str) -> bool {
    text.starts_with(begins_name) && text.chars().all(within_name)
}

/// NameStartChar of XML 1.0 section 2.3, without the colon.
fn begins_name(c: char) -> bool {
    matches!(c, 'A'..='Z' | '_' | 'a'..='z' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}'
        | '\u{F8}'..='\u{2FF}' | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}'
        | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}'
        | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}'
        | '\u{10000}'..='\u{EFFFF}')
}

/// NameChar of XML 1.0 section 2.3, without the colon.
fn within_name(c: char) -> bool {
    begins_name(c)
        || matches!(c, '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}'
            | '\u{203F}'..='\u{2040}')
}

fn xml_name(text: &str) -> String {
    let mut name: String = text.chars().map(|c| if within_name(c) { c } else { '_' }).collect();
    if !name.starts_with(begins_name) {
        name.insert(0, '_');
    }
    name
}

/// What a JSON text is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token<'t> {
    OpenObject,
    OpenArray,
    Close,
    Comma,
    Colon,
    /// With its quotes.
    Text(&'t str),
    /// A number, `true`, `false` or `null`.
    Bare(&'t str),
}

/// The tokens of a valid JSON text.
fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while bytes.get(at).is_some_and(|b| b" \t\r\n".contains(b)) {
            at += 1;
        }
        let start = at;
        at += 1;
        Some(match bytes.get(start)? {
            b'{' => Token::OpenObject,
            b'[' => Token::OpenArray,
            b'}' | b']' => Token::Close,
            b',' => Token::Comma,
            b':' => Token::Colon,
            b'"' => {
                while bytes.get(at).is_some_and(|b| *b != b'"') {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
                Token::Text(text.get(start..at)?)
            }
            _ => {
                while bytes.get(at).is_some_and(|b| !b" \t\r\n,:]}".contains(b)) {
                    at += 1;
                }
                Token::Bare(text.get(start..at)?)
            }
        })
    })
}

fn break_line(out: &mut String, indent: usize, depth: usize) {
    if indent > 0 {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent * depth));
    }
}

/// JSON with `indent` spaces a level; without white space when that is 0.
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

/// An open object or array and the element it stands in.
struct Level {
    object: bool,
    /// Name of the elements of its items; for an object that of the member at hand.
    name: String,
    /// It has an element of its own, which its end closes.
    element: Option<String>,
    /// Something stands in it.
    filled: bool,
}

fn xml(text: &str, root: &str, indent: usize) -> Result<String, serde_json::Error> {
    let mut out = String::with_capacity(text.len() * 2);
    out.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>");
    // Also compact, the declaration has a line of its own: that is what XML tools print.
    out.push('\n');
    let mut writer = Xml { out, indent, elements: 0 };
    let mut levels: Vec<Level> = Vec::new();
    let mut key = false;
    for token in tokens(text) {
        let within_object = levels.last().is_some_and(|l| l.object);
        let name = levels.last().map_or(root, |l| l.name.as_str()).to_owned();
        match token {
            Token::OpenObject => {
                fill(&mut levels);
                writer.open(&name);
                levels.push(Level {
                    object: true,
                    name: String::new(),
                    element: Some(name),
                    filled: false,
                });
                key = true;
            }
            Token::OpenArray => {
                // A member's array has no element of its own: its items have the member's name.
                let (element, item) =
                    if within_object { (None, name) } else { (Some(name), ITEM.to_owned()) };
                if let Some(element) = &element {
                    fill(&mut levels);
                    writer.open(element);
                }
                levels.push(Level { object: false, name: item, element, filled: false });
            }
            Token::Close => {
                let Some(level) = levels.pop() else { continue };
                match level.element {
                    Some(element) => writer.close(&element, level.filled),
                    None if level.filled => fill(&mut levels),
                    None => {}
                }
            }
            Token::Comma => key = within_object,
            Token::Colon => {}
            Token::Text(text) if key => {
                key = false;
                let member: String = serde_json::from_str(text)?;
                if let Some(level) = levels.last_mut() {
                    level.name = xml_name(&member);
                }
            }
            Token::Text(text) => {
                fill(&mut levels);
                writer.leaf(&name, &serde_json::from_str::<String>(text)?);
            }
            Token::Bare(text) => {
                fill(&mut levels);
                writer.leaf(&name, if text == "null" { "" } else { text });
            }
        }
    }
    Ok(writer.out)
}

fn fill(levels: &mut [Level]) {
    if let Some(level) = levels.last_mut() {
        level.filled = true;
    }
}

struct Xml {
    out: String,
    indent: usize,
    /// Elements open.
    elements: usize,
}

impl Xml {
    fn line(&mut self) {
        if self.elements > 0 {
            break_line(&mut self.out, self.indent, self.elements);
        }
    }

    fn open(&mut self, name: &str) {
        self.line();
        self.out.push('<');
        self.out.push_str(name);
        self.out.push('>');
        self.elements += 1;
    }

    fn close(&mut self, name: &str, filled: bool) {
        self.elements = self.elements.saturating_sub(1);
        if filled {
            break_line(&mut self.out, self.indent, self.elements);
        }
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push('>');
    }

    fn leaf(&mut self, name: &str, text: &str) {
        self.line();
        self.out.push('<');
        self.out.push_str(name);
        if text.is_empty() {
            self.out.push_str("/>");
            return;
        }
        self.out.push('>');
        let allowed = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..);
        if text.chars().all(allowed) {
            self.out.push_str(&escape(text));
        } else {
            let text: String =
                text.chars().map(|c| if allowed(c) { c } else { '\u{FFFD}' }).collect();
            self.out.push_str(&escape(text.as_str()));
        }
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push('>');
    }
}

#[cfg(test)]
mod tests;
