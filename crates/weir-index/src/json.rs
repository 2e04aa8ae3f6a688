//! A hit as JSON: one object, one line of an export.
//!
//! `id`, `time` (RFC 3339, UTC), `took_us`, `status`, `state` and the names that are not empty are
//! always there. With the payload come `target`, `request` and `response` (`headers` as pairs,
//! `body` as text, or `body_base64` if it is not UTF-8, `length`, and `truncated`, `withheld`,
//! `aborted` where true), `keys`, `properties`, `logs` and `highlights`. `expired` says that the
//! journal keeps the payload no longer.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use weir_journal::{BodyFacts, Transaction};

use crate::check::Highlight;
use crate::content;
use crate::query::Name;
use crate::row::Row;
use crate::search::Hit;

/// How much is told of a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What everyone may see who may see transactions.
    Metadata,
    /// And what was sent and answered.
    Payload,
}

impl Hit {
    /// The hit as an object.
    #[must_use]
    pub fn json(&self, detail: Detail) -> Value {
        let mut out = metadata(&self.row);
        if detail == Detail::Payload {
            match &self.transaction {
                Some(transaction) => payload(transaction, &mut out),
                None => drop(out.insert("expired".to_owned(), true.into())),
            }
            if !self.highlights.is_empty() {
                let all = self.highlights.iter().map(highlight).collect();
                out.insert("highlights".to_owned(), Value::Array(all));
            }
        }
        Value::Object(out)
    }
}

fn metadata(row: &Row) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("id".to_owned(), dashed(row.id).into());
    let time = i64::try_from(row.time).ok();
    let time = time.and_then(|time| Timestamp::from_microsecond(time).ok());
    out.insert("time".to_owned(), time.map(|time| format!("{time:.6}")).into());
    out.insert("took_us".to_owned(), row.took.into());
    out.insert("status".to_owned(), row.status.into());
    out.insert("state".to_owned(), row.state().into());
    for name in Name::ALL {
        if !row.name(name).is_empty() {
            out.insert(name.as_str().to_owned(), row.name(name).into());
        }
    }
    out
}

/// As RFC 9562 writes it.
fn dashed(id: u128) -> String {
    let digits = format!("{id:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

fn payload(transaction: &Transaction, out: &mut Map<String, Value>) {
    out.insert("target".to_owned(), transaction.target.as_str().into());
    let sides = [
        ("request", &transaction.request_head, &transaction.request_body, &transaction.request),
        ("response", &transaction.response_head, &transaction.response_body, &transaction.response),
    ];
    for (name, head, body, facts) in sides {
        out.insert(name.to_owned(), side(head, body, facts));
    }
    let pairs = [("keys", &transaction.keys), ("properties", &transaction.properties)];
    for (name, pairs) in pairs {
        if !pairs.is_empty() {
            let pairs = pairs.iter().map(|(name, value)| json!([name, value])).collect();
            out.insert(name.to_owned(), Value::Array(pairs));
        }
    }
    if !transaction.logs.is_empty() {
        out.insert("logs".to_owned(), transaction.logs.clone().into());
    }
    if transaction.expired {
        out.insert("expired".to_owned(), true.into());
    }
}

fn side(head: &[u8], body: &[u8], facts: &BodyFacts) -> Value {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let headers = content::lines(head).map(|(name, value)| json!([text(name), text(value)]));
    let mut out = Map::new();
    out.insert("headers".to_owned(), Value::Array(headers.collect()));
    out.insert("length".to_owned(), facts.length.max(body.len() as u64).into());
    match std::str::from_utf8(body) {
        Ok("") => None,
        Ok(body) => out.insert("body".to_owned(), body.into()),
        Err(_) => out.insert("body_base64".to_owned(), BASE64_STANDARD.encode(body).into()),
    };
    let flags = [
        ("truncated", facts.truncated),
        ("withheld", facts.withheld.is_some()),
        ("aborted", facts.aborted),
    ];
    for (name, _) in flags.into_iter().filter(|(_, set)| *set) {
        out.insert(name.to_owned(), true.into());
    }
    Value::Object(out)
}

fn highlight(highlight: &Highlight) -> Value {
    let marks: Vec<_> = highlight.marks.iter().map(|mark| json!([mark.start, mark.end])).collect();
    json!({"place": highlight.place, "text": highlight.text, "marks": marks})
}

#[cfg(test)]
mod tests {
    use super::Detail;
    use crate::search::Hit;
    use crate::{Name, Row};

    #[test]
    fn an_object_says_what_its_reader_may_see_on_one_line() {
        let transaction = weir_journal::Transaction {
            target: "/a?q=secret".into(),
            request_head: b"x-a: one\r\ny: \xff\r\n".to_vec(),
            request_body: b"line\nline\x1b[31m".to_vec(),
            response_body: vec![0xff, 0],
            keys: vec![("order".into(), "A-17".into())],
            ..Default::default()
        };
        let mut row =
            Row { id: 0x0197 << 112, time: 1_795_176_000_000_001, status: 200, ..Row::default() };
        row.names[Name::Api as usize] = "orders".into();
        let hit = Hit { row, transaction: Some(transaction), highlights: Vec::new() };
        assert_eq!(
            hit.json(Detail::Metadata).to_string(),
            r#"{"id":"01970000-0000-0000-0000-000000000000","time":"2026-11-20T12:00:00.000001Z","took_us":0,"status":200,"state":"completed","api":"orders"}"#
        );
        let whole = hit.json(Detail::Payload).to_string();
        assert!(whole.ends_with(concat!(
            r#""target":"/a?q=secret","request":{"headers":[["x-a","one"],["y","�"]],"length":14,"#,
            r#""body":"line\nline\u001b[31m"},"response":{"headers":[],"length":2,"body_base64":"/wA="},"#,
            r#""keys":[["order","A-17"]]}"#
        )), "{whole}");
        assert!(!whole.contains('\n') && !whole.contains('\x1b'));
    }
}
