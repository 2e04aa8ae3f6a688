//! The tree of a plan: elements with their properties and their line.
//!
//! In the file, an element is followed by a sibling `hashTree` with its children. A property may be
//! written as a string, a number or a boolean; all are texts here, since any property may be a
//! function.

use super::Problem;
use quick_xml::XmlVersion;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;
use std::collections::BTreeMap;

/// Deepest nesting of XML elements.
const MAX_DEPTH: usize = 256;

/// An element of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Element {
    /// Its XML name, such as `ThreadGroup`.
    pub(super) tag: String,
    /// Its attribute `testclass`, or else its XML name; without a package.
    pub(super) class: String,
    /// Its attribute `testname` (or `name`).
    pub(super) name: String,
    /// Its attribute `enabled`.
    pub(super) enabled: bool,
    /// Line of its opening tag, from 1.
    pub(super) line: u64,
    /// Byte of its opening tag in its file.
    pub(super) offset: u64,
    /// Number of the included file that has it; 0 is the plan itself.
    pub(super) file: u32,
    /// Its properties.
    pub(super) properties: Properties,
    /// Children.
    pub(super) children: Vec<Element>,
}

/// Properties by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Properties(pub(super) BTreeMap<String, Property>);

/// A property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Property {
    /// A text, number or boolean.
    Text(String),
    /// A list.
    List(Vec<Property>),
    /// An element within an element.
    Element(Properties),
}

impl Property {
    /// Its text, if it is one.
    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// Its properties, if it is an element.
    fn element(&self) -> Option<&Properties> {
        if let Self::Element(properties) = self { Some(properties) } else { None }
    }

    /// Its items, if it is a list.
    fn items(&self) -> Option<&[Property]> {
        if let Self::List(items) = self { Some(items) } else { None }
    }
}

impl Properties {
    /// The text of a property; empty if missing.
    pub(super) fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Property::text).unwrap_or_default()
    }

    /// The properties of an element within.
    pub(super) fn element(&self, name: &str) -> Option<&Properties> {
        self.0.get(name)?.element()
    }

    /// The items of a list.
    pub(super) fn items(&self, name: &str) -> &[Property] {
        self.0.get(name).and_then(Property::items).unwrap_or_default()
    }

    /// The elements of a list.
    pub(super) fn elements(&self, name: &str) -> impl Iterator<Item = &Properties> {
        self.items(name).iter().filter_map(Property::element)
    }

    /// The lists of a list.
    pub(super) fn lists(&self, name: &str) -> impl Iterator<Item = &[Property]> {
        self.items(name).iter().filter_map(Property::items)
    }

    /// The texts of a list.
    pub(super) fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        self.items(name).iter().filter_map(Property::text)
    }
}

impl Element {
    /// The text of a property; empty if missing.
    pub(super) fn text(&self, name: &str) -> &str {
        self.properties.text(name)
    }

    /// Its file and the byte of its opening tag, by which elements differ: a plan may be one line.
    pub(super) fn place(&self) -> (u32, u64) {
        (self.file, self.offset)
    }

    /// Sets the file of the element and its children.
    pub(super) fn set_file(&mut self, file: u32) {
        self.file = file;
        self.children.iter_mut().for_each(|child| child.set_file(file));
    }

    /// A copy without children.
    pub(super) fn clone_alone(&self) -> Self {
        Self {
            tag: self.tag.clone(),
            class: self.class.clone(),
            name: self.name.clone(),
            enabled: self.enabled,
            line: self.line,
            offset: self.offset,
            file: self.file,
            properties: self.properties.clone(),
            children: Vec::new(),
        }
    }

    /// Whether a property is `true`.
    pub(super) fn is(&self, name: &str) -> bool {
        self.text(name).eq_ignore_ascii_case("true")
    }
}

/// Whether a text is `true`; `default` if it is empty.
pub(super) fn is_true(text: &str, default: bool) -> bool {
    match text.trim() {
        "" => default,
        text => text.eq_ignore_ascii_case("true"),
    }
}

