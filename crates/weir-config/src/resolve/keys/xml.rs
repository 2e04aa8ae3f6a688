//! Keys of bodies in XML.

use crate::shape::{Form, Key, Kind, Names, Shape};

/// `from` of a map.
pub(crate) const FROM_KEY: Key = Key::new(
    "from",
    Kind::OneOrMany(&Kind::Word(&["json", "xml"])),
    "Bodies that are read, by their content type.",
)
.default("json");
/// `xml` of something that reads and writes.
pub(crate) const XML_KEY: Key =
    Key::new("xml", Kind::Object(&XML), "How XML is read, and what it looks like.");

const ROOT: Key = Key::new(
    "root",
    Kind::Form(Form::XmlName),
    "Name of the root element, with a prefix of `namespaces` if it has one.",
)
.default("response, or request");
const NAMESPACES: Key = Key::new(
    "namespaces",
    Kind::Table(Names::Name, &Kind::Text),
    "Prefixes and the namespaces that they stand for: names have these whatever the prefixes of a document are, and the root element that is written declares them.",
)
.default("names are as written, and none has a prefix");
const CONTENT_TYPE: Key = Key::new(
    "content_type",
    Kind::Form(Form::HeaderValue),
    "What written XML is sent as: `text/xml; charset=utf-8` for SOAP 1.1.",
)
.default("application/xml");

/// `xml` of a map.
pub(crate) static XML: Shape = Shape {
    slips: &[
        ("namespace", "write `namespaces: {PREFIX: URI}`"),
        ("xmlns", "write `namespaces: {PREFIX: URI}`"),
    ],
    ..Shape::new(
        "the XML of a body",
        "How XML is read as JSON and written from it. An attribute is a member with `@` in front, the text beside elements or attributes `#text`, elements of one name an array.",
        &[
            NAMESPACES,
            Key::new(
                "arrays",
                Kind::OneOrMany(&Kind::Text),
                "Names of elements that are arrays even if there is only one.",
            )
            .default("none"),
            Key::new(
                "values",
                Kind::Word(&["text", "typed"]),
                "`typed` makes numbers and booleans of texts that are such in JSON.",
            )
            .default("text"),
            ROOT,
            CONTENT_TYPE,
        ],
    )
};

/// `xml` of what is only written.
pub(crate) static XML_WRITTEN: Shape =
    Shape::new("the XML of an answer", "What XML looks like.", &[ROOT, NAMESPACES, CONTENT_TYPE]);
