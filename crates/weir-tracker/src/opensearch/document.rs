//! Documents.

use super::{header_name, key_value};
use crate::content::{self, BodyType};
use crate::field::cut;
use crate::part::row::{self, elapsed, names};
use crate::tokenizer;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use std::str::from_utf8;
use weir_journal::{BodyMetadata, Outcome, Transaction};
use weir_model::search_sink::Content;
use weir_model::{TransactionId, UnixMicros};

/// Most bytes of a recorded body that a document has; a longer body is left out.
const MAX_BODY_BYTES: usize = 1 << 20;
/// Bytes of a path that a document has.
const MAX_PATH_BYTES: usize = 4096;

#[derive(Serialize)]
struct Document<'a> {
    id: TransactionId,
    time: UnixMicros,
    time_us: u64,
    took_us: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    node: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    node_name: &'a str,
    state: &'static str,
    status: u16,
    path: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    operation: &'a str,
    #[serde(rename = "type")]
    transaction_type: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    method: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    consumer: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    principal: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    sender: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    receiver: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    problem: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    detail: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    plan: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    upstream_target: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    configuration: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keys: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    retries: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    resubmission_of: Option<TransactionId>,
    #[serde(skip_serializing_if = "is_false")]
    shortened: bool,
    #[serde(skip_serializing_if = "is_false")]
    damaged: bool,
    #[serde(skip_serializing_if = "is_false")]
    expired: bool,
    #[serde(skip_serializing_if = "is_false")]
    discarded: bool,
    request: Body,
    response: Body,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    has: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    header_names: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    words: Option<Words>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Payload<'a>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde requires")]
fn is_zero(number: &u8) -> bool {
    *number == 0
}

/// Metadata of a body.
#[derive(Serialize)]
struct Body {
    length: u64,
    stored: u64,
    #[serde(skip_serializing_if = "is_false")]
    truncated: bool,
    #[serde(skip_serializing_if = "is_false")]
    aborted: bool,
    #[serde(skip_serializing_if = "is_false")]
    masked: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    withheld: Option<String>,
}

impl From<&BodyMetadata> for Body {
    fn from(body: &BodyMetadata) -> Self {
        let BodyMetadata { length, stored, truncated, withheld, aborted, masked, .. } = *body;
        let withheld = withheld.map(|reason| reason.to_string());
        Self { length, stored, truncated, aborted, masked, withheld }
    }
}

/// Words of the texts of a transaction.
#[derive(Default, Serialize)]
struct Words {
    #[serde(skip_serializing_if = "String::is_empty")]
    target: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    headers: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    header: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    body: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other: Vec<String>,
}

/// Whatever is needed to show a transaction and to send it again.
#[derive(Serialize)]
struct Payload<'a> {
    target: &'a str,
    https: bool,
    /// Capture level: whether an empty head or body was recorded.
    level: u8,
    #[serde(skip_serializing_if = "str::is_empty")]
    auth: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    scopes: &'a str,
    request: Part<'a>,
    response: Part<'a>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    properties: &'a [(String, String)],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    logs: &'a [String],
}

/// Head and body as recorded: text, or base64 if they are not UTF-8.
#[derive(Serialize)]
struct Part<'a> {
    #[serde(flatten)]
    head: Recorded<'a>,
    #[serde(flatten)]
    body: Recorded<'a>,
    /// The body is too long for a document.
    #[serde(skip_serializing_if = "is_false")]
    body_left_out: bool,
}

/// Bytes of a head or a body.
struct Recorded<'a> {
    name: &'static str,
    base64_name: &'static str,
    bytes: &'a [u8],
}

impl Serialize for Recorded<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        if !self.bytes.is_empty() {
            match from_utf8(self.bytes) {
                Ok(text) => map.serialize_entry(self.name, text)?,
                Err(_) => map.serialize_entry(self.base64_name, &STANDARD.encode(self.bytes))?,
            }
        }
        map.end()
    }
}

