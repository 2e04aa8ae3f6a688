//! Reading XML as JSON.

use super::{XmlReading, is_qualified, text};
use quick_xml::NsReader;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::{PrefixDeclaration, QName, ResolveResult};
use std::collections::HashMap;

/// Maximum nesting of elements.
const DEPTH: usize = 100;
/// Maximum ratio of the JSON's length to the document's: names with long namespaces make it grow.
const GROWTH: usize = 16;
/// Additional length for short documents.
const ALLOWANCE: usize = 4096;

/// Why a document cannot be read. The messages quote only names of encodings and entities.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum XmlError {
    /// Unknown encoding.
    #[error("unknown encoding `{0}`")]
    Encoding(String),
    /// The document does not have its declared encoding.
    #[error("the document is not {0}")]
    NotIn(&'static str),
    /// The document is not well-formed: the fault and its byte offset.
    #[error("{what} at byte {at}")]
    Malformed {
        /// The fault.
        what: &'static str,
        /// Offset in the text as UTF-8.
        at: u64,
    },
    /// The document has a document type declaration, which is rarely needed and often an attack.
    #[error("DOCTYPE is not supported")]
    Doctype,
    /// The document uses an entity that is not one of XML's predefined five.
    #[error("unknown entity `{0}`")]
    Entity(String),
    /// The elements are nested too deeply.
    #[error("elements are nested deeper than {DEPTH}")]
    Deep,
    /// The JSON would be many times as long as the document.
    #[error("the names are too long for the content")]
    Growth,
}

#[derive(Default)]
struct Element {
    name: String,
    attributes: Vec<(String, String)>,
    elements: Vec<Element>,
    text: String,
    /// White space in its text is preserved (`xml:space="preserve"`).
    preserves: bool,
}

impl Element {
    /// Length of its own names in bytes.
    fn names(&self) -> usize {
        self.name.len() + self.attributes.iter().map(|(name, _)| name.len()).sum::<usize>()
    }
}

impl XmlReading {
    /// Appends a document to `out` as JSON. `charset` is that of its content type.
    ///
    /// # Errors
    /// The document is not well-formed, or not accepted. `out` may contain a part of it.
    pub fn read(
        &self,
        bytes: &[u8],
        charset: Option<&str>,
        out: &mut Vec<u8>,
    ) -> Result<(), XmlError> {
        let text = text::decode(bytes, charset)?;
        // A namespace is declared once, but repeated in every name: in the tree, and in the output.
        let most = text.len().saturating_mul(GROWTH).saturating_add(ALLOWANCE);
        let root = self.tree(&text, most)?;
        let most = most.saturating_add(out.len());
        let mut writer = Writer { reading: self, out, most };
        writer.out.push(b'{');
        writer.member(&root.name, true)?;
        writer.element(&root)?;
        writer.out.push(b'}');
        Ok(())
    }

    fn tree(&self, text: &str, most: usize) -> Result<Element, XmlError> {
        let mut reader = NsReader::from_str(text);
        reader.config_mut().check_end_names = true;
        let mut open: Vec<Element> = Vec::new();
        let (mut root, mut names) = (None, 0);
        loop {
            let at = reader.buffer_position();
            let malformed = |what| XmlError::Malformed { what, at };
            let event = reader.read_event().map_err(|error| XmlError::Malformed {
                what: what_is_wrong(&error),
                at: reader.error_position(),
            })?;
            match event {
                Event::Start(_) | Event::Empty(_) if open.is_empty() && root.is_some() => {
                    return Err(malformed("second root element"));
                }
                Event::Start(start) => {
                    if open.len() == DEPTH {
                        return Err(XmlError::Deep);
                    }
                    let preserves = open.last().is_some_and(|parent| parent.preserves);
                    let element = self.start_element(&reader, &start, preserves, at)?;
                    names += element.names();
                    open.push(element);
                }
                Event::Empty(start) => {
                    let element = self.start_element(&reader, &start, false, at)?;
                    names += element.names();
                    put(element, &mut open, &mut root);
                }
                Event::End(_) => {
                    // An end tag without a start tag is an error of the parser.
                    if let Some(element) = open.pop() {
                        put(element, &mut open, &mut root);
                    }
                }
                Event::Text(text) => say(&mut open, &text.xml10_content(), at)?,
                Event::CData(text) => say(&mut open, &text.xml10_content(), at)?,
                Event::GeneralRef(entity) => {
                    let character = entity
                        .resolve_char_ref()
                        .map_err(|_| malformed("invalid character reference"))?;
                    match character {
                        Some(character) => say(&mut open, character.encode_utf8(&mut [0; 4]), at)?,
                        None => {
                            let Some(text) = quick_xml::escape::resolve_xml_entity(&entity) else {
                                return Err(XmlError::Entity(entity.chars().take(40).collect()));
                            };
                            say(&mut open, text, at)?;
                        }
                    }
                }
                Event::DocType(_) => return Err(XmlError::Doctype),
                Event::Decl(_) | Event::Comment(_) | Event::PI(_) => {}
                Event::Eof if !open.is_empty() => {
                    return Err(malformed("unexpected end within an element"));
                }
                Event::Eof => return root.ok_or(malformed("no root element")),
            }
            if names > most {
                return Err(XmlError::Growth);
            }
        }
    }

