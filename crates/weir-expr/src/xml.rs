//! XML and JSON: one convention, both ways.
//!
//! ```text
//! <order id="7">             {"order": {
//!   <item>a</item>              "@id": "7",
//!   <item>b</item>              "item": ["a", "b"],
//!   <note lang="en">x</note>    "note": {"@lang": "en", "#text": "x"},
//!   <gift/>                     "gift": null
//! </order>                    }}
//! ```
//!
//! An element that has neither attributes nor elements in it is its text, `null` if it has none;
//! any other is an object: attributes are members with `@` in front, elements are members, those of
//! the same name one array at the place of the first, and text beside them is `#text`, without white
//! space around it. A document is an object with the root element as its one member. Written, each
//! rule holds the other way round. Comments and processing instructions are skipped.
//!
//! JSON that came from elsewhere is written without error: a name that is no XML name is made one
//! (each character that cannot stand in it becomes `_`, and one that cannot begin with what it begins
//! with gets a `_` in front), items of arrays that are no member's value (the root's, or an array's
//! within an array) are `item` elements, and control characters, which XML 1.0 does not have, become
//! U+FFFD.
//!
//! Declarations of namespaces are no members. Without `namespaces`, names are as they are written in
//! the document, prefix and all. With them, an element of a namespace that has a prefix there is
//! `prefix:name` whatever prefix the document uses, one of another namespace is `{uri}name`, and one of
//! none is `name`. When XML is written, names have these prefixes only, all of which are declared by
//! the root element.

mod read;
mod text;
mod write;

pub use read::XmlError;
pub use write::is_qualified;
pub(crate) use write::write;

/// A namespace and the prefix that stands for it in configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Never empty, `xml` or `xmlns`.
    pub prefix: String,
    /// Compared byte by byte.
    pub uri: String,
}

/// How XML is read as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XmlReading {
    /// Prefixes that names have, whatever those of the document are.
    pub namespaces: Vec<Namespace>,
    /// Names of elements that are arrays even if there is only one.
    pub arrays: Vec<String>,
    /// Texts that are JSON numbers, `true` or `false` are read as these.
    pub typed: bool,
}

/// How JSON is written as XML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmlWriting {
    /// Name of the root element.
    pub root: String,
    /// Prefixes that names may have.
    pub namespaces: Vec<Namespace>,
    /// Content-Type value.
    pub content_type: String,
    /// Spaces a level; 0 is compact.
    pub indent: usize,
}

/// Whether a body of this content type is XML (RFC 7303).
pub fn is_xml(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let essence = essence.to_ascii_lowercase();
    matches!(essence.as_str(), "application/xml" | "text/xml")
        || (essence.contains('/') && essence.ends_with("+xml"))
}

#[cfg(test)]
mod tests;
