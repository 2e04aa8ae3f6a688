//! Documents from records of the journal, rows of the index and the ledger.

use super::{
    Body, BodyMetadata, Change, Field, Hit, Payload, Stage, Summary, Transaction, UpstreamAttempt,
};
use crate::content::decode_body;
use crate::part::row::{self, NAMES, Row};
use crate::search;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use data_encoding::HEXLOWER;
use weir_journal::{self as journal, Absence};
use weir_model::stage;
use weir_model::{TransactionId, UnixMicros};
use weir_store::ledger::History;

/// Maximum bytes of a body in a document.
const MAX_BODY_BYTES: usize = 8 << 20;
/// Maximum bytes of a decoded body.
const MAX_DECODED_BYTES: usize = 1 << 20;

impl Summary {
    /// The summary of a row with its names in full, without the path.
    fn new(row: &Row, names: [&str; NAMES]) -> Self {
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
        ] = names.map(str::to_owned);
        Self {
            id: TransactionId(row.id),
            time: UnixMicros(row.time),
            took_us: row.elapsed,
            state: row.state().to_owned(),
            resolution: resolution(row.outcome),
            status: row.status,
            method,
            path: String::new(),
            api,
            operation,
            transaction_type,
            consumer,
            principal,
            sender,
            receiver,
            problem,
            detail,
            plan,
            upstream_target,
            configuration,
            node: String::new(),
            sink: String::new(),
        }
    }
}

/// Without the payload.
impl From<&journal::Transaction> for Summary {
    fn from(transaction: &journal::Transaction) -> Self {
        let mut summary = Self::new(&Row::of(transaction), row::names(transaction));
        row::path(transaction).clone_into(&mut summary.path);
        // The resolution is that of the original.
        if transaction.resubmission_of != [0; 16] {
            summary.resolution.clear();
        }
        summary
    }
}

impl From<&Row> for Summary {
    fn from(row: &Row) -> Self {
        Self::new(row, row.names.each_ref().map(String::as_str))
    }
}

fn id(bytes: [u8; 16]) -> TransactionId {
    TransactionId(u128::from_be_bytes(bytes))
}

impl Transaction {
    /// Adds attempts and resolutions, with descriptions of edits if `payload`.
    pub(crate) fn add_history(&mut self, history: History, payload: bool) {
        if let Some(last) = history.changes.last() {
            self.summary.resolution = last.state.to_string();
        }
        self.history.extend(history.changes.into_iter().map(|change| Change {
            state: change.state.to_string(),
            time: Some(change.at),
            who: change.who,
            comment: change.comment,
        }));
        self.attempts = history.attempts;
        if !payload {
            self.attempts.iter_mut().for_each(|attempt| attempt.difference = None);
        }
    }
}

/// The initial resolution: a failed transaction is open.
fn resolution(outcome: journal::Outcome) -> String {
    let open = outcome == journal::Outcome::Failed;
    if open { "open".to_owned() } else { String::new() }
}

fn history(transaction: &journal::Transaction) -> Vec<Change> {
    let total = transaction.stages.iter().find(|(code, _)| *code == stage::TOTAL);
    let ended = total.map(|(_, took)| transaction.received_us.saturating_add(u64::from(*took)));
    vec![
        Change {
            state: "received".to_owned(),
            time: Some(UnixMicros(transaction.received_us)),
            ..Change::default()
        },
        Change {
            state: transaction.outcome.to_string(),
            time: ended.map(UnixMicros),
            ..Change::default()
        },
    ]
}

impl Hit {
    /// A hit, with its business keys if permitted.
    pub(crate) fn of_hit(mut hit: search::Hit, keys: bool) -> Self {
        let found = hit.transaction.as_mut().filter(|_| keys);
        let keys = found.map(|transaction| std::mem::take(&mut transaction.keys));
        let absence = hit.transaction.is_none().then_some(hit.absence);
        Self {
            summary: hit.transaction.as_ref().map_or_else(|| (&hit.row).into(), Summary::from),
            damaged: absence == Some(Absence::Damaged),
            missing: absence == Some(Absence::Missing),
            highlights: hit.highlights,
            keys: fields(keys.unwrap_or_default()),
        }
    }
}

impl Transaction {
    /// The complete transaction of a hit, with its payload if permitted.
    pub(crate) fn of_hit(hit: search::Hit, payload: bool) -> Self {
        let Some(transaction) = hit.transaction else {
            return Self {
                summary: (&hit.row).into(),
                expired: hit.absence == Absence::Dropped,
                damaged: hit.absence == Absence::Damaged,
                missing: hit.absence == Absence::Missing,
                ..Self::default()
            };
        };
        Self::new(transaction, payload)
    }