impl<'a> Part<'a> {
    fn new(head: &'a [u8], body: &'a [u8]) -> Self {
        let body_left_out = body.len() > MAX_BODY_BYTES;
        Self {
            head: Recorded { name: "head", base64_name: "head_base64", bytes: head },
            body: Recorded {
                name: "body",
                base64_name: "body_base64",
                bytes: if body_left_out { &[] } else { body },
            },
            body_left_out,
        }
    }
}

/// Appends the document of a transaction as JSON, without a line break. Business keys have to be
/// [extracted](crate::read_keys) before. `node` is the id of the node that recorded it, and its display
/// name; both may be empty.
pub fn write_document(
    transaction: &Transaction,
    (node, node_name): (&str, &str),
    content: Content,
    out: &mut Vec<u8>,
) {
    let payload = content == Content::Payload;
    let (mut words, mut header_names) = (Words::default(), Vec::new());
    if payload {
        words = words_of(transaction);
        header_names = header_names_of(transaction);
    }
    let [
        api,
        operation,
        transaction_type,
        method,
        consumer,
        principal,
        sender,
        receiver,
        problem,
        plan,
        detail,
        upstream_target,
        configuration,
    ] = names(transaction).map(cut);
    let path = row::path(transaction);
    let keys = transaction.keys.iter().map(|(name, value)| key_value(name, Some(value)));
    let document = Document {
        id: id(transaction),
        time: UnixMicros(transaction.received_us),
        time_us: transaction.received_us,
        took_us: elapsed(&transaction.stages),
        node,
        node_name,
        state: transaction.outcome.into(),
        status: transaction.status,
        path: &path[..path.floor_char_boundary(MAX_PATH_BYTES)],
        api,
        operation,
        transaction_type,
        method,
        consumer,
        principal,
        sender,
        receiver,
        problem,
        detail,
        plan,
        upstream_target,
        configuration,
        keys: keys.collect(),
        retries: transaction.retries,
        resubmission_of: Some(transaction.resubmission_of)
            .filter(|of| *of != [0; 16])
            .map(|of| TransactionId(u128::from_be_bytes(of))),
        shortened: transaction.shortened,
        damaged: transaction.damaged || transaction.missing,
        expired: transaction.expired,
        discarded: transaction.discarded,
        request: (&transaction.request).into(),
        response: (&transaction.response).into(),
        has: if payload { has(transaction) } else { Vec::new() },
        header_names,
        words: payload.then_some(words),
        payload: payload.then(|| payload_of(transaction)),
    };
    // Writing to memory does not fail, and the document has no map whose names are not text.
    let _ = serde_json::to_writer(out, &document);
}

/// Appends the action of a bulk request that creates the document of a transaction: its line before that
/// of the document. `sink` is the name of the sink. The index is that of the day of the id.
pub fn write_action(sink: &str, transaction: &Transaction, out: &mut Vec<u8>) {
    let id = id(transaction);
    // Nothing of it has a character that JSON escapes.
    out.extend_from_slice(b"{\"create\":{\"_index\":\"");
    write_index_name(sink, transaction, out);
    out.extend_from_slice(b"\",\"_id\":\"");
    out.extend_from_slice(id.encode(&mut [0; 36]).as_bytes());
    out.extend_from_slice(b"\"}}\n");
}

fn write_index_name(sink: &str, transaction: &Transaction, out: &mut Vec<u8>) {
    let completed = transaction.outcome == Outcome::Completed;
    let state: &[u8] = if completed { b"-done-" } else { b"-failed-" };
    for part in [b"weir-", sink.as_bytes(), state] {
        out.extend_from_slice(part);
    }
    write_day(id(transaction).0, out);
}

