//! From a document back to the record.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use weir_journal::{BodyMetadata, Outcome, Transaction, Withheld};
use weir_model::{TransactionId, stage};

/// The record of a document.
pub(super) fn recorded(source: &Value) -> Transaction {
    let text = |name: &str| source[name].as_str().unwrap_or_default().to_owned();
    let number = |name: &str| source[name].as_u64().unwrap_or_default();
    let flag = |name: &str| source[name] == true;
    let id = |name: &str| {
        let id = source[name].as_str().and_then(|text| text.parse::<TransactionId>().ok());
        id.unwrap_or_default().0.to_be_bytes()
    };
    let payload = &source["payload"];
    let of_payload = |name: &str| payload[name].as_str().unwrap_or_default().to_owned();
    // Earlier versions had the plan in the payload only.
    let plan = Some(text("plan")).filter(|plan| !plan.is_empty());
    let (request_head, request_body) = part(&payload["request"]);
    let (response_head, response_body) = part(&payload["response"]);
    let took = u32::try_from(number("took_us")).unwrap_or(u32::MAX);
    Transaction {
        id: id("id"),
        received_us: number("time_us"),
        api: text("api"),
        operation: text("operation"),
        transaction_type: text("type"),
        consumer: text("consumer"),
        principal: text("principal"),
        client: text("sender"),
        method: text("method"),
        target: if payload.is_null() { text("path") } else { of_payload("target") },
        request_head,
        response_head,
        request_body,
        response_body,
        plan: plan.unwrap_or_else(|| of_payload("plan")),
        auth: of_payload("auth"),
        scopes: of_payload("scopes"),
        https: payload["https"] == true,
        level: payload["level"].as_u64().and_then(|level| level.try_into().ok()).unwrap_or(0),
        resubmission_of: id("resubmission_of"),
        outcome: source["state"]
            .as_str()
            .and_then(|state| state.parse().ok())
            .unwrap_or(Outcome::Interrupted),
        status: u16::try_from(number("status")).unwrap_or_default(),
        problem: text("problem"),
        detail: text("detail"),
        upstream: text("receiver"),
        upstream_target: text("upstream_target"),
        configuration: text("configuration"),
        stages: vec![(stage::TOTAL, took)],
        request: metadata(&source["request"], &payload["request"]),
        response: metadata(&source["response"], &payload["response"]),
        keys: strings(&source["keys"]).filter_map(key).collect(),
        properties: pairs(&payload["properties"]),
        logs: strings(&payload["logs"]).map(str::to_owned).collect(),
        retries: u8::try_from(number("retries")).unwrap_or(u8::MAX),
        shortened: flag("shortened"),
        damaged: flag("damaged"),
        expired: flag("expired") || payload.is_null() && !flag("discarded"),
        discarded: flag("discarded"),
        ..Transaction::default()
    }
}

/// Head and body.
fn part(part: &Value) -> (Vec<u8>, Vec<u8>) {
    let bytes = |name: &str| match part[name].as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => part[format!("{name}_base64")]
            .as_str()
            .and_then(|text| STANDARD.decode(text).ok())
            .unwrap_or_default(),
    };
    (bytes("head"), bytes("body"))
}

/// A body that the document leaves out was not stored, as far as the document goes.
fn metadata(body: &Value, part: &Value) -> BodyMetadata {
    let left_out = part["body_left_out"] == true || part.is_null();
    let number = |name: &str| body[name].as_u64().unwrap_or_default();
    BodyMetadata {
        length: number("length"),
        stored: if left_out { 0 } else { number("stored") },
        truncated: body["truncated"] == true || left_out && number("stored") > 0,
        aborted: body["aborted"] == true,
        masked: body["masked"] == true,
        withheld: body["withheld"].as_str().map(withheld),
        ..BodyMetadata::default()
    }
}

/// The reason as displayed, as a reason.
fn withheld(text: &str) -> Withheld {
    let known = (0..=u8::MAX).map_while(Withheld::from_repr);
    known.into_iter().find(|reason| reason.to_string() == text).unwrap_or(Withheld::Other)
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn pairs(list: &Value) -> Vec<(String, String)> {
    serde_json::from_value(list.clone()).unwrap_or_default()
}

/// A business key of the field `keys`.
fn key(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once('=')?;
    Some((name.replace("%3D", "=").replace("%25", "%"), value.to_owned()))
}
