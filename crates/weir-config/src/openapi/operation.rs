//! Operations: methods and paths, and requirements on their requests and responses.

use super::{Cursor, Description, Direction, Schemas, parameter};
use crate::validation::{
    Answer, BodyCheck, Content, Enforcement, RequestBody, SchemaId, SchemaSource, Statuses, Types,
    Validation,
};
use std::collections::HashMap;
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, codes};
use weir_document::settings;
use weir_document::source_map::Span;

/// Members of a path item that are operations.
const METHODS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];

/// One operation.
#[derive(Clone, Debug)]
pub(crate) struct Operation<'d> {
    /// Its `operationId`, or method and path without one.
    pub(crate) name: String,
    /// Upper case.
    pub(crate) method: String,
    /// As written.
    pub(crate) path: &'d str,
    /// Location of the path.
    pub(crate) path_at: Span,
    /// Location of the operation: its method.
    pub(crate) span: Span,
    /// The operation object.
    pub(crate) at: Cursor<'d>,
    /// The path item of the operation.
    pub(crate) item: Cursor<'d>,
}

impl<'d> Description<'d> {
    /// Every operation, in the order of definition.
    pub(crate) fn operations(&self, report: &mut Diagnostics) -> Vec<Operation<'d>> {
        let mut operations = Vec::new();
        let mut names: HashMap<String, Span> = HashMap::new();
        let Some(paths) = self.top().get("paths") else { return operations };
        for (path, item) in paths.members().filter(|(m, _)| !m.key.starts_with("x-")) {
            let Some(item) = self.follow(&item, report) else { continue };
            for (member, at) in item.members().filter(|(m, _)| METHODS.contains(&&*m.key)) {
                let method = member.key.to_ascii_uppercase();
                let name = match at.text("operationId") {
                    Some(id) if !id.is_empty() => id.to_owned(),
                    _ => format!("{method} {}", path.key),
                };
                if let Some(first) = names.insert(name.clone(), member.at) {
                    let message = format!("two operations have the `operationId` `{name}`");
                    report
                        .error(codes::DUPLICATE_NAME, member.at, message)
                        .related(first, "the other operation");
                    continue;
                }
                operations.push(Operation {
                    name,
                    method,
                    path: &path.key,
                    path_at: path.at,
                    span: member.at,
                    at,
                    item: item.clone(),
                });
            }
        }
        operations
    }
}

settings! {
    /// `log` counts violations and passes the message on, `enforce` rejects it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) struct Modes is "the validation of an API or a route" {
        /// Validation of parameters and bodies of requests.
        pub(crate) requests: Enforcement = choice().default("enforce"),
        /// Validation of status, content type and body of responses.
        pub(crate) responses: Enforcement = choice().default("off"),
    }
}

/// Bodies that are not validated.
#[derive(Debug, Default)]
pub(crate) struct Unvalidated {
    /// Number of such bodies.
    pub(crate) count: usize,
    /// The first of them: location and media type.
    pub(crate) first: Option<(Span, String)>,
}

/// Compiles the requirements of operations.
pub(crate) struct Compiler<'d, 'r> {
    pub(crate) description: Description<'d>,
    pub(crate) schemas: &'r mut Schemas<'d>,
    pub(crate) sources: &'r mut Vec<SchemaSource>,
    pub(crate) unvalidated: &'r mut Unvalidated,
    pub(crate) report: &'r mut Diagnostics,
}

