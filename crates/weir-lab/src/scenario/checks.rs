//! Checks and extractors of responses.

use super::fields::Fields;
use super::texts::Known;
use crate::program::{
    Check, CheckKind, Comparison, Extraction, Extractor, Field, SizeOperator, StatusSet, Text,
    Variable,
};
use regex::bytes::Regex;
use serde_json_path::JsonPath;
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, codes};

/// A set of statuses from a list or a single one.
pub(super) fn statuses(nodes: &[Node], report: &mut Diagnostics) -> StatusSet {
    let mut text = String::new();
    for node in nodes {
        let part = node.text().unwrap_or_default();
        if StatusSet::parse(part).is_none() {
            report
                .error(codes::BAD_VALUE, node.at, format!("`{part}` is not a status"))
                .help("write `200`, `2xx` or `200-204`");
            continue;
        }
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(part);
    }
    if text.is_empty() { StatusSet::none() } else { StatusSet::parse(&text).unwrap_or_default() }
}

/// A check.
pub(super) fn check(node: &Node, known: &Known, report: &mut Diagnostics) -> Option<Check> {
    let fields = Fields(node);
    let not = fields.bool("not", false);
    let text = |comparison, node: &Node, report: &mut Diagnostics| CheckKind::Text {
        field: Field::Body,
        comparison,
        patterns: vec![known.node(node, report)],
        any: false,
        not,
        ignore_status: false,
    };
    let kind = if fields.get("status").is_some() {
        let mut set = statuses(fields.many("status"), report);
        if not {
            let other = (100..=999).filter(|status| !set.contains(*status));
            let others = other.fold(StatusSet::none(), |mut others, status| {
                others.add(status, status);
                others
            });
            set = others;
        }
        CheckKind::Status(set)
    } else if let Some(node) = fields.get("body_contains") {
        text(Comparison::Substring, node, report)
    } else if let Some(node) = fields.get("body_equals") {
        text(Comparison::Equals, node, report)
    } else if let Some(node) = fields.get("body_matches") {
        CheckKind::Regex { field: Field::Body, regex: regex(node, report)?, not }
    } else if let Some(node) = fields.get("header") {
        CheckKind::Regex { field: Field::Headers, regex: regex(node, report)?, not }
    } else if let Some(node) = fields.get("json") {
        CheckKind::Json {
            path: json_path(node, report)?,
            expected: fields.get("equals").map(|node| known.node(node, report)),
            regex: false,
            null: false,
            not,
        }
    } else if let Some(limit) = fields.duration("under") {
        CheckKind::Duration(limit)
    } else {
        let order = if not { SizeOperator::NOT_EQUAL } else { SizeOperator::EQUAL };
        CheckKind::Size { field: Some(Field::Body), order, bytes: fields.size("bytes")? }
    };
    if let (Some(equals), None) = (node.get("equals"), fields.get("json")) {
        report.error(codes::CONFLICT, equals.at, "`equals` belongs to `json`");
    }
    let message = fields.get("message").map(|node| known.node(node, report));
    Some(Check { message, kind })
}

/// An extractor into `variable`.
pub(super) fn extractor(
    node: &Node,
    variable: Variable,
    known: &Known,
    report: &mut Diagnostics,
) -> Option<Extractor> {
    let fields = Fields(node);
    let rule = if let Some(node) = fields.get("json") {
        Extraction::Json(json_path(node, report)?)
    } else if let Some(node) = fields.get("regex") {
        let field = match fields.text("from") {
            Some("headers") => Field::Headers,
            _ => Field::Body,
        };
        Extraction::Regex { field, regex: regex(node, report)?, template: String::new() }
    } else {
        Extraction::Header(fields.owned("header")?)
    };
    let default: Option<Text> = fields.get("default").map(|node| known.node(node, report));
    let number = fields.integer::<i32>("nth").unwrap_or(1);
    Some(Extractor { variable, rule, number, default, derived: Vec::new() })
}

fn regex(node: &Node, report: &mut Diagnostics) -> Option<Regex> {
    match Regex::new(node.text()?) {
        Ok(regex) => Some(regex),
        Err(error) => {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let message = format!("not a regular expression: {reason}");
            report.error(codes::BAD_VALUE, node.at, message);
            None
        }
    }
}

fn json_path(node: &Node, report: &mut Diagnostics) -> Option<JsonPath> {
    match JsonPath::parse(node.text()?) {
        Ok(path) => Some(path),
        Err(error) => {
            report.error(codes::BAD_VALUE, node.at, format!("not a JSONPath: {error}"));
            None
        }
    }
}
