//! Bodies of requests.

use super::fields::{bytes, count, valid};
use super::request::{Context, RequestKeys};
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
use weir_document::settings;
use weir_document::shape::fields::Fields;
use weir_document::shape::{Group, Kind, Names};

settings! {
    /// A body generated before the load.
    pub(super) struct BodyKeys is "a body" {
        /// `array`: JSON of exactly `size` bytes, as WSO2's tests send it; `grid`: `rows` of
        /// `fields`; `corpus`: documents of words with different frequencies; `filler`: `size`
        /// bytes of `x`.
        generate = text(Kind::Enum(&["array", "grid", "corpus", "filler"])),
        /// Bytes, of `array` and `filler`.
        size: u64 = bytes().default("1KiB"),
        /// Rows of a grid.
        rows: u32 = integer(0, 100_000).default("10"),
        /// Fields of a row.
        fields: u32 = integer(0, 1_000).default("10"),
        /// Documents of a corpus.
        documents: u32 = count().default("1000"),
        /// Words of a document.
        words: u32 = count().default("100"),
        /// Number of different words; their frequencies follow Zipf's law.
        vocabulary: u32 = count().default("20000"),
        /// Seed of the random numbers.
        seed: u64 = integer(0, u64::MAX).default("1"),
        /// File with the body.
        file: Option<String> = text(Kind::Text),
        /// Fields of a form.
        form = by_hand(Kind::Table(Names::Parameter, &Kind::Scalar)),
    },
    groups: &[Group { keys: &["generate", "file", "form"], required: true }],
}

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
    let fields = Fields::new(request, RequestKeys::SHAPE);
    if let (Some(body), Some(json)) = (fields.get("body"), fields.get("json")) {
        report
            .error(codes::CONFLICT, json.at, "`body` and `json` exclude each other")
            .related(body.at, "stands here");
    }
    // A JSON null is a body, too.
    if let Some(node) = request.get("json") {
        return (known.json(node, report).into(), Some(JSON));
    }
    let Some(node) = fields.get("body") else { return (Body::None, None) };
    if node.members().is_none() {
        return (known.node(node, report).into(), None);
    }
    let fields = Fields::new(node, BodyKeys::SHAPE);
    if let Some(form) = fields.get("form") {
        return (encoded(form, known, report).into(), Some("application/x-www-form-urlencoded"));
    }
    let (payload, content_type) = payload(&fields, context.folder);
    let bodies = valid(generate(&payload, context.bodies), node, report).unwrap_or_default();
    match &bodies[..] {
        [] => (Body::None, None),
        [body] => (Body::Bytes(body.clone()), content_type),
        _ => (Body::Cycle(bodies), content_type),
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

fn payload(fields: &Fields<'_>, folder: &Path) -> (Payload, Option<&'static str>) {
    let keys = BodyKeys::read(fields);
    if let Some(file) = keys.file {
        return (Payload::File(folder.join(file)), None);
    }
    let BodyKeys { size, rows, fields: width, documents, words, vocabulary, seed, .. } = keys;
    match fields.text("generate") {
        Some("grid") => (Payload::Grid { rows, fields: width }, Some(JSON)),
        Some("corpus") => {
            let usual = Corpus::default();
            let corpus = Corpus { documents, words, vocabulary, seed, ..usual };
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
        parts.push(
            format!("{and}{}=", form_encode(&member.key, crate::charset::Charset::UTF_8))
                .as_str()
                .into(),
        );
        parts
            .extend(known.node(&member.value, report).form_encoded(crate::charset::Charset::UTF_8));
    }
    Text::from_parts(parts)
}
