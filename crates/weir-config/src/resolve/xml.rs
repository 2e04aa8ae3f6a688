//! Formats of bodies that are read and written.

use super::keys;
use super::{Fields, Resolver};
use crate::config::{Format, Sources};
use crate::draft::Node;
use crate::finding::codes;
use crate::xml::{Namespace, XmlReading, XmlWriting};

impl Resolver<'_> {
    /// What a map reads, by `from` and `xml`.
    pub(super) fn sources(&mut self, fields: &Fields<'_>) -> Sources {
        let from = fields.texts("from");
        let is = |kind: &str| from.iter().any(|from| from == kind);
        let xml = fields.object("xml", &keys::XML);
        if let (Some(xml), false) = (xml, is("xml")) {
            for key in ["arrays", "values"] {
                if let Some(node) = xml.get(key) {
                    self.report
                        .warning(codes::UNUSED, node.at, "XML is not read here")
                        .help("add `from: xml`");
                }
            }
        }
        let reading = is("xml").then(|| XmlReading {
            namespaces: xml.map(|xml| self.namespaces(&xml)).unwrap_or_default(),
            arrays: xml.map(|xml| xml.texts("arrays")).unwrap_or_default(),
            typed: xml.and_then(|xml| xml.text("values")) == Some("typed"),
        });
        Sources { json: is("json") || reading.is_none(), xml: reading }
    }

    /// The formats of `as`, the preferred one first; `root` is that of XML where none is said.
    pub(super) fn formats(
        &mut self,
        fields: &Fields<'_>,
        indent: usize,
        root: &str,
    ) -> Vec<Format> {
        let mut formats = Vec::new();
        for name in fields.texts("as") {
            let format = match name.as_str() {
                "xml" => Format::Xml(self.writing(fields, indent, root)),
                _ => Format::Json { indent },
            };
            if !formats.contains(&format) {
                formats.push(format);
            }
        }
        if formats.is_empty() {
            formats.push(Format::Json { indent });
        }
        formats
    }

    fn writing(&mut self, fields: &Fields<'_>, indent: usize, root: &str) -> XmlWriting {
        let mut writing = XmlWriting {
            root: root.to_owned(),
            namespaces: Vec::new(),
            content_type: "application/xml".to_owned(),
            indent,
        };
        let Some(xml) = fields.object("xml", &keys::XML_WRITTEN) else { return writing };
        writing.namespaces = self.namespaces(&xml);
        if let Some(content_type) = xml.line("content_type") {
            content_type.clone_into(&mut writing.content_type);
        }
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
                || !crate::xml::is_qualified(prefix)
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
