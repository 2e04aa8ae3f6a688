//! Formats of bodies that are parsed and written.

use super::{Fields, Resolver};
use crate::config::Sources;
use crate::formats;
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::settings;
use weir_document::shape::settings::texts_of;
use weir_document::shape::{Key, Kind, Names, format};
use weir_expr::Format;
use weir_expr::xml::{Namespace, XmlReading, XmlWriting};

/// `from` of a map.
pub(super) const FROM: Key = Key::new(
    "from",
    Kind::OneOrMany(&Kind::Enum(FORMATS)),
    "Formats of bodies that are parsed, selected by content type.",
)
.default("json");

/// `xml` of a map or a `from`.
pub(super) const XML_KEY: Key =
    Key::new("xml", Kind::Object(XmlKeys::SHAPE), "XML mapping: how XML is parsed and written.");

const ROOT: Key = Key::new(
    "root",
    Kind::Format(formats::XML_NAME),
    "Name of the root element, optionally with a prefix of `namespaces`.",
)
.absent("response, or request");

const NAMESPACES: Key = Key::new(
    "namespaces",
    Kind::Table(Names::Name, &Kind::Text),
    "Namespace prefixes and their URIs. Names have these prefixes whatever prefixes a document uses, and the written root element declares them.",
)
.absent("names keep the prefixes of the document, and written names have none");

const CONTENT_TYPE: Key = Key::new(
    "content_type",
    Kind::Format(format::HEADER_VALUE),
    "Content type of written XML: `text/xml; charset=utf-8` for SOAP 1.1.",
)
.default("application/xml");

settings! {
    /// XML mapping: attributes are members with the prefix `@`, the text next to elements or
    /// attributes is `#text`, and repeated elements are an array.
    pub(super) struct XmlKeys is "the XML mapping of a body" {
        namespaces = same(NAMESPACES),
        /// Names of elements that are always arrays.
        arrays: Vec<String> = texts(Kind::OneOrMany(&Kind::Text)).absent("none"),
        /// `typed` converts texts that are JSON numbers or booleans.
        typed: bool = value(Kind::Enum(&["text", "typed"]), |node| Some(node.text()? == "typed"))
            .name("values")
            .default("text"),
        root = same(ROOT),
        content_type = same(CONTENT_TYPE),
    },
    misspellings: &[
        ("namespace", "write `namespaces: {PREFIX: URI}`"),
        ("xmlns", "write `namespaces: {PREFIX: URI}`"),
    ],
}

settings! {
    /// Format of XML output.
    pub(super) static XML_WRITTEN is "the XML output" {
        root = same(ROOT),
        namespaces = same(NAMESPACES),
        content_type = same(CONTENT_TYPE),
    }
}

/// `as`: one or more output formats.
pub(super) const fn formats_key(doc: &'static str) -> Key {
    Key::new("as", Kind::OneOrMany(&Kind::Enum(FORMATS)), doc).default("json")
}

/// Formats of bodies.
pub(super) const FORMATS: &[&str] = &["json", "xml"];

impl Resolver<'_> {
    /// Input formats of a map, by `from` and `xml`.
    pub(super) fn sources(&mut self, fields: &Fields<'_>) -> Sources {
        let from = texts_of(&fields.or_default("from")).unwrap_or_default();
        let is = |kind: &str| from.iter().any(|from| from == kind);
        let xml = fields.object("xml", XmlKeys::SHAPE);
        if let (Some(xml), false) = (xml, is("xml")) {
            for key in ["arrays", "values"] {
                if let Some(node) = xml.get(key) {
                    self.report
                        .warning(codes::UNUSED, node.at, "XML is not read here")
                        .help("add `from: xml`");
                }
            }
        }
        let reading = is("xml").then(|| {
            let xml = fields.object_or_empty("xml", XmlKeys::SHAPE);
            let XmlKeys { arrays, typed } = XmlKeys::read(&xml);
            XmlReading { namespaces: self.namespaces(&xml), arrays, typed }
        });
        Sources { json: is("json") || reading.is_none(), xml: reading }
    }

    /// Output formats of `as` in order of preference; `root` is the default root element of XML.
    pub(super) fn formats(
        &mut self,
        fields: &Fields<'_>,
        indent: usize,
        root: &str,
    ) -> Vec<Format> {
        let mut formats = Vec::new();
        for name in texts_of(&fields.or_default("as")).into_iter().flatten() {
            let format = match name.as_str() {
                "xml" => Format::Xml(self.writing(fields, indent, root)),
                _ => Format::Json { indent },
            };
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
        formats
    }

    fn writing(&mut self, fields: &Fields<'_>, indent: usize, root: &str) -> XmlWriting {
        let xml = fields.object_or_empty("xml", &XML_WRITTEN);
        let mut writing = XmlWriting {
            root: root.to_owned(),
            namespaces: self.namespaces(&xml),
            content_type: xml.line_or_default("content_type"),
            indent,
        };
        if let Some(node) = xml.get("root")
            && let Some(root) = node.text()
        {
            self.known_prefix(node, root, &writing.namespaces);
            root.clone_into(&mut writing.root);
        }
        writing
    }

    fn known_prefix(&mut self, node: &Node, name: &str, namespaces: &[Namespace]) {
        if let Some((prefix, _)) = name.split_once(':')
            && !namespaces.iter().any(|known| known.prefix == prefix)
        {
            self.report
                .error(codes::UNKNOWN_NAME, node.at, format!("unknown namespace prefix `{prefix}`"))
                .help(format!("add `namespaces: {{{prefix}: URI}}`"));
        }
    }

    fn namespaces(&mut self, xml: &Fields<'_>) -> Vec<Namespace> {
        let mut all: Vec<Namespace> = Vec::new();
        for member in xml.members("namespaces") {
            let (prefix, Some(uri)) = (&member.key, member.value.text()) else { continue };
            let fault = if prefix.to_ascii_lowercase().starts_with("xml")
                || !weir_expr::xml::is_qualified(prefix)
            {
                Some(format!("`{prefix}` is not allowed as a prefix"))
            } else if uri.trim().is_empty() {
                Some("a namespace must not be empty".to_owned())
            } else {
                let same = all.iter().find(|known| known.uri == uri);
                same.map(|same| format!("the namespace already has the prefix `{}`", same.prefix))
            };
            if let Some(message) = fault {
                self.report.error(codes::BAD_VALUE, member.at, message);
                continue;
            }
            all.push(Namespace { prefix: prefix.clone(), uri: uri.to_owned() });
        }
        all
    }
}
