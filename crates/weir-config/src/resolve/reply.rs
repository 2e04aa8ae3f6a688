//! Static responses.

use super::xml::{FROM, XML_KEY, formats_key};
use super::{Fields, Resolver};
use crate::config::{Reply, ReplyBody, Representation, Structure};
use base64::prelude::{BASE64_STANDARD, Engine};
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::settings;
use weir_document::shape::{Group, Kind, format};
use weir_expr::Format;

settings! {
    /// Static response, with at most one of `json`, `value`, `map`, `text` and `bytes`; without any
    /// of them the body is empty.
    pub(super) struct ReplyKeys is "a reply" {
        /// Status code of the response.
        status: u16 = integer(200, 599).default("200"),
        /// Headers of the response.
        headers: Vec<(String, String)> = headers(),
        /// Value that is always sent as JSON.
        json = by_hand(Kind::Json),
        /// Value in one of the formats of `as`, negotiated by the Accept header.
        value = by_hand(Kind::Json),
        /// Value mapped from the request, in one of the formats of `as`: a JSON structure whose
        /// leaves are RFC 9535 paths into the body, `{literal: …}` or `{cel: …}`.
        map = by_hand(Kind::Json),
        /// Text of the body.
        text = by_hand(Kind::Text),
        /// Body in Base64.
        bytes = by_hand(Kind::Format(format::BASE64)),
        formats = same(formats_key("Formats of `value` and `map` in order of preference.")),
        /// Spaces per level of indentation; 0 for compact output.
        indent: usize = integer(0, 16).default("0"),
        from = same(FROM),
        xml = same(XML_KEY),
    },
    short: Some("text"),
    groups: &[Group { keys: &["json", "value", "map", "text", "bytes"], required: false }],
    misspellings: &[
        ("body", "write `json`, `value`, `text` or `bytes`"),
        ("content_type", "write `headers: {content-type: …}`"),
        ("code", "write `status`"),
    ],
}

/// Statuses without a body (RFC 9110 section 15).
const BODYLESS: [u64; 3] = [204, 205, 304];
/// Message for a constant value that cannot be rendered.
const CONSTANT: &str = "this value cannot be rendered";
/// Default name of the root element of a response in XML.
pub(super) const ROOT: &str = "response";

impl Resolver<'_> {
    pub(super) fn reply(&mut self, fields: &Fields<'_>) -> Option<Reply> {
        let ReplyKeys { status, mut headers, indent } = ReplyKeys::read(fields);
        let own_type = headers.iter().position(|(name, _)| name == "content-type");
        let own_type = own_type.map(|i| headers.remove(i).1);
        let body = self.reply_body(fields, indent, own_type.clone())?;
        if BODYLESS.contains(&u64::from(status)) && !matches!(body, ReplyBody::Empty) {
            let at = fields.get("status").map_or(fields.node().at, |n| n.at);
            self.report.error(
                codes::CONFLICT,
                at,
                format!("a response with status {status} has no body"),
            );
        }
        if let (ReplyBody::Empty | ReplyBody::Negotiated(_) | ReplyBody::Mapped(_), Some(_)) =
            (&body, &own_type)
        {
            let at = fields.get("headers").map_or(fields.node().at, |n| n.at);
            self.report
                .error(codes::CONFLICT, at, "the content type is determined by the format")
                .help("it can be set with `json`, `text` and `bytes`");
        }
        Some(Reply { status, headers, body })
    }

    fn reply_body(
        &mut self,
        fields: &Fields<'_>,
        indent: usize,
        own_type: Option<String>,
    ) -> Option<ReplyBody> {
        let negotiated = fields.raw("value").is_some() || fields.raw("map").is_some();
        for key in ["as", "xml"] {
            if let (Some(node), false) = (fields.get(key), negotiated) {
                self.report
                    .error(codes::CONFLICT, node.at, format!("`{key}` needs `value` or `map`"))
                    .help("use `value` to negotiate the format; `json` is always JSON");
            }
        }
        if let (Some(node), None) = (fields.get("from"), fields.raw("map")) {
            self.report
                .error(codes::CONFLICT, node.at, "`from` needs `map`")
                .help("only `map` reads the request body");
        }
        if let (Some(node), None, false) = (fields.get("indent"), fields.raw("json"), negotiated) {
            self.report.error(codes::CONFLICT, node.at, "`indent` needs `json`, `value` or `map`");
        }
        let fixed = |default: &str, body: Vec<u8>| {
            let content_type = own_type.clone().unwrap_or_else(|| default.to_owned());
            ReplyBody::Fixed(Representation { content_type, body })
        };
        if let Some(node) = fields.raw("json") {
            let format = Format::Json { indent };
            return Some(fixed(format.content_type(), self.render(&format, node)?));
        }
        if let Some(node) = fields.raw("value") {
            let representations = self
                .formats(fields, indent, ROOT)
                .iter()
                .map(|format| {
                    Some(Representation {
                        content_type: format.content_type().to_owned(),
                        body: self.render(format, node)?,
                    })
                })
                .collect::<Option<Vec<_>>>()?;
            return Some(ReplyBody::Negotiated(representations));
        }
        if let Some(node) = fields.raw("map") {
            let map = self.map(node)?;
            let (from, formats) = (self.sources(fields), self.formats(fields, indent, ROOT));
            return Some(ReplyBody::Mapped(Box::new(Structure { map, from, formats })));
        }
        if let Some(text) = fields.text("text") {
            return Some(fixed("text/plain; charset=utf-8", text.as_bytes().to_vec()));
        }
        if let Some(text) = fields.text("bytes") {
            let packed: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
            return Some(fixed("application/octet-stream", BASE64_STANDARD.decode(packed).ok()?));
        }
        Some(ReplyBody::Empty)
    }

    fn render(&mut self, format: &Format, node: &Node) -> Option<Vec<u8>> {
        let json = node.to_json().ok()?;
        match format.render(json.as_bytes()) {
            Ok(body) => Some(body),
            Err(error) => {
                self.report.error(codes::BAD_VALUE, node.at, format!("{CONSTANT}: {error}"));
                None
            }
        }
    }
}