impl<'d> Compiler<'d, '_> {
    /// The requirements of an operation on requests and responses. Errors in it are findings.
    pub(crate) fn validation(&mut self, operation: &Operation<'d>, modes: Modes) -> Validation {
        let mut validation = Validation {
            requests: modes.requests,
            responses: modes.responses,
            parameters: Vec::new(),
            body: None,
            answers: Vec::new(),
        };
        if modes.requests != Enforcement::Off {
            for place in parameter::merged(&self.description, operation, self.report) {
                validation.parameters.extend(self.parameter(&place));
            }
            validation.body = operation.at.get("requestBody").and_then(|at| self.body(&at));
        }
        if modes.responses != Enforcement::Off {
            validation.answers = self.answers(operation);
        }
        validation
    }

    fn body(&mut self, at: &Cursor<'d>) -> Option<RequestBody> {
        let at = self.description.follow(at, self.report)?;
        let contents = self.contents(&at, Direction::Request);
        if contents.is_empty() {
            let message = "a request body needs `content` with media types";
            self.report.error(codes::BAD_OPENAPI, at.node.at, message);
        }
        Some(RequestBody { required: at.is_set("required"), contents })
    }

    fn answers(&mut self, operation: &Operation<'d>) -> Vec<Answer> {
        let mut answers = Vec::new();
        let Some(responses) = operation.at.get("responses") else { return answers };
        for (member, at) in responses.members().filter(|(m, _)| !m.key.starts_with("x-")) {
            let Some(status) = statuses(&member.key) else {
                let message =
                    format!("`{}` is not a status: use `200`, `4XX` or `default`", member.key);
                self.report.error(codes::BAD_OPENAPI, member.at, message);
                continue;
            };
            let Some(at) = self.description.follow(&at, self.report) else { continue };
            answers.push(Answer { status, contents: self.contents(&at, Direction::Response) });
        }
        answers.sort_by_key(|response| response.status);
        answers
    }

    fn contents(&mut self, at: &Cursor<'d>, direction: Direction) -> Vec<Content> {
        let Some(content) = at.get("content") else { return Vec::new() };
        let mut contents: Vec<Content> = content
            .members()
            .map(|(member, at)| {
                let range = member.key.split(';').next().unwrap_or_default();
                let range = range.trim().to_ascii_lowercase();
                let check = self.check(&range, &at, member.at, direction);
                Content { range, check }
            })
            .collect();
        contents.sort_by_key(|content| content.range.matches('*').count());
        contents
    }

    fn check(
        &mut self,
        range: &str,
        at: &Cursor<'d>,
        span: Span,
        direction: Direction,
    ) -> BodyCheck {
        let Some(schema) = at.get("schema") else {
            return if is_json(range) { BodyCheck::Json(None) } else { BodyCheck::Nothing };
        };
        if is_json(range) {
            return BodyCheck::Json(self.add(&schema, direction));
        }
        if range == "application/x-www-form-urlencoded"
            && let Some(schema) = self.add(&schema, direction)
        {
            return BodyCheck::Form(schema);
        }
        if range.starts_with("text/")
            && !range.ends_with("xml")
            && let Some(schema) = self.add(&schema, direction)
            && self.sources[schema.0].shape.types.has(Types::STRING)
        {
            return BodyCheck::Text(schema);
        }
        // Such a schema describes arbitrary bytes.
        let bytes = schema.text("format") == Some("binary");
        if !bytes && (range.contains("xml") || range.starts_with("multipart/")) {
            self.unvalidated.count += 1;
            self.unvalidated.first.get_or_insert_with(|| (span, range.to_owned()));
        }
        BodyCheck::Nothing
    }

    pub(super) fn add(&mut self, at: &Cursor<'d>, direction: Direction) -> Option<SchemaId> {
        self.schemas.add(at, direction, self.sources, self.report)
    }

    pub(super) fn fault(&mut self, node: &Node, message: impl Into<String>) {
        self.report.error(codes::BAD_OPENAPI, node.at, message);
    }
}

/// `application/json` and types that end in `+json`.
pub(super) fn is_json(range: &str) -> bool {
    range == "application/json" || range.ends_with("+json")
}

/// `200`, `2XX`, `default`.
pub(super) fn statuses(text: &str) -> Option<Statuses> {
    if text == "default" {
        return Some(Statuses::Others);
    }
    if let Some(class) = text.strip_suffix("XX").or_else(|| text.strip_suffix("xx")) {
        let class = class.parse().ok().filter(|c| (1..=5).contains(c))?;
        return Some(Statuses::Class(class));
    }
    text.parse().ok().filter(|status| (100..=599).contains(status)).map(Statuses::One)
}
