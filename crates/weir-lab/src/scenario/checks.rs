//! Checks and extractors of responses.

use super::fields::{ONLY, bytes, valid, valid_or_help};
use super::grpc;
use super::texts::Known;
use crate::bounded_file;
use crate::program::{
    CEL_VARIABLES, Check, CheckKind, Comparison, Extraction, Extractor, Field, JsonCheck,
    SizeOperator, StatusSet, TextCheck, Variable, parse_regex,
};
use regex::bytes::Regex;
use serde_json_path::JsonPath;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weir_document::draft::{Member, Node};
use weir_document::finding::{Diagnostics, codes};
use weir_document::settings;
use weir_document::shape::fields::Fields;
use weir_document::shape::{Group, Kind, Names, format};
use weir_document::units;
use weir_expr::Expr;

settings! {
    /// A check of a response; a failed check makes the sample an error.
    pub(super) struct CheckKeys is "a check" {
        /// `200`, `2xx`, `200-204`.
        status = by_hand(Kind::OneOrMany(&Kind::Scalar)),
        /// Statuses of a gRPC call: `OK`, `NOT_FOUND`, `14`.
        grpc_status = by_hand(Kind::OneOrMany(&Kind::Scalar)),
        /// A text contained in the body.
        body_contains = by_hand(Kind::Scalar),
        /// A regular expression that matches in the body.
        body_matches = by_hand(Kind::Text),
        /// The entire body.
        body_equals = by_hand(Kind::Scalar),
        /// A regular expression that matches in the head of the response, or fields and their values.
        header = by_hand(Kind::Either(&[Kind::Text, Kind::Table(Names::Header, &Kind::Scalar)])),
        /// A path with a value, or paths and their values.
        json = by_hand(Kind::Either(&[
            Kind::Format(format::JSON_PATH),
            Kind::Table(Names::Parameter, &Kind::Json),
        ])),
        /// The expected value of `json`.
        equals = by_hand(Kind::Scalar),
        /// Largest response time.
        under: Option<Duration> = positive(),
        /// Length of the body, or its limits.
        bytes = by_hand(Kind::Either(&[
            Kind::Integer(0, 1 << 30),
            Kind::Format(format::SIZE),
            Kind::Object(SizeLimits::SHAPE),
        ])),
        /// A CEL expression of `status`, `headers`, `body`, `text`, `size` and `duration_ms`.
        cel = by_hand(Kind::Text),
        /// A JSON Schema, or the file with it.
        schema = by_hand(Kind::Either(&[Kind::Text, Kind::Json])),
        /// Negate the check.
        not: bool = boolean().default("false"),
        /// Message of a failure.
        message = by_hand(Kind::Text),
        only = same(ONLY),
    },
    groups: &[Group { keys: CHECKS, required: true }],
}

/// The keys that are checks.
const CHECKS: &[&str] = &[
    "status",
    "grpc_status",
    "body_contains",
    "body_matches",
    "body_equals",
    "header",
    "json",
    "under",
    "bytes",
    "cel",
    "schema",
];

settings! {
    /// Limits of a length.
    struct SizeLimits is "limits of a length" {
        /// Smallest length.
        min: Option<u64> = bytes(),
        /// Largest length.
        max: Option<u64> = bytes(),
    }
}

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
        /// A cookie that the response sets.
        cookie: Option<String> = text(Kind::Text),
        /// Number of the match; 0 chooses one at random.
        nth: i32 = integer(0, 10_000).default("1"),
        /// Value without a match.
        default = by_hand(Kind::Scalar).default("the previous value"),
    },
    groups: &[Group { keys: &["json", "regex", "header", "cookie"], required: true }],
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

/// The checks of a mapping: several if it has several paths, fields or limits.
pub(super) fn checks(
    node: &Node,
    (known, folder): (&Known, &Path),
    report: &mut Diagnostics,
) -> Vec<Check> {
    let fields = Fields::new(node, CheckKeys::SHAPE);
    if let (Some(equals), None) = (node.get("equals"), fields.text("json")) {
        report.error(codes::CONFLICT, equals.at, "`equals` belongs to a path in `json`");
    }
    let message = fields.get("message").map(|node| known.node(node, report));
    let kinds = kinds(&fields, (known, folder), report).unwrap_or_default();
    kinds.into_iter().map(|kind| Check { message: message.clone(), kind }).collect()
}

