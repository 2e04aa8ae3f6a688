//! Parameters of operations.

use super::operation::{Compiler, Operation};
use super::{Cursor, Description, Direction};
use crate::validation::{Parameter, Place, Style};
use weir_document::finding::{Diagnostics, codes};

/// Headers with a description elsewhere in OpenAPI: parameters of these names are ignored.
const ELSEWHERE: [&str; 3] = ["accept", "content-type", "authorization"];

/// The parameters of an operation: its own, and those of its path that it does not replace.
pub(super) fn merged<'d>(
    description: &Description<'d>,
    operation: &Operation<'d>,
    report: &mut Diagnostics,
) -> Vec<Cursor<'d>> {
    let mut merged: Vec<Cursor<'d>> = Vec::new();
    let mut own = 0;
    for source in [&operation.at, &operation.item] {
        let Some(list) = source.get("parameters") else { continue };
        for at in list.items() {
            let Some(at) = description.follow(&at, report) else { continue };
            let key = |at: &Cursor<'d>| (at.text("name"), at.text("in"));
            if !merged.iter().take(own).any(|known| key(known) == key(&at)) {
                merged.push(at);
            }
        }
        own = merged.len();
    }
    merged
}

impl<'d> Compiler<'d, '_> {
    /// A compiled parameter; `None` if it is ignored, or with a finding.
    pub(super) fn parameter(&mut self, at: &Cursor<'d>) -> Option<Parameter> {
        let (Some(name), Some(place)) = (at.text("name"), at.text("in")) else {
            self.fault(at.node, "a parameter needs `name` and `in`");
            return None;
        };
        let (place, usual) = match place {
            "path" => (Place::Path, Style::Simple),
            "query" => (Place::Query, Style::Form),
            "header" if ELSEWHERE.contains(&name.to_ascii_lowercase().as_str()) => return None,
            "header" => (Place::Header, Style::Simple),
            "cookie" => (Place::Cookie, Style::Form),
            other => {
                let message = format!("`in: {other}` is not one of path, query, header, cookie");
                self.fault(at.node, message);
                return None;
            }
        };
        let mut style = match at.text("style") {
            Some(text) => self.style(at, place, text)?,
            None => usual,
        };
        let schema = match (at.get("schema"), at.get("content")) {
            (Some(schema), _) => schema,
            (None, Some(content)) => {
                let Some((member, content)) = content.members().next() else {
                    let message = "`content` of a parameter needs exactly one media type";
                    self.fault(at.node, message);
                    return None;
                };
                if super::operation::is_json(&member.key.to_ascii_lowercase()) {
                    style = Style::Json;
                }
                content.get("schema")?
            }
            // The value has no description; the handler checks its presence.
            (None, None) => return None,
        };
        let explode = match at.get("explode") {
            Some(_) => at.is_set("explode"),
            None => matches!(style, Style::Form | Style::Deep),
        };
        let header = place == Place::Header;
        Some(Parameter {
            name: if header { name.to_ascii_lowercase() } else { name.to_owned() },
            place,
            required: at.is_set("required") || place == Place::Path,
            empty: place == Place::Query && at.is_set("allowEmptyValue"),
            style,
            explode,
            schema: self.add(&schema, Direction::Request)?,
        })
    }

    fn style(&mut self, at: &Cursor<'d>, place: Place, text: &str) -> Option<Style> {
        let style = match (place, text) {
            (Place::Path | Place::Header, "simple") => Style::Simple,
            (Place::Path, "label") => Style::Label,
            (Place::Path, "matrix") => Style::Matrix,
            (Place::Query | Place::Cookie, "form") => Style::Form,
            (Place::Query, "spaceDelimited") => Style::Space,
            (Place::Query, "pipeDelimited") => Style::Pipe,
            (Place::Query, "deepObject") => Style::Deep,
            _ => {
                let message = format!("`style: {text}` does not exist in a {}", place.as_str());
                let node = at.node.get("style").unwrap_or(at.node);
                self.report.error(codes::BAD_OPENAPI, node.at, message);
                return None;
            }
        };
        Some(style)
    }
}
