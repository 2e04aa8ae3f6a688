//! Bulk requests, and what their responses mean.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

use crate::queue::Item;
use crate::request::{Request, Response};

/// What is asked of a response: the status of each item, in the order of the request.
const PATH: &str =
    "/_bulk?filter_path=errors,items.*.status,items.*.error.type,items.*.error.reason";
/// Longest reason that is kept, in bytes.
const MAX_REASON_BYTES: usize = 300;
/// A document of a value begins with this in a reason: it is a part of a payload.
const VALUE_PREVIEW: &str = "Preview of field's value";
/// Errors of items with status 400 that concern the index, not the document.
const INDEX_ERRORS: [&str; 3] =
    ["validation_exception", "index_closed_exception", "invalid_index_name_exception"];

/// The request for these documents.
pub(crate) fn request(items: &[Item]) -> Request {
    let mut body = Vec::with_capacity(items.iter().map(|item| item.lines.len()).sum());
    for item in items {
        body.extend_from_slice(&item.lines);
    }
    let content_type = "application/x-ndjson";
    Request { method: "POST", path: PATH.to_owned(), content_type, body: body.into() }
}

/// What a response means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// A verdict for each item.
    Items(Vec<ItemVerdict>),
    /// The whole request is to be repeated.
    Retry(String),
    /// The request is too large, or a part of it is wrong and the response does not say which.
    Divide(u16, String),
    /// An operator has to change something.
    Pause(String),
}

/// What happened to a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ItemVerdict {
    /// The sink has it now, or had it before.
    Done,
    /// To be repeated.
    Retry(String),
    /// The document is rejected: status and reason.
    Rejected(u16, String),
    /// An operator has to change something.
    Pause(String),
}

#[derive(Deserialize)]
struct Outcome {
    #[serde(default)]
    items: Vec<Operation>,
}

/// The only operation of a bulk request.
#[derive(Deserialize)]
struct Operation {
    create: ItemOutcome,
}

#[derive(Deserialize)]
struct ItemOutcome {
    status: u16,
    #[serde(default)]
    error: ItemError,
}

#[derive(Default, Deserialize)]
struct ItemError {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    reason: String,
}

/// Judges the response to a request with `count` documents, or the error of its connection.
pub(crate) fn judge(response: Result<Response, String>, count: usize) -> Verdict {
    let Response { status, body } = match response {
        Ok(response) => response,
        Err(error) => return Verdict::Retry(error),
    };
    match status {
        200 => items(&body, count),
        413 => Verdict::Divide(status, "too large for OpenSearch".to_owned()),
        400 => Verdict::Divide(status, error_of(&body, status)),
        403 if is_blocked(&body) => Verdict::Retry(error_of(&body, status)),
        408 | 429 | 500..=599 => Verdict::Retry(error_of(&body, status)),
        _ => Verdict::Pause(error_of(&body, status)),
    }
}

/// Whether a 403 is that of a full disk or of an index that is read-only for now.
pub(crate) fn is_blocked(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains("cluster_block_exception")
}

fn items(body: &Bytes, count: usize) -> Verdict {
    let Ok(outcome) = serde_json::from_slice::<Outcome>(body) else {
        return Verdict::Retry("status 200 without the response of a bulk request".to_owned());
    };
    if outcome.items.len() != count {
        let found = outcome.items.len();
        return Verdict::Retry(format!("a response for {found} documents instead of {count}"));
    }
    Verdict::Items(outcome.items.into_iter().map(|item| judge_item(item.create)).collect())
}

fn judge_item(ItemOutcome { status, error }: ItemOutcome) -> ItemVerdict {
    let reason = || format!("status {status}: {}: {}", error.kind, without_values(&error.reason));
    match status {
        200..=299 | 409 => ItemVerdict::Done,
        408 | 429 | 500..=599 => ItemVerdict::Retry(reason()),
        403 if error.kind == "cluster_block_exception" => ItemVerdict::Retry(reason()),
        400 if INDEX_ERRORS.contains(&error.kind.as_str()) => ItemVerdict::Pause(reason()),
        400 | 413 => ItemVerdict::Rejected(status, reason()),
        _ => ItemVerdict::Pause(reason()),
    }
}

