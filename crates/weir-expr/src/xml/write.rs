//! Writing JSON as XML.

use super::{Namespace, XmlWriting};
use crate::json_tokens::{Token, break_line, tokens};
use quick_xml::escape::escape;
use std::borrow::Cow;
use std::fmt::Write;

/// Name of elements for array items without a name.
const ITEM: &str = "item";
/// Member that is the text of its element.
const TEXT: &str = "#text";

/// Writes a valid JSON text as an XML document.
///
/// # Errors
/// The text is not valid JSON.
pub(crate) fn write(text: &str, writing: &XmlWriting) -> Result<String, serde_json::Error> {
    let mut writer = Writer {
        out: String::with_capacity(text.len() * 2),
        writing,
        elements: 0,
        attributes: attributes(text)?.into_iter(),
    };
    writer.out.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>");
    // The declaration has its own line even in compact output, like that of other XML tools.
    writer.out.push('\n');
    let mut levels: Vec<Level> = Vec::new();
    let mut key = false;
    for token in tokens(text) {
        let within_object = levels.last().is_some_and(|l| l.object);
        let name = levels.last().map_or(writing.root.as_str(), |l| l.name.as_str()).to_owned();
        match token {
            Token::OpenObject => {
                fill(&mut levels);
                let name = element_name(&name, writing);
                writer.open(&name, true);
                levels.push(Level {
                    object: true,
                    name: String::new(),
                    element: Some(name),
                    filled: false,
                });
                key = true;
            }
            Token::OpenArray => {
                // A member's array has no element itself: its items have the member's name.
                let (element, item) = if within_object {
                    (None, name)
                } else {
                    (Some(element_name(&name, writing)), ITEM.to_owned())
                };
                if let Some(element) = &element {
                    fill(&mut levels);
                    writer.open(element, false);
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
                    level.name = member;
                }
            }
            // An attribute, already written in its element's tag.
            Token::Text(_) | Token::Bare(_) if within_object && name.starts_with('@') => {}
            Token::Text(_) | Token::Bare(_) => {
                let text = scalar(token)?;
                if within_object && name == TEXT {
                    writer.characters(&text);
                } else {
                    fill(&mut levels);
                    writer.leaf(&element_name(&name, writing), &text);
                }
            }
        }
    }
    Ok(writer.out)
}

/// Whether a text is a name, with or without a prefix.
pub fn is_qualified(text: &str) -> bool {
    match text.split_once(':') {
        Some((prefix, local)) => is_name(prefix) && is_name(local),
        None => is_name(text),
    }
}

/// Whether a text is a name in XML (without colons, which belong to namespaces).
fn is_name(text: &str) -> bool {
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

/// A member's name as the name of an element or attribute.
fn element_name(text: &str, writing: &XmlWriting) -> String {
    if let Some((prefix, local)) = text.split_once(':')
        && (prefix == "xml" || writing.namespaces.iter().any(|n| n.prefix == prefix))
        && is_name(local)
    {
        return text.to_owned();
    }
    let mut name: String = text.chars().map(|c| if within_name(c) { c } else { '_' }).collect();
    if !name.starts_with(begins_name) {
        name.insert(0, '_');
    }
    name
}

/// A text, number, boolean or null as character data.
fn scalar(token: Token<'_>) -> Result<Cow<'_, str>, serde_json::Error> {
    Ok(match token {
        Token::Text(text) => Cow::Owned(serde_json::from_str(text)?),
        Token::Bare(text) if text != "null" => Cow::Borrowed(text),
        _ => Cow::Borrowed(""),
    })
}

type Attributes<'t> = Vec<(String, Cow<'t, str>)>;

/// The attributes of every object, in the order of the objects: members may have any order, and a
/// tag is written at once. Null values are left out.
fn attributes(text: &str) -> Result<Vec<Attributes<'_>>, serde_json::Error> {
    let mut found: Vec<Attributes<'_>> = Vec::new();
    // For each open object its index in `found`; none for an array.
    let mut open: Vec<Option<usize>> = Vec::new();
    let (mut key, mut member) = (false, None);
    for token in tokens(text) {
        let object = open.last().copied().flatten();
        match token {
            Token::OpenObject => {
                open.push(Some(found.len()));
                found.push(Vec::new());
                key = true;
                member = None;
            }
            Token::OpenArray => {
                open.push(None);
                member = None;
            }
            Token::Close => drop(open.pop()),
            Token::Comma => key = object.is_some(),
            Token::Colon => {}
            Token::Text(text) if key => {
                key = false;
                member = match text.starts_with("\"@") {
                    true => serde_json::from_str::<String>(text).ok(),
                    false => None,
                };
            }
            Token::Bare("null") => member = None,
            Token::Text(_) | Token::Bare(_) => {
                if let (Some(object), Some(name)) = (object, member.take()) {
                    found[object].push((name[1..].to_owned(), scalar(token)?));
                }
            }
        }
    }
    Ok(found)
}

