//! Mock responses: examples of an OpenAPI document, or values generated from its schemas.

use super::generate::Generator;
use super::operation::{is_json, statuses};
use super::{Cursor, Description, Direction, Operation, Schemas};
use crate::config::{Reply, ReplyBody, Representation};
use crate::validation::Statuses;
use serde_json::Value;
use weir_document::finding::{Diagnostics, codes};

/// Selection of a response.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ExampleSelection<'t> {
    /// Its status; by default the first successful one.
    pub(crate) status: Option<u16>,
    /// Name of an example; by default the first one.
    pub(crate) example: Option<&'t str>,
}

impl<'d> Description<'d> {
    /// The example response of an operation. `None` with a finding at `spot`.
    pub(crate) fn mock(
        &self,
        operation: &Operation<'d>,
        selection: ExampleSelection<'_>,
        schemas: &Schemas<'d>,
        span: weir_document::source_map::Span,
        report: &mut Diagnostics,
    ) -> Option<Reply> {
        let Some((status, response)) = self.selected_response(operation, selection, report) else {
            let message = format!("`{}` does not describe this response", operation.name);
            report
                .error(codes::NO_EXAMPLE, span, message)
                .related(operation.span, "described here");
            return None;
        };
        let mut representations = Vec::new();
        let content = response.get("content");
        let contents = content.iter().flat_map(Cursor::members);
        let mut named = selection.example.is_none();
        for (member, at) in contents {
            let content_type = member.key.trim();
            if content_type.contains('*') {
                continue;
            }
            let direction = Direction::Response;
            let Some((value, found)) = self.example(&at, selection, direction, schemas, report)
            else {
                continue;
            };
            named |= found;
            let json = is_json(&content_type.to_ascii_lowercase());
            let body = match value {
                Value::String(text) if !json => text.into_bytes(),
                value => value.to_string().into_bytes(),
            };
            representations.push(Representation { content_type: content_type.to_owned(), body });
        }
        if !named
            || (content.is_some_and(|c| c.members().next().is_some()) && representations.is_empty())
        {
            let message = format!("`{}` has no example of this response", operation.name);
            report
                .error(codes::NO_EXAMPLE, span, message)
                .related(response.node.at, "the response");
            return None;
        }
        let body = match representations.len() {
            0 => ReplyBody::Empty,
            _ => ReplyBody::Negotiated(representations),
        };
        Some(Reply { status, headers: Vec::new(), body })
    }

    fn selected_response(
        &self,
        operation: &Operation<'d>,
        selection: ExampleSelection<'_>,
        report: &mut Diagnostics,
    ) -> Option<(u16, Cursor<'d>)> {
        let responses = operation.at.get("responses")?;
        let mut candidates: Vec<_> = responses
            .members()
            .filter_map(|(member, at)| Some((statuses(&member.key)?, at)))
            .collect();
        candidates.sort_by_key(|(status, _)| *status);
        let successful = |status: u16| (200..300).contains(&status);
        let found = candidates.into_iter().find_map(|(statuses, at)| {
            let status = match (statuses, selection.status) {
                (Statuses::One(one), Some(selection)) => (one == selection).then_some(one),
                (Statuses::One(one), None) => successful(one).then_some(one),
                (Statuses::Class(class), Some(selection)) => {
                    (class == selection / 100).then_some(selection)
                }
                (Statuses::Class(class), None) => (class == 2).then_some(200),
                (Statuses::Others, selection) => Some(selection.unwrap_or(200)),
            };
            Some((status?, at))
        })?;
        // Replies have final statuses only.
        let (status, at) = found;
        (200..600).contains(&status).then_some((status, self.follow(&at, report)?))
    }

    /// The example of a media type or parameter, and whether it is the named one.
    pub(super) fn example(
        &self,
        at: &Cursor<'d>,
        selection: ExampleSelection<'_>,
        direction: Direction,
        schemas: &Schemas<'d>,
        report: &mut Diagnostics,
    ) -> Option<(Value, bool)> {
        let json = |at: &Cursor<'d>| serde_json::to_value(at.node).ok();
        if let Some(examples) = at.get("examples") {
            let mut named = examples.members();
            let chosen = match selection.example {
                Some(name) => named.find(|(member, _)| member.key == name),
                None => named.next(),
            };
            if let Some((_, example)) = chosen
                && let Some(value) = self.follow(&example, report)?.get("value")
            {
                return Some((json(&value)?, true));
            }
        }
        if let Some(example) = at.get("example") {
            return Some((json(&example)?, false));
        }
        let schema = schemas.value(&at.get("schema")?, direction, report)?;
        Some((Generator::generate(&schema, direction)?, false))
    }
}