/// The UTC day of a UUIDv7 (RFC 9562), as `YYYY.MM.DD`.
#[must_use]
pub fn day(id: u128) -> String {
    let mut text = Vec::new();
    write_day(id, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// For every document: the general formatting of times takes several times as long.
fn write_day(id: u128, out: &mut Vec<u8>) {
    let (year, month, day) = civil(((id >> 80) / 86_400_000) as u32);
    write_digits(year / 100, out);
    write_digits(year % 100, out);
    for number in [month, day] {
        out.push(b'.');
        write_digits(number, out);
    }
}

/// Two digits, or three of a year after 9999.
fn write_digits(number: u32, out: &mut Vec<u8>) {
    if number >= 100 {
        out.push(b'0' + (number / 100) as u8);
    }
    out.push(b'0' + (number / 10 % 10) as u8);
    out.push(b'0' + (number % 10) as u8);
}

/// Year, month and day of a number of days since 1970. A year begins with March here, so that the leap
/// day is its last one; an era has 400 years.
fn civil(days: u32) -> (u32, u32, u32) {
    const DAYS_TO_1970: u32 = 719_468;
    const DAYS_OF_ERA: u32 = 146_097;
    let days = days + DAYS_TO_1970;
    let (era, of_era) = (days / DAYS_OF_ERA, days % DAYS_OF_ERA);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + u32::from(month <= 2), month, day)
}

fn id(transaction: &Transaction) -> TransactionId {
    TransactionId(u128::from_be_bytes(transaction.id))
}

fn payload_of(transaction: &Transaction) -> Payload<'_> {
    Payload {
        target: &transaction.target,
        https: transaction.https,
        level: transaction.level,
        auth: &transaction.auth,
        scopes: &transaction.scopes,
        request: Part::new(&transaction.request_head, &transaction.request_body),
        response: Part::new(&transaction.response_head, &transaction.response_body),
        properties: &transaction.properties,
        logs: &transaction.logs,
    }
}

/// The texts that exist, as [`crate::query`] defines it.
fn has(transaction: &Transaction) -> Vec<&'static str> {
    let body = !transaction.request_body.is_empty() || !transaction.response_body.is_empty();
    let headers = headers(transaction).next().is_some();
    let target = !transaction.target.is_empty();
    let all = [("target", target), ("headers", headers), ("body", body)];
    all.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect()
}

/// The header lines of both directions that are searched.
fn headers(transaction: &Transaction) -> impl Iterator<Item = (&[u8], &[u8])> {
    content::lines(&transaction.request_head).chain(content::lines(&transaction.response_head))
}