/// The enabled elements with enabled ancestors, each before its children.
pub(super) fn enabled(elements: &[Element]) -> Vec<&Element> {
    let mut found = Vec::new();
    for element in elements.iter().filter(|element| element.enabled) {
        found.push(element);
        found.extend(enabled(&element.children));
    }
    found
}

/// Likewise, without test fragments directly below: only elements that may be executed.
pub(super) fn reached(plan: &Element) -> Vec<&Element> {
    let is_reached = |e: &&Element| {
        e.enabled && !matches!(e.class.as_str(), "TestFragmentController" | "WorkBench")
    };
    let mut found = Vec::new();
    for element in plan.children.iter().filter(is_reached) {
        found.push(element);
        found.extend(enabled(&element.children));
    }
    found
}

/// An open XML element.
enum Open {
    /// The root or another element with pairs of element and tree.
    Tree(Vec<Element>),
    /// An element of the plan.
    Element(Element),
    /// A property: its name, and its value up to now.
    Property { name: String, value: Property },
}

/// Reads a plan: the elements below its root.
///
/// # Errors
/// Not XML, nested too deeply, or another root than `jmeterTestPlan`.
pub(super) fn read(text: &str) -> Result<Vec<Element>, Problem> {
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut lines = Lines { text, position: 0, line: 1 };
    let mut open: Vec<Open> = Vec::new();
    loop {
        let line = lines.at(reader.buffer_position());
        let event = reader.read_event();
        let fault = |problem: String| Problem::new(line, format!("not XML: {problem}"));
        match event.map_err(|error| fault(error.to_string()))? {
            Event::Start(start) => {
                if open.len() >= MAX_DEPTH {
                    return Err(Problem::new(
                        line,
                        format!("nested deeper than {MAX_DEPTH} elements"),
                    ));
                }
                // Skip white space between the last event and the tag.
                let offset = start_of(text, reader.buffer_position());
                let line = lines.at(offset);
                let frame = open_frame(&start, open.last(), (line, offset))
                    .map_err(|problem| Problem::new(line, problem))?;
                open.push(frame);
            }
            Event::End(_) => {
                let Some(frame) = open.pop() else { return Err(fault("a surplus end tag".into())) };
                match (open.last_mut(), frame) {
                    (None, Open::Tree(elements)) => return Ok(elements),
                    (None, _) => return Err(Problem::new(1, NO_PLAN)),
                    (Some(parent), frame) => close_frame(parent, frame),
                }
            }
            Event::Text(content) => add(open.last_mut(), &content.xml10_content()),
            Event::CData(content) => add(open.last_mut(), &content.xml10_content()),
            Event::GeneralRef(reference) => {
                match reference.resolve_char_ref().map_err(|error| fault(error.to_string()))? {
                    Some(character) => add(open.last_mut(), character.encode_utf8(&mut [0; 4])),
                    None => {
                        let name = reference.xml10_content();
                        let text = resolve_predefined_entity(&name)
                            .ok_or_else(|| fault(format!("unknown entity `{name}`")))?;
                        add(open.last_mut(), text);
                    }
                }
            }
            Event::Eof => return Err(Problem::new(line, "the plan is truncated")),
            Event::Empty(_)
            | Event::Comment(_)
            | Event::Decl(_)
            | Event::PI(_)
            | Event::DocType(_) => {}
        }
    }
}

const NO_PLAN: &str = "not a JMeter plan: its root is not `jmeterTestPlan`";

/// Start of the tag that ends before `end`.
fn start_of(text: &str, close_frame: u64) -> u64 {
    let close_frame = usize::try_from(close_frame).unwrap_or(text.len()).min(text.len());
    // Values of attributes cannot contain `<`.
    text.as_bytes()[..close_frame].iter().rposition(|byte| *byte == b'<').unwrap_or(close_frame)
        as u64
}