    /// From a record. The payload is only built if permitted: bodies have to be decoded for it.
    pub(crate) fn new(transaction: journal::Transaction, payload: bool) -> Self {
        let stages = transaction.stages.iter().map(|(code, took)| Stage {
            name: stage::name(*code).map_or_else(|| format!("stage-{code}"), str::to_owned),
            took_us: u64::from(*took),
        });
        Self {
            summary: (&transaction).into(),
            history: history(&transaction),
            stages: stages.collect(),
            resubmission_of: Some(transaction.resubmission_of).filter(|of| *of != [0; 16]).map(id),
            attempts: Vec::new(),
            upstream_attempts: transaction.attempts.into_iter().map(upstream_attempt).collect(),
            retries: transaction.retries,
            request: metadata(&transaction.request),
            response: metadata(&transaction.response),
            shortened: transaction.shortened,
            damaged: transaction.damaged,
            expired: transaction.expired,
            missing: transaction.missing,
            discarded: transaction.discarded,
            payload: payload.then(|| Payload {
                target: transaction.target,
                request_headers: headers(&transaction.request_head),
                request_body: body(&transaction.request_head, &transaction.request_body),
                response_headers: headers(&transaction.response_head),
                response_body: body(&transaction.response_head, &transaction.response_body),
                keys: fields(transaction.keys),
                properties: fields(transaction.properties),
                logs: transaction.logs,
            }),
        }
    }
}

fn upstream_attempt(attempt: weir_model::Attempt) -> UpstreamAttempt {
    let weir_model::Attempt { target, started_us, duration_us, status, error } = attempt;
    UpstreamAttempt { target, started_us, took_us: duration_us, status, error }
}

fn metadata(body: &journal::BodyMetadata) -> BodyMetadata {
    let journal::BodyMetadata { length, stored, truncated, withheld, aborted, masked, hash } =
        *body;
    let withheld = withheld.map(|why| why.to_string()).unwrap_or_default();
    let hash = match hash {
        [0, ..] if hash.iter().all(|byte| *byte == 0) => String::new(),
        hash => HEXLOWER.encode(&hash),
    };
    BodyMetadata { length, stored, truncated, withheld, aborted, masked, hash }
}

/// Header lines as recorded.
fn headers(head: &[u8]) -> Vec<Field> {
    let text = String::from_utf8_lossy(head);
    let lines = text.split("\r\n").filter(|line| !line.is_empty());
    let field = |line: &str| {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        Field { name: name.to_owned(), value: value.trim().to_owned() }
    };
    lines.map(field).collect()
}

fn fields(pairs: Vec<(String, String)>) -> Vec<Field> {
    pairs.into_iter().map(|(name, value)| Field { name, value }).collect()
}

fn body(head: &[u8], recorded: &[u8]) -> Body {
    let decoded = decode_body(head, recorded, MAX_DECODED_BYTES);
    let cut = decoded.truncated || decoded.bytes.len() > MAX_BODY_BYTES;
    let shown = &decoded.bytes[..decoded.bytes.len().min(MAX_BODY_BYTES)];
    let (decoded_from, still_in) = match decoded.decoded {
        true => (decoded.codings, String::new()),
        false => (String::new(), decoded.codings),
    };
    let text = match std::str::from_utf8(shown) {
        Ok(text) => Some(text),
        // It may have been truncated in the middle of a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&shown[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    let (text, base64) = match text {
        Some(text) => (Some(text.to_owned()), None),
        None => (None, Some(STANDARD.encode(shown))),
    };
    Body { text, base64, decoded_from, still_in, cut }
}

/// The path of a target. The query belongs to the payload.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_no_payload() {
        let transaction = journal::Transaction {
            target: "/a?pin=secret".to_owned(),
            request_head: b"X-A: secret\r\n".to_vec(),
            request_body: b"secret".to_vec(),
            keys: vec![("k".to_owned(), "secret".to_owned())],
            ..journal::Transaction::default()
        };
        let text = serde_json::to_string(&Summary::from(&transaction)).unwrap();
        assert!(text.contains("\"/a\"") && !text.contains("secret"), "{text}");
        assert!(Transaction::new(transaction.clone(), false).payload.is_none());
        let shown = Transaction::new(transaction, true);
        let payload = shown.payload.unwrap();
        assert_eq!(payload.request_headers[0].name, "X-A");
        assert_eq!(payload.request_body.text.as_deref(), Some("secret"));
    }

    #[test]
    fn bodies_are_text_where_they_can_be() {
        assert_eq!(body(b"", "a€".as_bytes()).text.as_deref(), Some("a€"));
        assert_eq!(body(b"", &"a€".as_bytes()[..3]).text.as_deref(), Some("a"));
        assert_eq!(body(b"", b"\xffa").base64.as_deref(), Some("/2E="));
        let long = body(b"", &vec![b'a'; MAX_BODY_BYTES + 1]);
        assert!(long.cut && long.text.is_some_and(|text| text.len() == MAX_BODY_BYTES));
    }
}
