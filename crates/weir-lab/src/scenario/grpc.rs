//! Calls of gRPC, and their schema.

use super::request::{Context, RequestKeys};
use super::streams::Until;
use super::texts::Known;
use crate::grpc::{Statuses, compile, parts};
use crate::program::{CallEnd, GrpcCall, MessageTemplate, Program, Stream, StreamKind, Text};
use prost_reflect::{DescriptorPool, MethodDescriptor};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, codes};
use weir_document::settings;
use weir_document::shape::Kind;
use weir_document::shape::fields::Fields;

settings! {
    /// The schema of gRPC calls.
    #[derive(Debug)]
    pub(super) struct GrpcKeys is "the schema of gRPC" {
        /// `.proto` files with the services, relative to the scenario or to one of `import_paths`.
        proto: Vec<String> = texts(Kind::OneOrMany(&Kind::Text)).required(),
        /// Folders of imported files. The folder of the scenario is the last one.
        import_paths: Vec<String> = texts(Kind::OneOrMany(&Kind::Text)),
    },
    misspellings: &[
        ("protos", "write `proto`"),
        ("imports", "write `import_paths`"),
        ("reflection", "omit `grpc`: without a schema the server is asked"),
    ],
}

/// Compiled schemas by their description: cells share them. `None` has errors.
pub(super) type Schemas = RefCell<BTreeMap<String, Option<DescriptorPool>>>;

/// The schema of the scenario's calls; `None` if the server is asked for it.
pub(super) fn schema(
    root: &Fields<'_>,
    (folder, known): (&Path, &Schemas),
    report: &mut Diagnostics,
) -> Option<DescriptorPool> {
    let fields = root.object("grpc", GrpcKeys::SHAPE)?;
    let keys = GrpcKeys::read(&fields);
    let mut known = known.borrow_mut();
    let compiled = known.entry(format!("{keys:?}")).or_insert_with(|| {
        let compiled = compile(folder, (&keys.proto, &keys.import_paths));
        compiled
            .map_err(|error| {
                let at = fields.get("proto").unwrap_or(fields.node()).at;
                let code =
                    if error.is_missing_file { codes::MISSING_FILE } else { codes::BAD_VALUE };
                report.error(code, at, error.message).maybe_help(error.help);
            })
            .ok()
    });
    compiled.clone()
}

/// The call of a request.
pub(super) fn call(
    node: &Node,
    (path, name): (&Node, &str),
    context: &Context<'_>,
    program: &mut Program,
    report: &mut Diagnostics,
) -> Option<Arc<Stream>> {
    let written = path.text()?;
    if parts(written).is_none() {
        report
            .error(codes::BAD_VALUE, path.at, format!("`{written}` is not a method"))
            .help("write `grpc: package.Service/Method`");
        return None;
    }
    check_keys(node, report);
    let fields = Fields::new(node, RequestKeys::SHAPE);
    let keys = RequestKeys::read(&fields);
    let until = Until::read(&fields.object_or_empty("until", Until::SHAPE));
    let messages = match node.get("message") {
        None => vec![MessageTemplate::Object(Vec::new())],
        Some(message) => {
            let items = message.items().unwrap_or(std::slice::from_ref(message)).iter();
            items.filter_map(|item| template(item, context.known, report)).collect()
        }
    };
    let call = GrpcCall {
        path: written.to_owned(),
        messages,
        repeat: keys.repeat,
        interval: keys.interval,
        deadline: keys.deadline,
        end: CallEnd { messages: until.messages, time: until.time },
        expected: statuses(fields.many("expected"), report),
        bound: Arc::default(),
    };
    let mut messages = None;
    match &context.schema {
        Some(schema) => {
            bind(&call, schema, (node, path), report);
            let is_stream =
                |m: &MethodDescriptor| m.is_client_streaming() || m.is_server_streaming();
            if call.bound.get().is_some_and(|bound| is_stream(&bound.method)) {
                messages = Some(program.label(&format!("{name} message")));
            }
        }
        // Whether there are samples of messages is known once the server has described the method.
        None => program.labels.allow_runtime(false),
    }
    Some(Arc::new(Stream { messages, kind: StreamKind::Grpc(call) }))
}

