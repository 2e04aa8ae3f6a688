//! A tree of XML, or of HTML as browsers read it.

use super::scan::check_html;
use quick_xml::NsReader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::ResolveResult;

/// Most nodes of a document.
const MAX_NODES: usize = 1_000_000;
/// Deepest nesting of elements.
const MAX_DEPTH: usize = 1_000;

/// A document: nodes in their order; the first one is the root.
#[derive(Debug, Default)]
pub(super) struct Document {
    pub(super) nodes: Vec<Node>,
}

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) parent: Option<usize>,
    pub(super) children: Vec<usize>,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    Root,
    Element { name: Name, attributes: Vec<(Name, String)> },
    Text(String),
    Comment(String),
}

/// A name with its namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) prefix: String,
    pub(super) local: String,
    pub(super) namespace: String,
}

impl Document {
    fn new() -> Self {
        let root = Node { parent: None, children: Vec::new(), kind: Kind::Root };
        Self { nodes: vec![root] }
    }

    fn add(&mut self, parent: usize, kind: Kind) -> Result<usize, String> {
        if self.nodes.len() >= MAX_NODES {
            return Err(format!("a document has at most {MAX_NODES} nodes"));
        }
        self.nodes.push(Node { parent: Some(parent), children: Vec::new(), kind });
        let at = self.nodes.len() - 1;
        self.nodes[parent].children.push(at);
        Ok(at)
    }

    /// Adds text; neighbouring texts are one.
    fn text(&mut self, parent: usize, text: &str) -> Result<(), String> {
        if let Some(last) = self.nodes[parent].children.last().copied()
            && let Kind::Text(before) = &mut self.nodes[last].kind
        {
            before.push_str(text);
            return Ok(());
        }
        if !text.is_empty() {
            self.add(parent, Kind::Text(text.to_owned()))?;
        }
        Ok(())
    }

    /// Reads XML.
    ///
    /// # Errors
    /// The text is not well-formed, or too large.
    pub(super) fn xml(text: &str) -> Result<Self, String> {
        let mut reader = NsReader::from_str(text);
        reader.config_mut().check_end_names = true;
        let mut document = Self::new();
        let mut open = vec![0];
        loop {
            let (namespace, event) =
                reader.read_resolved_event().map_err(|error| error.to_string())?;
            let namespace = namespace_of(&namespace);
            let parent = open.last().copied().unwrap_or(0);
            match event {
                Event::Start(start) => {
                    let kind = element(&reader, &namespace?, &start)?;
                    if open.len() > MAX_DEPTH {
                        return Err(format!("elements are nested deeper than {MAX_DEPTH}"));
                    }
                    if parent == 0 && document.has_element() {
                        return Err("a second root element".to_owned());
                    }
                    open.push(document.add(parent, kind)?);
                }
                Event::Empty(start) => {
                    let kind = element(&reader, &namespace?, &start)?;
                    if parent == 0 && document.has_element() {
                        return Err("a second root element".to_owned());
                    }
                    document.add(parent, kind)?;
                }
                Event::End(_) => drop(open.pop()),
                Event::Text(text) => document.characters(parent, &text.xml10_content())?,
                Event::CData(text) => document.characters(parent, &text.xml10_content())?,
                Event::Comment(comment) => {
                    document.add(parent, Kind::Comment(comment.xml10_content().into_owned()))?;
                }
                Event::GeneralRef(reference) => {
                    let character =
                        reference.resolve_char_ref().map_err(|error| error.to_string())?;
                    match character {
                        Some(character) => {
                            document.characters(parent, character.encode_utf8(&mut [0; 4]))?;
                        }
                        None => {
                            let name = reference.xml10_content();
                            let text = resolve_predefined_entity(&name)
                                .ok_or_else(|| format!("the entity `{name}` is not declared"))?;
                            document.characters(parent, text)?;
                        }
                    }
                }
                Event::Decl(_) | Event::PI(_) | Event::DocType(_) => {}
                Event::Eof => break,
            }
        }
        match (open.len(), document.has_element()) {
            (1, true) => Ok(document),
            (1, false) => Err("there is no root element".to_owned()),
            _ => Err("the document ends within an element".to_owned()),
        }
    }

    fn characters(&mut self, parent: usize, text: &str) -> Result<(), String> {
        match parent {
            0 if text.trim().is_empty() => Ok(()),
            0 => Err("text is outside of the root element".to_owned()),
            parent => self.text(parent, text),
        }
    }

