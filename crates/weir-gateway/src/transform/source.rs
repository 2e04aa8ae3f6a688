//! Bodies that are parsed as JSON, by content type.

use weir_config::Sources;
use weir_expr::xml::{XmlError, XmlReading, is_xml};
use weir_http::headers::is_json;

/// Format of a body.
pub(crate) enum Source<'s> {
    /// JSON, unchanged.
    Json,
    /// XML, converted by the convention, with the charset of its content type.
    Xml(&'s XmlReading, Option<String>),
}

impl<'s> Source<'s> {
    /// The format for a content type, if it is accepted.
    pub(crate) fn of(sources: &'s Sources, content_type: Option<&[u8]>) -> Option<Self> {
        let content_type = content_type?;
        if sources.json && is_json(content_type) {
            return Some(Self::Json);
        }
        let reading = sources.xml.as_ref()?;
        let content_type = String::from_utf8_lossy(content_type);
        is_xml(&content_type).then(|| Self::Xml(reading, charset(&content_type)))
    }

    pub(crate) fn is_json(&self) -> bool {
        matches!(self, Self::Json)
    }

    /// The body as JSON. JSON is not validated here.
    pub(crate) fn json(self, body: Vec<u8>) -> Result<Vec<u8>, XmlError> {
        match self {
            Self::Json => Ok(body),
            Self::Xml(reading, charset) => {
                let mut out = Vec::with_capacity(body.len());
                reading.read(&body, charset.as_deref(), &mut out)?;
                Ok(out)
            }
        }
    }
}

/// The accepted formats, for the detail of a rejection.
pub(super) fn described(sources: &Sources) -> &'static str {
    match (sources.json, &sources.xml) {
        (true, Some(_)) => "the body must be application/json or application/xml",
        (false, Some(_)) => "the body must be application/xml",
        _ => "the body must be application/json",
    }
}

/// The charset parameter of a content type.
fn charset(content_type: &str) -> Option<String> {
    let parameters = content_type.split(';').skip(1);
    let mut pairs = parameters.filter_map(|parameter| parameter.split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    Some(value.trim().trim_matches('"').to_owned())
}
