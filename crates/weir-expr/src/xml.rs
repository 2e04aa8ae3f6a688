//! Conversion between XML and JSON, by one convention in both directions.
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
//! An element with neither attributes nor child elements is its text, or `null` if empty. Any other
//! element is an object: attributes are members with the prefix `@`, elements are members, elements
//! of the same name form an array at the position of the first, and text next to them is `#text`,
//! without surrounding white space. A document is an object with the root element as its only
//! member. Writing applies the same rules in reverse. Comments and processing instructions are
//! skipped.
//!
//! JSON from other sources is written without errors. A name that is not an XML name is converted:
//! each invalid character becomes `_`, and a name with an invalid first character gets the prefix
//! `_`. Items of arrays that are not the value of a member (the root's, or nested arrays) are
//! `item` elements. Control characters, which XML 1.0 does not allow, become U+FFFD.
//!
//! Namespace declarations are not members. Without `namespaces`, names are as written in the
//! document, including the prefix. With `namespaces`, an element of a namespace with a configured
//! prefix is `prefix:name`, whatever prefix the document uses; an element of another namespace is
//! `{uri}name`, and one without a namespace is `name`. Written XML uses the configured prefixes
//! only, and the root element declares all of them.

mod read;
mod text;
mod write;

pub use read::XmlError;
pub use write::is_qualified;
pub(crate) use write::write;

/// A namespace and its prefix in configurations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Never empty, `xml` or `xmlns`.
    pub prefix: String,
    /// Compared byte by byte.
    pub uri: String,
}

/// Settings for reading XML as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XmlReading {
    /// Prefixes of names, whatever prefixes the document uses.
    pub namespaces: Vec<Namespace>,
    /// Names of elements that are always arrays, even if there is only one.
    pub arrays: Vec<String>,
    /// Texts that are JSON numbers, `true` or `false` are read as these.
    pub typed: bool,
}

/// Settings for writing JSON as XML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XmlWriting {
    /// Name of the root element.
    pub root: String,
    /// Prefixes that names may use.
    pub namespaces: Vec<Namespace>,
    /// Content-Type value.
    pub content_type: String,
    /// Spaces per level; 0 is compact.
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
