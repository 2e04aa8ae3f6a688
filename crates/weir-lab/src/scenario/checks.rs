//! Checks and extractors of responses.

use super::fields::{bytes, valid, valid_or_help};
use super::texts::Known;
use crate::program::{
    Check, CheckKind, Comparison, Extraction, Extractor, Field, JsonCheck, SizeOperator, StatusSet,
    TextCheck, Variable, parse_regex,
};
use regex::bytes::Regex;
use serde_json_path::JsonPath;
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, codes};
use weir_document::settings;
use weir_document::shape::fields::Fields;
use weir_document::shape::{Group, Kind, format};

settings! {
    /// A check of a response; a failed check makes the sample an error.
    pub(super) struct CheckKeys is "a check" {
        /// `200`, `2xx`, `200-204`.
        status = by_hand(Kind::OneOrMany(&Kind::Scalar)),
        /// A text contained in the body.
        body_contains = by_hand(Kind::Scalar),
        /// A regular expression that matches in the body.
        body_matches = by_hand(Kind::Text),
        /// The entire body.
        body_equals = by_hand(Kind::Scalar),
        /// A regular expression that matches in the head of the response.
        header = by_hand(Kind::Text),
        /// A path with a value.
        json = by_hand(Kind::Format(format::JSON_PATH)),
        /// The expected value of `json`.
        equals = by_hand(Kind::Scalar),
        /// Largest response time.
        under: Option<Duration> = positive(),
        /// Length of the body.
        bytes: Option<u64> = bytes(),
        /// Negate the check.
        not: bool = boolean().default("false"),
        /// Message of a failure.
        message = by_hand(Kind::Text),
    },
    groups: &[Group { keys: CHECKS, required: true }],
}

/// The keys that are checks.
const CHECKS: &[&str] =
    &["status", "body_contains", "body_matches", "body_equals", "header", "json", "under", "bytes"];

settings! {
    /// A value extracted from a response.
    pub(super) struct ExtractKeys is "an extractor" {
        /// A path in the body.
        json = by_hand(Kind::Format(format::JSON_PATH)),
        /// A regular expression: its first group, or the whole match.
        regex = by_hand(Kind::Text),
        /// Searched part of the response.
        from: String = text(Kind::Enum(&["body", "headers"])).default("body"),
        /// A header field of the response.
        header: Option<String> = text(Kind::Format(format::HEADER)),
        /// Number of the match; 0 chooses one at random.
        nth: i32 = integer(0, 10_000).default("1"),
        /// Value without a match.
        default = by_hand(Kind::Scalar).default("the previous value"),
    },
    groups: &[Group { keys: &["json", "regex", "header"], required: true }],
}

/// A set of statuses from a list or a single one.
pub(super) fn statuses(nodes: &[Node], report: &mut Diagnostics) -> StatusSet {
    let help = Some("write `200`, `2xx` or `200-204`");
    let statuses = |node: &Node| {
        let part = node.text().unwrap_or_default();
        let set = StatusSet::parse(part).ok_or_else(|| format!("`{part}` is not a status"));
        valid_or_help(set, node, help, report)
    };
    StatusSet { ranges: nodes.iter().filter_map(statuses).flat_map(|set| set.ranges).collect() }
}

/// A check.
pub(super) fn check(node: &Node, known: &Known, report: &mut Diagnostics) -> Option<Check> {
    let fields = Fields::new(node, CheckKeys::SHAPE);
    let CheckKeys { under, bytes, not } = CheckKeys::read(&fields);
    let text = |comparison, node: &Node, report: &mut Diagnostics| {
        let patterns = vec![known.node(node, report)];
        CheckKind::Text(TextCheck { not, ..TextCheck::new(Field::Body, comparison, patterns) })
    };
    let kind = if fields.get("status").is_some() {
        let mut set = statuses(fields.many("status"), report);
        if not {
            let others = (100..=999).filter(|status| !set.contains(*status));
            set = StatusSet { ranges: others.map(|status| (status, status)).collect() };
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
        let path = json_path(node, report)?;
        let expected = fields.get("equals").map(|node| known.node(node, report));
        CheckKind::Json(JsonCheck { path, expected, not })
    } else if let Some(limit) = under {
        CheckKind::Duration(limit)
    } else {
        let order = if not { SizeOperator::NOT_EQUAL } else { SizeOperator::EQUAL };
        CheckKind::Size { field: Some(Field::Body), order, bytes: bytes? }
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
    let fields = Fields::new(node, ExtractKeys::SHAPE);
    let keys = ExtractKeys::read(&fields);
    let rule = if let Some(node) = fields.get("json") {
        Extraction::Json(json_path(node, report)?)
    } else if let Some(node) = fields.get("regex") {
        let field = if keys.from == "headers" { Field::Headers } else { Field::Body };
        Extraction::Regex { field, regex: regex(node, report)? }
    } else {
        Extraction::Header(keys.header?)
    };
    let default = fields.get("default").map(|node| known.node(node, report));
    Some(Extractor { variable, rule, number: keys.nth, default })
}

fn regex(node: &Node, report: &mut Diagnostics) -> Option<Regex> {
    let found = parse_regex(node.text()?);
    let found = found.map_err(|reason| format!("not a regular expression: {reason}"));
    valid(found, node, report)
}

fn json_path(node: &Node, report: &mut Diagnostics) -> Option<JsonPath> {
    let found = JsonPath::parse(node.text()?);
    valid(found.map_err(|error| format!("not a JSONPath: {error}")), node, report)
}