fn kinds(
    fields: &Fields<'_>,
    (known, folder): (&Known, &Path),
    report: &mut Diagnostics,
) -> Option<Vec<CheckKind>> {
    let CheckKeys { under, not } = CheckKeys::read(fields);
    let text = |comparison, node: &Node, report: &mut Diagnostics| {
        let patterns = vec![known.node(node, report)];
        CheckKind::Text(TextCheck { not, ..TextCheck::new(Field::Body, comparison, patterns) })
    };
    let kind = if fields.get("status").is_some() {
        let set = statuses(fields.many("status"), report);
        CheckKind::Status(if not { set.complement() } else { set })
    } else if fields.get("grpc_status").is_some() {
        let set = grpc::statuses(fields.many("grpc_status"), report);
        CheckKind::Grpc(if not { set.complement() } else { set })
    } else if let Some(node) = fields.get("body_contains") {
        text(Comparison::Substring, node, report)
    } else if let Some(node) = fields.get("body_equals") {
        text(Comparison::Equals, node, report)
    } else if let Some(node) = fields.get("body_matches") {
        CheckKind::Regex { field: Field::Body, regex: regex(node, report)?, not }
    } else if let Some(node) = fields.get("header") {
        let Some(members) = node.members() else {
            return Some(vec![CheckKind::Regex {
                field: Field::Headers,
                regex: regex(node, report)?,
                not,
            }]);
        };
        let check = |member: &Member| CheckKind::Header {
            name: member.key.clone(),
            value: known.node(&member.value, report),
            not,
        };
        return Some(members.iter().map(check).collect());
    } else if let Some(node) = fields.get("json") {
        return json(node, fields.get("equals"), (known, not), report);
    } else if let Some(limit) = under {
        if let Some(negated) = fields.get("not").filter(|_| not) {
            report
                .error(codes::CONFLICT, negated.at, "`not` does not belong to `under`")
                .help("write `cel: \"duration_ms > 500\"` for responses that must take longer");
        }
        CheckKind::Duration(limit)
    } else if let Some(node) = fields.get("cel") {
        let compiled = Expr::compile(node.text()?, &CEL_VARIABLES);
        CheckKind::Cel { expression: valid(compiled, node, report)?, not }
    } else if let Some(node) = fields.get("schema") {
        CheckKind::Schema { schema: schema(node, folder, report)?, not }
    } else {
        return size(fields.get("bytes")?, not, report);
    };
    Some(vec![kind])
}

/// Checks of paths in the body.
fn json(
    node: &Node,
    equals: Option<&Node>,
    (known, not): (&Known, bool),
    report: &mut Diagnostics,
) -> Option<Vec<CheckKind>> {
    let Some(members) = node.members() else {
        let path = json_path(node, report)?;
        let expected = equals.map(|node| known.node(node, report));
        return Some(vec![CheckKind::Json(JsonCheck { path, expected, not })]);
    };
    let check = |member: &Member| {
        let path = JsonPath::parse(&member.key);
        let path = path.map_err(|error| format!("`{}` is not a JSONPath: {error}", member.key));
        let path = valid(path, &member.value, report)?;
        let expected = match member.value.text() {
            Some(_) => known.node(&member.value, report),
            None => known.json(&member.value, report),
        };
        Some(CheckKind::Json(JsonCheck { path, expected: Some(expected), not }))
    };
    members.iter().map(check).collect()
}

/// Checks of the length of the body.
fn size(node: &Node, not: bool, report: &mut Diagnostics) -> Option<Vec<CheckKind>> {
    let check = |order, bytes| CheckKind::Size { field: Some(Field::Body), order, bytes };
    if node.members().is_none() {
        let bytes = node.scalar()?.integer().or_else(|| units::size(node.text()?).ok())?;
        let order = if not { SizeOperator::NOT_EQUAL } else { SizeOperator::EQUAL };
        return Some(vec![check(order, bytes)]);
    }
    let limits = SizeLimits::read(&Fields::new(node, SizeLimits::SHAPE));
    if not || (limits.min.is_none() && limits.max.is_none()) {
        report
            .error(codes::CONFLICT, node.at, "limits have `min`, `max` or both, and no `not`")
            .help("write `bytes: {min: 1KiB, max: 2KiB}`");
        return None;
    }
    let least = limits.min.map(|bytes| check(SizeOperator::AT_LEAST, bytes));
    let most = limits.max.map(|bytes| check(SizeOperator::AT_MOST, bytes));
    Some(least.into_iter().chain(most).collect())
}

/// Largest file of a JSON Schema.
const SCHEMA_BYTES: u64 = 4 << 20;

/// A JSON Schema, of a file or written here.
fn schema(
    node: &Node,
    folder: &Path,
    report: &mut Diagnostics,
) -> Option<Arc<jsonschema::Validator>> {
    let text = match node.text() {
        Some(file) => {
            let bytes = bounded_file::read(&folder.join(file), SCHEMA_BYTES);
            String::from_utf8_lossy(&valid(bytes, node, report)?).into_owned()
        }
        None => node.to_json().ok()?,
    };
    let value: Result<serde_json::Value, _> = serde_json::from_str(&text);
    let value = valid(value.map_err(|error| format!("not JSON: {error}")), node, report)?;
    let compiled = jsonschema::validator_for(&value);
    let compiled = compiled.map_err(|error| format!("not a JSON Schema: {error}"));
    valid(compiled, node, report).map(Arc::new)
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
    } else if let Some(name) = keys.cookie {
        Extraction::Cookie(name)
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