    /// An element with its attributes.
    fn start_element(
        &self,
        reader: &NsReader<&[u8]>,
        start: &BytesStart<'_>,
        preserves: bool,
        at: u64,
    ) -> Result<Element, XmlError> {
        let malformed = |what| XmlError::Malformed { what, at };
        let resolver = reader.resolver();
        let (namespace, _) = resolver.resolve_element(start.name());
        let mut element = Element {
            name: self.name(start.name(), &namespace).map_err(malformed)?,
            preserves,
            ..Element::default()
        };
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|_| malformed("malformed attribute"))?;
            if attribute.key.as_namespace_binding().is_some_and(|binding| {
                matches!(binding, PrefixDeclaration::Default | PrefixDeclaration::Named(_))
            }) {
                continue;
            }
            let value = attribute
                .normalized_value(quick_xml::XmlVersion::Implicit1_0)
                .map_err(|_| malformed("malformed attribute"))?;
            if attribute.key.as_ref() == "xml:space" {
                element.preserves = value == "preserve";
            }
            let (namespace, _) = resolver.resolve_attribute(attribute.key);
            let name = self.name(attribute.key, &namespace).map_err(malformed)?;
            element.attributes.push((name, value.into_owned()));
        }
        Ok(element)
    }

    /// The member name of an element or attribute.
    fn name(&self, name: QName<'_>, namespace: &ResolveResult<'_>) -> Result<String, &'static str> {
        let written = name.as_ref();
        if !is_qualified(written) {
            return Err("invalid name");
        }
        let bound = match namespace {
            ResolveResult::Unknown(_) if !written.starts_with("xml:") => {
                return Err("undeclared namespace prefix");
            }
            ResolveResult::Bound(bound) if !self.namespaces.is_empty() => bound.as_ref(),
            _ => return Ok(written.to_owned()),
        };
        let (local, known) =
            (name.local_name(), self.namespaces.iter().find(|known| known.uri == bound));
        Ok(match known {
            Some(known) => format!("{}:{}", known.prefix, local.as_ref()),
            None if written.starts_with("xml:") => written.to_owned(),
            None => format!("{{{bound}}}{}", local.as_ref()),
        })
    }
}

fn put(element: Element, open: &mut [Element], root: &mut Option<Element>) {
    match open.last_mut() {
        Some(parent) => parent.elements.push(element),
        None => *root = Some(element),
    }
}

fn say(open: &mut [Element], text: &str, at: u64) -> Result<(), XmlError> {
    match open.last_mut() {
        Some(element) => element.text.push_str(text),
        None if text.trim().is_empty() => {}
        None => return Err(XmlError::Malformed { what: "text outside of elements", at }),
    }
    Ok(())
}

/// The parser's error, without quoting the document.
fn what_is_wrong(error: &quick_xml::Error) -> &'static str {
    match error {
        quick_xml::Error::Syntax(_) => "unclosed markup",
        quick_xml::Error::IllFormed(_) => "mismatched start and end tags",
        quick_xml::Error::InvalidAttr(_) => "malformed attribute",
        quick_xml::Error::Namespace(_) => "malformed namespace declaration",
        quick_xml::Error::Escape(_) => "malformed reference",
        _ => "malformed document",
    }
}

struct Writer<'w> {
    reading: &'w XmlReading,
    out: &'w mut Vec<u8>,
    most: usize,
}

impl Writer<'_> {
    fn element(&mut self, element: &Element) -> Result<(), XmlError> {
        if element.attributes.is_empty() && element.elements.is_empty() {
            match element.text.is_empty() {
                true => self.out.extend_from_slice(b"null"),
                false => self.value(&element.text),
            }
            return Ok(());
        }
        self.out.push(b'{');
        let mut first = true;
        for (name, value) in &element.attributes {
            self.member(&format!("@{name}"), std::mem::take(&mut first))?;
            self.value(value);
        }
        // Ordered by the first element of each name.
        let mut groups: Vec<(&str, Vec<&Element>)> = Vec::new();
        let mut places: HashMap<&str, usize> = HashMap::new();
        for child in &element.elements {
            let place = *places.entry(&child.name).or_insert_with(|| {
                groups.push((&child.name, Vec::new()));
                groups.len() - 1
            });
            groups[place].1.push(child);
        }
        for (name, group) in groups {
            self.member(name, std::mem::take(&mut first))?;
            match group.as_slice() {
                [one] if !self.reading.arrays.iter().any(|array| array == name) => {
                    self.element(one)?;
                }
                all => {
                    self.out.push(b'[');
                    for (i, one) in all.iter().enumerate() {
                        if i > 0 {
                            self.out.push(b',');
                        }
                        self.element(one)?;
                    }
                    self.out.push(b']');
                }
            }
        }
        let text = match element.preserves {
            true => element.text.as_str(),
            false => element.text.trim_matches([' ', '\t', '\r', '\n']),
        };
        if !text.is_empty() {
            self.member("#text", first)?;
            self.value(text);
        }
        self.out.push(b'}');
        Ok(())
    }

    fn member(&mut self, name: &str, first: bool) -> Result<(), XmlError> {
        if self.out.len() > self.most {
            return Err(XmlError::Growth);
        }
        if !first {
            self.out.push(b',');
        }
        self.string(name);
        self.out.push(b':');
        Ok(())
    }

    fn value(&mut self, text: &str) {
        let plain = text.trim_matches([' ', '\t', '\r', '\n']);
        if self.reading.typed && is_number_or_boolean(plain) {
            self.out.extend_from_slice(plain.as_bytes());
        } else {
            self.string(text);
        }
    }

    fn string(&mut self, text: &str) {
        // Writing a string to a Vec cannot fail.
        let _ = serde_json::to_writer(&mut *self.out, text);
    }
}

/// Whether a text is `true`, `false` or a number as JSON writes it (RFC 8259 section 6).
fn is_number_or_boolean(text: &str) -> bool {
    matches!(text, "true" | "false")
        || (text.starts_with(|c: char| c == '-' || c.is_ascii_digit())
            && serde_json::from_str::<&serde_json::value::RawValue>(text).is_ok())
}