fn header_names_of(transaction: &Transaction) -> Vec<String> {
    let mut names: Vec<_> = headers(transaction).map(|(name, _)| header_name(name)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn words_of(transaction: &Transaction) -> Words {
    let target = split(&content::percent_decode(transaction.target.as_bytes()), "");
    let mut words = Words { target, ..Words::default() };
    for (name, value) in headers(transaction) {
        push(&mut words.headers, split(name, ""));
        push(&mut words.headers, split(value, ""));
        push(&mut words.header, split(value, &format!("{}=", header_name(name))));
    }
    let sides = [
        (&transaction.request_head, &transaction.request_body),
        (&transaction.response_head, &transaction.response_body),
    ];
    for (head, body) in sides {
        if let Some(text) = content::text(BodyType::from_head(head), body) {
            push(&mut words.body, split(&text, ""));
        }
    }
    for (name, value) in transaction.keys.iter().chain(&transaction.properties) {
        push(&mut words.other, split(name.as_bytes(), ""));
        push(&mut words.other, split(value.as_bytes(), ""));
    }
    for line in &transaction.logs {
        push(&mut words.other, split(line.as_bytes(), ""));
    }
    words
}

fn push(texts: &mut Vec<String>, text: String) {
    if !text.is_empty() {
        texts.push(text);
    }
}

/// The words of a text, each after `prefix`, separated by a space.
fn split(text: &[u8], prefix: &str) -> String {
    let mut all = Vec::with_capacity(text.len());
    tokenizer::words(text, |word, _| {
        if !all.is_empty() {
            all.push(b' ');
        }
        all.extend_from_slice(prefix.as_bytes());
        all.extend_from_slice(word);
    });
    // Words are UTF-8.
    String::from_utf8(all).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use weir_journal::Withheld;

    fn transaction() -> Transaction {
        Transaction {
            id: 0x0193_5f2b_0000_7000_8000_0000_0000_0001_u128.to_be_bytes(),
            received_us: 1_732_400_000_000_000,
            level: 2,
            method: "POST".to_owned(),
            target: "/orders?pin=17".to_owned(),
            request_head: b"X-Trace: Ab-1\r\ncontent-type: application/json\r\n".to_vec(),
            request_body: br#"{"city":"Utr\u00e9cht"}"#.to_vec(),
            response_body: b"\xff\x00binary".to_vec(),
            response: BodyMetadata { withheld: Some(Withheld::Coding), ..BodyMetadata::default() },
            keys: vec![("a=b".to_owned(), "c=d".to_owned())],
            api: "x".repeat(40_000),
            ..Transaction::default()
        }
    }

    fn document(content: Content) -> Value {
        let mut out = Vec::new();
        write_document(&transaction(), ("0b9e", "node-1"), content, &mut out);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for days in (0..80_000).chain([1_000_000, 2_932_000]) {
            let time = jiff::Timestamp::from_second(i64::from(days) * 86_400).unwrap();
            let id = (time.as_millisecond() as u128) << 80;
            assert_eq!(day(id), time.strftime("%Y.%m.%d").to_string());
        }
        // The latest that an id can have is no day of any calendar here, and no panic.
        assert!(day(u128::MAX).len() >= 10);
    }

    #[test]
    fn the_day_is_that_of_the_id() {
        let index = |transaction: &Transaction| {
            let mut action = Vec::new();
            write_action("search", transaction, &mut action);
            let action: Value = serde_json::from_slice(&action).unwrap();
            assert_eq!(action["create"]["_id"], "01935f2b-0000-7000-8000-000000000001");
            action["create"]["_index"].as_str().unwrap().to_owned()
        };
        assert_eq!(index(&transaction()), "weir-search-done-2024.11.24");
        let failed = Transaction { outcome: Outcome::Failed, ..transaction() };
        assert_eq!(index(&failed), "weir-search-failed-2024.11.24");
        assert_eq!(day(0), "1970.01.01");
    }

    #[test]
    fn without_payload_there_are_metadata_and_keys_alone() {
        let document = document(Content::Keys);
        assert_eq!(document["path"], "/orders");
        assert_eq!(document["keys"][0], "a%3Db=c=d");
        assert_eq!(document["api"].as_str().unwrap().len(), 256);
        let text = document.to_string();
        assert!(!text.contains("pin") && !text.contains("city") && !text.contains("trace"));
    }

    #[test]
    fn with_payload_there_are_words_and_the_bytes_as_recorded() {
        let document = document(Content::Payload);
        assert_eq!(document["words"]["target"], "orders pin 17");
        assert_eq!(document["words"]["header"][0], "x-trace=ab x-trace=1");
        assert_eq!(document["words"]["body"][0], "city utrécht");
        assert_eq!(document["header_names"][1], "x-trace");
        let payload = &document["payload"];
        assert_eq!(payload["request"]["body"], r#"{"city":"Utr\u00e9cht"}"#);
        assert_eq!(payload["response"]["body_base64"], STANDARD.encode(b"\xff\x00binary"));
    }

    #[test]
    fn a_document_gives_the_record_back_byte_for_byte() {
        use crate::opensearch::found_document;
        let answer = |content| {
            let hits = serde_json::json!({"hits": {"hits": [{"_source": document(content)}]}});
            let found = found_document(hits.to_string().as_bytes()).unwrap().unwrap();
            assert_eq!(found.node, ("0b9e".to_owned(), "node-1".to_owned()));
            found.record
        };
        let (found, original) = (answer(Content::Payload), transaction());
        assert_eq!((found.id, &found.target), (original.id, &original.target));
        assert_eq!((found.level, &found.request_head), (2, &original.request_head));
        assert_eq!(found.request_body, original.request_body);
        assert_eq!(found.response_body, original.response_body);
        assert_eq!(found.keys, original.keys);
        assert_eq!(found.response.withheld, original.response.withheld);
        assert!(!found.expired && found.outcome == original.outcome);
        let found = answer(Content::Keys);
        assert!(found.expired && found.request_body.is_empty() && found.target == "/orders");
    }
}