/// Reports keys that a call does not have.
fn check_keys(node: &Node, report: &mut Diagnostics) {
    for (key, help) in [
        ("headers", "write `metadata`"),
        ("body", "write `message`"),
        ("json", "write `message`"),
        ("redirects", "a call is not redirected: omit it"),
        ("decode", "omit it: messages are decoded where checks need them"),
    ] {
        if let Some(found) = node.get(key) {
            let text = format!("`{key}` does not belong to `grpc`");
            report.error(codes::CONFLICT, found.at, text).help(help);
        }
    }
    for key in ["events", "event", "data"] {
        if let Some(found) = node.get("until").and_then(|until| until.get(key)) {
            let text = format!("`{key}` belongs to `sse`");
            report.error(codes::CONFLICT, found.at, text).help("write `messages` or `time`");
        }
    }
}

/// Binds a call to its schema; errors are reported where they are.
fn bind(
    call: &GrpcCall,
    schema: &DescriptorPool,
    (node, path): (&Node, &Node),
    report: &mut Diagnostics,
) {
    for error in call.bind(schema).err().unwrap_or_default() {
        let at = node.get("message").filter(|_| !error.place.is_empty()).map_or(path, |message| {
            let is_list = message.items().is_some();
            let steps = error.place.iter().skip(usize::from(!is_list));
            steps.fold(message, |node, step| node.child(step).unwrap_or(node))
        });
        report.error(codes::BAD_VALUE, at.at, error.error.message).maybe_help(error.error.help);
    }
}

/// A message with its variables.
fn template(node: &Node, known: &Known, report: &mut Diagnostics) -> Option<MessageTemplate> {
    if let Some(items) = node.items() {
        let items = items.iter().filter_map(|item| template(item, known, report));
        return Some(MessageTemplate::List(items.collect()));
    }
    if let Some(members) = node.members() {
        let members = members.iter().filter_map(|member| {
            Some((member.key.clone(), template(&member.value, known, report)?))
        });
        return Some(MessageTemplate::Object(members.collect()));
    }
    if node.text().is_some_and(|text| text.contains("${")) {
        return Some(MessageTemplate::Text { text: known.node(node, report), is_bool: false });
    }
    // Numbers that JSON does not have are reported by the check of the file.
    let value: Value = serde_json::from_str(&node.to_json().ok()?).ok()?;
    Some(MessageTemplate::Value(value))
}

/// Statuses by names or numbers.
pub(super) fn statuses(nodes: &[Node], report: &mut Diagnostics) -> Statuses {
    let texts = nodes.iter().filter_map(Node::text);
    Statuses::parse(texts).unwrap_or_else(|wrong| {
        let at = nodes.iter().find(|node| node.text() == Some(wrong.as_str())).or(nodes.first());
        report
            .error(
                codes::BAD_VALUE,
                at.map(|node| node.at),
                format!("`{wrong}` is not a status of gRPC"),
            )
            .help("write names such as `NOT_FOUND`, or numbers from 0 to 16");
        Statuses::default()
    })
}

/// Fields of the head of a call.
pub(super) fn headers(node: &Node, known: &Known, report: &mut Diagnostics) -> Vec<(Text, Text)> {
    let fields = Fields::new(node, RequestKeys::SHAPE);
    let fixed = |name, value: &str| (Text::fixed(name), Text::fixed(value));
    let mut headers = vec![
        fixed("te", "trailers"),
        fixed("content-type", "application/grpc"),
        fixed("grpc-accept-encoding", "identity,gzip"),
    ];
    if let Some(deadline) = RequestKeys::read(&fields).deadline {
        headers.push(fixed("grpc-timeout", &timeout(deadline)));
    }
    for member in fields.members("metadata") {
        let name = member.key.to_ascii_lowercase();
        if name.starts_with("grpc-") || ["te", "content-type"].contains(&name.as_str()) {
            let help = if name == "grpc-timeout" { "write `deadline`" } else { "omit it" };
            let text = format!("`{name}` is set by the protocol");
            report.error(codes::CONFLICT, member.at, text).help(help);
        }
        headers.push((Text::fixed(name), known.node(&member.value, report)));
    }
    headers
}

/// A time with at most eight digits and its unit.
fn timeout(time: Duration) -> String {
    const MAX: u128 = 99_999_999;
    match (time.as_micros(), time.as_millis()) {
        (micros @ 0..=MAX, _) => format!("{}u", micros.max(1)),
        (_, millis @ 0..=MAX) => format!("{millis}m"),
        _ => format!("{}S", u128::from(time.as_secs()).min(MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_have_eight_digits() {
        for (time, text) in [
            (Duration::from_millis(200), "200000u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(200_000), "200000S"),
            (Duration::from_nanos(5), "1u"),
        ] {
            assert_eq!(timeout(time), text);
        }
    }
}