    fn has_element(&self) -> bool {
        let mut children = self.nodes[0].children.iter();
        children.any(|child| matches!(self.nodes[*child].kind, Kind::Element { .. }))
    }

    /// Reads HTML, whatever it is.
    ///
    /// # Errors
    /// The document is too large.
    pub(super) fn html(text: &str) -> Result<Self, String> {
        check_html(text)?;
        let parsed = scraper::Html::parse_document(text);
        let mut document = Self::new();
        let mut open: Vec<_> = parsed.tree.root().children().rev().map(|node| (0, node)).collect();
        while let Some((parent, node)) = open.pop() {
            match node.value() {
                scraper::Node::Element(element) => {
                    let name = |local: &str| Name { local: local.to_owned(), ..Name::default() };
                    let attributes =
                        element.attrs().map(|(key, value)| (name(key), value.to_owned())).collect();
                    let kind = Kind::Element { name: name(element.name()), attributes };
                    let at = document.add(parent, kind)?;
                    open.extend(node.children().rev().map(|child| (at, child)));
                }
                scraper::Node::Text(text) => document.text(parent, text)?,
                scraper::Node::Comment(comment) => {
                    document.add(parent, Kind::Comment(comment.to_string()))?;
                }
                _ => {}
            }
        }
        Ok(document)
    }

    /// The text inside a node. Each visited node and each 64 bytes are a visit; `None` without a
    /// further one.
    pub(super) fn string(&self, node: usize, visits: &mut usize) -> Option<String> {
        let mut out = String::new();
        let mut open = vec![node];
        while let Some(at) = open.pop() {
            let bytes = match &self.nodes[at].kind {
                Kind::Text(text) => text.len(),
                _ => 0,
            };
            *visits = visits.checked_sub(1 + bytes / 64)?;
            match &self.nodes[at].kind {
                Kind::Text(text) => out.push_str(text),
                Kind::Comment(text) if at == node => out.push_str(text),
                _ => open.extend(self.nodes[at].children.iter().rev()),
            }
        }
        Some(out)
    }
}

fn namespace_of(result: &ResolveResult<'_>) -> Result<String, String> {
    match result {
        ResolveResult::Bound(namespace) => Ok(namespace.0.to_owned()),
        ResolveResult::Unbound => Ok(String::new()),
        ResolveResult::Unknown(prefix) => {
            Err(format!("the prefix `{}` is not bound", prefix.clone()))
        }
    }
}

fn name(written: &str, namespace: String) -> Name {
    let (prefix, local) = written.split_once(':').unwrap_or(("", written));
    Name { prefix: prefix.to_owned(), local: local.to_owned(), namespace }
}

fn element(
    reader: &NsReader<&[u8]>,
    namespace: &str,
    start: &BytesStart<'_>,
) -> Result<Kind, String> {
    let mut attributes = Vec::new();
    for attribute in start.attributes() {
        let attribute = attribute.map_err(|error| error.to_string())?;
        let value = attribute.normalized_value(quick_xml::XmlVersion::Implicit1_0);
        let value = value.map_err(|error| error.to_string())?.into_owned();
        let key = attribute.key.0;
        if key == "xmlns" || key.starts_with("xmlns:") {
            continue;
        }
        let (resolved, _) = reader.resolver().resolve_attribute(attribute.key);
        attributes.push((name(key, namespace_of(&resolved)?), value));
    }
    let written = start.name();
    Ok(Kind::Element { name: name(written.0, namespace.to_owned()), attributes })
}

/// Checks that a text is well-formed XML.
///
/// # Errors
/// The text is none.
pub(crate) fn check_xml(text: &str) -> Result<(), String> {
    Document::xml(text).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xml_is_read_or_rejected() {
        let text = "<?xml version='1.0'?><!--c--><a x='1'><b>t&amp;u</b><![CDATA[<v>]]><c/></a>\n";
        let document = Document::xml(text).expect("XML");
        assert_eq!(document.string(0, &mut 100).as_deref(), Some("t&u<v>"));
        for wrong in ["", "<a>", "<a></b>", "x", "<a/>x", "<a/><b/>", "<a>&nope;</a>", "<p:a/>"] {
            assert!(check_xml(wrong).is_err(), "{wrong}");
        }
        assert!(check_xml(&"<a>".repeat(100_000)).is_err());
        let html = Document::html("<p>One<p>Two").expect("HTML");
        assert_eq!(html.string(0, &mut 100).as_deref(), Some("OneTwo"));
        assert_eq!(html.string(0, &mut 3), None);
    }
}