/// The error in the body of a response.
pub(crate) fn error_of(body: &[u8], status: u16) -> String {
    let error = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let text = |name: &str| error["error"][name].as_str().unwrap_or_default().to_owned();
    let (kind, reason) = (text("type"), text("reason"));
    if kind.is_empty() {
        return format!("status {status}");
    }
    format!("status {status}: {kind}: {}", without_values(&reason))
}

/// A reason without values of the document, cut.
fn without_values(reason: &str) -> &str {
    let reason = reason.split(VALUE_PREVIEW).next().unwrap_or_default().trim_end();
    &reason[..reason.floor_char_boundary(MAX_REASON_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, body: &str) -> Result<Response, String> {
        Ok(Response { status, body: Bytes::copy_from_slice(body.as_bytes()) })
    }

    fn judge_items(items: &str) -> Vec<ItemVerdict> {
        let count = items.matches("create").count();
        match judge(response(200, &format!(r#"{{"errors":true,"items":[{items}]}}"#)), count) {
            Verdict::Items(items) => items,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_item_is_judged_by_itself() {
        let error = |status: u16, kind: &str| {
            format!(
                r#"{{"create":{{"status":{status},"error":{{"type":"{kind}","reason":"r"}}}}}}"#
            )
        };
        let all = [
            r#"{"create":{"status":201}}"#.to_owned(),
            error(409, "version_conflict_engine_exception"),
            error(429, "rejected_execution_exception"),
            error(503, "unavailable_shards_exception"),
            error(403, "cluster_block_exception"),
            error(400, "mapper_parsing_exception"),
            error(400, "validation_exception"),
            error(403, "security_exception"),
            error(404, "index_not_found_exception"),
        ];
        let kinds: Vec<_> = judge_items(&all.join(","))
            .into_iter()
            .map(|item| match item {
                ItemVerdict::Done => "done",
                ItemVerdict::Retry(_) => "retry",
                ItemVerdict::Rejected(..) => "rejected",
                ItemVerdict::Pause(_) => "pause",
            })
            .collect();
        assert_eq!(
            kinds,
            ["done", "done", "retry", "retry", "retry", "rejected", "pause", "pause", "pause"]
        );
    }

    #[test]
    fn a_response_that_is_not_of_a_bulk_request_settles_nothing() {
        for body in ["<html>ok</html>", r#"{"errors":false,"items":[{"create":{"sta"#, "{}", ""] {
            assert!(matches!(judge(response(200, body), 1), Verdict::Retry(_)), "{body}");
        }
        let blocked = r#"{"error":{"type":"cluster_block_exception","reason":"disk"}}"#;
        assert!(matches!(judge(response(403, blocked), 1), Verdict::Retry(_)));
        for status in [429, 500, 502, 503, 504] {
            assert!(matches!(judge(response(status, "<html>"), 1), Verdict::Retry(_)));
        }
        for status in [401, 403, 404, 405, 301] {
            assert!(matches!(judge(response(status, "{}"), 1), Verdict::Pause(_)));
        }
        assert!(matches!(judge(response(413, ""), 1), Verdict::Divide(413, _)));
        assert!(matches!(judge(Err("connection refused".to_owned()), 1), Verdict::Retry(_)));
    }

    #[test]
    fn a_reason_has_no_value_of_a_document() {
        let item = r#"{"create":{"status":400,"error":{"type":"mapper_parsing_exception",
            "reason":"failed to parse field [time]. Preview of field's value: 'secret'"}}}"#;
        let expected = "status 400: mapper_parsing_exception: failed to parse field [time].";
        assert_eq!(judge_items(item), [ItemVerdict::Rejected(400, expected.to_owned())]);
    }
}