fn open_frame(
    start: &BytesStart<'_>,
    parent: Option<&Open>,
    (line, offset): (u64, u64),
) -> Result<Open, String> {
    let name = start.name();
    let tag: &str = name.0;
    let attribute = |key: &str| -> Option<String> {
        let found = start.attributes().flatten().find(|found| found.key.0 == key)?;
        found.normalized_value(XmlVersion::Implicit1_0).ok().map(Into::into)
    };
    match parent {
        None if tag == "jmeterTestPlan" => Ok(Open::Tree(Vec::new())),
        None => Err(NO_PLAN.to_owned()),
        Some(Open::Tree(_)) if tag == "hashTree" => Ok(Open::Tree(Vec::new())),
        Some(Open::Tree(_)) => {
            let class = attribute("testclass").unwrap_or_else(|| tag.to_owned());
            let class = class.rsplit('.').next().unwrap_or_default().to_owned();
            Ok(Open::Element(Element {
                tag: tag.to_owned(),
                class,
                name: attribute("testname").or_else(|| attribute("name")).unwrap_or_default(),
                enabled: attribute("enabled").is_none_or(|enabled| enabled != "false"),
                line,
                offset,
                ..Element::default()
            }))
        }
        Some(Open::Element(_) | Open::Property { .. }) => {
            let value = match tag {
                "collectionProp" => Property::List(Vec::new()),
                // The name of an element within is no property of it.
                "elementProp" => {
                    let name = attribute("testname").or_else(|| attribute("name"));
                    let name =
                        ("TestElement.name".to_owned(), Property::Text(name.unwrap_or_default()));
                    Property::Element(Properties([name].into()))
                }
                "mapProp" | "objProp" => Property::Element(Properties::default()),
                _ => Property::Text(String::new()),
            };
            Ok(Open::Property { name: attribute("name").unwrap_or_else(|| tag.to_owned()), value })
        }
    }
}

fn close_frame(parent: &mut Open, frame: Open) {
    match (parent, frame) {
        (Open::Tree(elements), Open::Element(element)) => elements.push(element),
        // The tree belongs to the previous element, except the tree of the plan itself.
        (Open::Tree(elements), Open::Tree(below)) => match elements.last_mut() {
            Some(element) => element.children.extend(below),
            None => *elements = below,
        },
        (Open::Element(element), Open::Property { name, value }) => {
            let (name, value) = named(name, value);
            element.properties.0.insert(name, value);
        }
        (Open::Property { value: Property::List(items), .. }, Open::Property { value, .. }) => {
            items.push(value);
        }
        (Open::Property { value: outer, .. }, Open::Property { name, value }) => match outer {
            Property::Element(properties) => {
                properties.0.insert(name, value);
            }
            // XStream objects (`<value><time>true</time>…`): settings of listeners.
            Property::Text(_) => *outer = Property::Element(Properties([(name, value)].into())),
            Property::List(_) => {}
        },
        _ => {}
    }
}

/// Decimal numbers have their name and value in child elements.
fn named(tag: String, value: Property) -> (String, Property) {
    match &value {
        Property::Element(parts) if matches!(tag.as_str(), "doubleProp" | "FloatProperty") => {
            let text = |name: &str| parts.text(name).trim().to_owned();
            (text("name"), Property::Text(text("value")))
        }
        _ => (tag, value),
    }
}

/// Adds characters to the open property.
fn add(open: Option<&mut Open>, characters: &str) {
    if let Some(Open::Property { value: Property::Text(text), .. }) = open {
        text.push_str(characters);
    }
}

/// Counts lines incrementally.
struct Lines<'t> {
    text: &'t str,
    position: usize,
    line: u64,
}

impl Lines<'_> {
    /// The line of a byte. Positions are requested in ascending order, except within a tag.
    fn at(&mut self, position: u64) -> u64 {
        let to = usize::try_from(position).unwrap_or(usize::MAX).min(self.text.len());
        if to < self.position {
            self.line -= newlines(&self.text.as_bytes()[to..self.position]);
        } else {
            self.line += newlines(&self.text.as_bytes()[self.position..to]);
        }
        self.position = to;
        self.line
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}