/// An open object or array, and its element.
struct Level {
    object: bool,
    /// Name of the item elements; for an object that of the current member.
    name: String,
    /// The level has its own element, which its end closes.
    element: Option<String>,
    /// The element contains elements.
    filled: bool,
}

fn fill(levels: &mut [Level]) {
    if let Some(level) = levels.last_mut() {
        level.filled = true;
    }
}

struct Writer<'w> {
    out: String,
    writing: &'w XmlWriting,
    /// Elements open.
    elements: usize,
    attributes: std::vec::IntoIter<Attributes<'w>>,
}

impl Writer<'_> {
    fn line(&mut self) {
        if self.elements > 0 {
            break_line(&mut self.out, self.writing.indent, self.elements);
        }
    }

    /// Writes the start of a tag.
    fn tag(&mut self, name: &str) {
        self.line();
        // Writing to a String cannot fail.
        let _ = write!(self.out, "<{name}");
        if self.elements == 0 {
            for Namespace { prefix, uri } in &self.writing.namespaces {
                let _ = write!(self.out, " xmlns:{prefix}=\"{}\"", escape(uri.as_str()));
            }
        }
    }

    fn open(&mut self, name: &str, object: bool) {
        self.tag(name);
        let attributes = if object { self.attributes.next() } else { None };
        let mut written: Vec<String> = Vec::new();
        for (name, value) in attributes.unwrap_or_default() {
            let name = element_name(&name, self.writing);
            // Two members may be converted to the same name, which XML does not allow.
            if written.contains(&name) {
                continue;
            }
            let value = allowed(&value);
            // White space other than blanks would be read as blanks.
            let value = escape(value.as_ref());
            let value = value.replace('\t', "&#9;").replace('\n', "&#10;").replace('\r', "&#13;");
            let _ = write!(self.out, " {name}=\"{value}\"");
            written.push(name);
        }
        self.out.push('>');
        self.elements += 1;
    }

    fn close(&mut self, name: &str, filled: bool) {
        self.elements = self.elements.saturating_sub(1);
        if filled {
            break_line(&mut self.out, self.writing.indent, self.elements);
        }
        let _ = write!(self.out, "</{name}>");
    }

    fn leaf(&mut self, name: &str, text: &str) {
        self.tag(name);
        if text.is_empty() {
            self.out.push_str("/>");
            return;
        }
        self.out.push('>');
        self.characters(text);
        let _ = write!(self.out, "</{name}>");
    }

    fn characters(&mut self, text: &str) {
        self.out.push_str(&escape(allowed(text).as_ref()));
    }
}

/// The text with characters that XML 1.0 does not allow replaced.
fn allowed(text: &str) -> Cow<'_, str> {
    let is = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..);
    if text.chars().all(is) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.chars().map(|c| if is(c) { c } else { '\u{FFFD}' }).collect())
    }
}
