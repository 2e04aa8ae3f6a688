//! Bodies of requests.

use super::fields::Fields;
use super::request::Context;
use super::texts::Known;
use crate::form::form_encode;
use crate::generate::{Corpus, GenerateError, Payload};
use crate::program::{Body, Text};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, codes};

const JSON: &str = "application/json";

/// Generated bodies by their description: cells share them.
pub(super) type Bodies = RefCell<BTreeMap<String, Vec<Bytes>>>;

/// The body of a request and its default content type.
pub(super) fn body(
    request: &Node,
    context: &Context<'_>,
    report: &mut Diagnostics,
) -> (Body, Option<&'static str>) {
    let known = context.known;
    let fields = Fields(request);
    if let (Some(body), Some(json)) = (fields.get("body"), fields.get("json")) {
        report
            .error(codes::CONFLICT, json.at, "`body` and `json` exclude each other")
            .related(body.at, "stands here");
    }
    // A JSON null is a body, too.
    if let Some(node) = request.get("json") {
        let text = node.to_json().unwrap_or_default();
        return (known.text(&text, node, report).into(), Some(JSON));
    }
    let Some(node) = fields.get("body") else { return (Body::None, None) };
    if node.members().is_none() {
        return (known.node(node, report).into(), None);
    }
    let fields = Fields(node);
    if let Some(form) = fields.get("form") {
        return (encoded(form, known, report).into(), Some("application/x-www-form-urlencoded"));
    }
    let (payload, content_type) = payload(fields, context.folder);
    match generate(&payload, context.bodies) {
        Ok(mut bodies) if bodies.len() == 1 => (Body::Bytes(bodies.remove(0)), content_type),
        Ok(bodies) if !bodies.is_empty() => (Body::Cycle(bodies), content_type),
        Ok(_) => (Body::None, None),
        Err(error) => {
            report.error(codes::BAD_VALUE, node.at, error.to_string());
            (Body::None, None)
        }
    }
}

fn generate(payload: &Payload, bodies: &Bodies) -> Result<Vec<Bytes>, GenerateError> {
    let mut bodies = bodies.borrow_mut();
    let key = format!("{payload:?}");
    if let Some(generated) = bodies.get(&key) {
        return Ok(generated.clone());
    }
    let generated = payload.make()?;
    bodies.insert(key, generated.clone());
    Ok(generated)
}

fn payload(fields: Fields<'_>, folder: &Path) -> (Payload, Option<&'static str>) {
    let size = fields.size("size").unwrap_or(1024);
    if let Some(file) = fields.text("file") {
        return (Payload::File(folder.join(file)), None);
    }
    match fields.text("generate") {
        Some("grid") => {
            let (rows, fields) = (fields.integer("rows"), fields.integer("fields"));
            let grid = Payload::Grid { rows: rows.unwrap_or(10), fields: fields.unwrap_or(10) };
            (grid, Some(JSON))
        }
        Some("corpus") => {
            let usual = Corpus::default();
            let corpus = Corpus {
                documents: fields.integer("documents").unwrap_or(usual.documents),
                words: fields.integer("words").unwrap_or(usual.words),
                vocabulary: fields.integer("vocabulary").unwrap_or(usual.vocabulary),
                seed: fields.integer("seed").unwrap_or(usual.seed),
                exponent: usual.exponent,
            };
            (Payload::Corpus(corpus), Some(JSON))
        }
        Some("filler") => (Payload::Filler { size }, None),
        _ => (Payload::Array { size }, Some(JSON)),
    }
}

/// The fields of a form; constants are encoded now.
fn encoded(form: &Node, known: &Known, report: &mut Diagnostics) -> Text {
    let mut parts = Vec::new();
    for member in form.members().unwrap_or_default() {
        let and = if parts.is_empty() { "" } else { "&" };
        parts.push(format!("{and}{}=", form_encode(&member.key)).as_str().into());
        parts.extend(known.node(&member.value, report).form_encoded());
    }
    Text::from_parts(parts)
}
