//! From what journal and index have to what is shown.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use weir_admin::tracker::{
    Body, BodyMetadata, Bucket, Change, Counted, Counts, Damage, Facet, Field, Highlight, Hit,
    JournalState, Lag, MissingFile, Payload, Recovery, Stage, Summary, Transaction,
};
use weir_journal::{self as journal, Absence, stage};
use weir_store::ledger::History;
use weir_tracker::{Name, Row, transaction_type};

/// Most bytes of a body that are shown.
const LONGEST_BODY: usize = 8 << 20;
/// Most bytes of a body that is decoded to be shown.
const LONGEST_DECODED: usize = 1 << 20;

/// Everything but the payload.
pub(super) fn summary(transaction: &journal::Transaction) -> Summary {
    let total = transaction.stages.iter().find(|(code, _)| *code == stage::TOTAL);
    let text = String::clone;
    // It is dealt with where it began.
    let is_attempt = transaction.resubmission_of != [0; 16];
    Summary {
        id: id(u128::from_be_bytes(transaction.id)),
        time: time(transaction.received_us),
        took_us: total.map_or(0, |(_, took)| u64::from(*took)),
        state: state_name(transaction.outcome).to_owned(),
        resolution: if is_attempt { String::new() } else { resolution(transaction.outcome) },
        status: transaction.status,
        method: text(&transaction.method),
        path: path(&transaction.target),
        api: text(&transaction.api),
        operation: text(&transaction.operation),
        transaction_type: transaction_type(transaction).to_owned(),
        consumer: text(&transaction.consumer),
        principal: text(&transaction.principal),
        sender: text(&transaction.client),
        receiver: text(&transaction.upstream),
        problem: text(&transaction.problem),
    }
}

fn state_name(outcome: journal::Outcome) -> &'static str {
    match outcome {
        journal::Outcome::Completed => "completed",
        journal::Outcome::Failed => "failed",
        journal::Outcome::Interrupted => "interrupted",
    }
}

/// Adds what was done about a transaction.
pub(super) fn tell(shown: &mut Transaction, past: History, payload: bool) {
    if let Some(last) = past.changes.last() {
        shown.summary.resolution = last.state.name().to_owned();
    }
    shown.history.extend(past.changes.into_iter().map(|change| Change {
        state: change.state.name().to_owned(),
        time: Some(time(change.at)),
        who: change.who,
        comment: change.comment,
    }));
    let attempts = past.attempts.into_iter();
    shown.attempts = attempts.map(|one| crate::resubmit::attempt(one, payload)).collect();
}

/// What failed is open, unless something was done about it.
fn resolution(outcome: journal::Outcome) -> String {
    let open = outcome == journal::Outcome::Failed;
    if open { "open".to_owned() } else { String::new() }
}

fn history(transaction: &journal::Transaction) -> Vec<Change> {
    let total = transaction.stages.iter().find(|(code, _)| *code == stage::TOTAL);
    let ended =
        total.map(|(_, took)| time(transaction.received_us.saturating_add(u64::from(*took))));
    vec![
        Change {
            state: "received".to_owned(),
            time: Some(time(transaction.received_us)),
            ..Change::default()
        },
        Change {
            state: state_name(transaction.outcome).to_owned(),
            time: ended,
            ..Change::default()
        },
    ]
}

fn of_row(row: &Row) -> Summary {
    let name = |name| row.name(name).to_owned();
    Summary {
        id: id(row.id),
        time: time(row.time),
        took_us: row.elapsed,
        state: row.state().to_owned(),
        resolution: resolution(row.outcome),
        status: row.status,
        method: name(Name::Method),
        path: String::new(),
        api: name(Name::Api),
        operation: name(Name::Operation),
        transaction_type: name(Name::Type),
        consumer: name(Name::Consumer),
        principal: name(Name::Principal),
        sender: name(Name::Sender),
        receiver: name(Name::Receiver),
        problem: name(Name::Problem),
    }
}

/// What a search found.
pub(super) fn hit(hit: weir_tracker::Hit) -> Hit {
    let summary = hit.transaction.as_ref().map_or_else(|| of_row(&hit.row), summary);
    let highlight = |found: weir_tracker::Highlight| Highlight {
        place: found.location.to_owned(),
        text: found.text,
        marks: found.marks.into_iter().map(|mark| [mark.start, mark.end]).collect(),
    };
    let absence = hit.transaction.is_none().then_some(hit.absence);
    Hit {
        summary,
        damaged: absence == Some(Absence::Damaged),
        missing: absence == Some(Absence::Missing),
        highlights: hit.highlights.into_iter().map(highlight).collect(),
    }
}

/// A hit of an export, with its payload only for those who may see it.
pub(super) fn exported(hit: weir_tracker::Hit, payload: bool) -> Transaction {
    let Some(whole) = hit.transaction else {
        let summary = of_row(&hit.row);
        return Transaction {
            summary,
            expired: hit.absence == Absence::Dropped,
            damaged: hit.absence == Absence::Damaged,
            missing: hit.absence == Absence::Missing,
            ..Transaction::default()
        };
    };
    transaction(whole, payload)
}

/// All of it, or all but its payload, for which bodies would have to be decoded.
pub(super) fn transaction(whole: journal::Transaction, payload: bool) -> Transaction {
    let stages = whole.stages.iter().map(|(code, took)| Stage {
        name: stage::name(*code).map_or_else(|| format!("stage-{code}"), str::to_owned),
        took_us: u64::from(*took),
    });
    Transaction {
        summary: summary(&whole),
        history: history(&whole),
        stages: stages.collect(),
        resubmission_of: match whole.resubmission_of {
            [0, ..] if whole.resubmission_of == [0; 16] => String::new(),
            of => id(u128::from_be_bytes(of)),
        },
        attempts: Vec::new(),
        detail: whole.detail,
        retries: whole.retries,
        request: facts(&whole.request),
        response: facts(&whole.response),
        shortened: whole.shortened,
        damaged: whole.damaged,
        expired: whole.expired,
        missing: whole.missing,
        discarded: whole.discarded,
        payload: payload.then(|| Payload {
            target: whole.target,
            request_headers: headers(&whole.request_head),
            request_body: body(&whole.request_head, &whole.request_body),
            response_headers: headers(&whole.response_head),
            response_body: body(&whole.response_head, &whole.response_body),
            keys: fields(whole.keys),
            properties: fields(whole.properties),
            logs: whole.logs,
        }),
    }
}

fn facts(facts: &journal::BodyMetadata) -> BodyMetadata {
    let journal::BodyMetadata { length, stored, truncated, withheld, aborted, masked, hash } =
        *facts;
    let withheld = withheld.map_or("", journal::Withheld::as_str).to_owned();
    let hash = match hash {
        [0, ..] if hash.iter().all(|byte| *byte == 0) => String::new(),
        hash => hash.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    BodyMetadata { length, stored, truncated, withheld, aborted, masked, hash }
}

/// Header lines as they stood on the wire.
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
    let decoded = weir_tracker::decode_body(head, recorded, LONGEST_DECODED);
    let cut = decoded.truncated || decoded.bytes.len() > LONGEST_BODY;
    let shown = &decoded.bytes[..decoded.bytes.len().min(LONGEST_BODY)];
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

/// How many a query finds.
pub(super) fn counts(summary: weir_tracker::Summary, payload: bool) -> Counts {
    let facet = |facet: weir_tracker::Facet| Facet {
        field: facet.field,
        values: (facet.values.into_iter()).map(|(value, count)| Counted { value, count }).collect(),
        more: facet.more,
    };
    let bucket = |(begin, count)| Bucket { time: time(begin), count };
    Counts {
        matched: summary.matched,
        facets: summary.facets.into_iter().map(facet).collect(),
        bucket_ms: summary.width / 1000,
        histogram: summary.histogram.into_iter().map(bucket).collect(),
        cut: summary.cut,
        incomplete: summary.incomplete || summary.cut,
        payload,
    }
}

/// The state of the journal; the lag of the index is told by the index.
pub(super) fn state(
    done: journal::Statistics,
    recovery: &journal::RecoveryReport,
    lags: &[journal::Lag],
    index: weir_tracker::Statistics,
) -> JournalState {
    let lag = |lag: &journal::Lag| Lag {
        name: lag.name.clone(),
        records: lag.records,
        bytes: lag.bytes,
        seconds: lag.age.as_secs_f64(),
    };
    JournalState {
        records: done.records,
        bytes: done.bytes,
        refused: done.refused,
        shortened: done.shortened,
        errors: done.errors,
        segments: done.segments,
        sealed: done.sealed,
        unsealed: done.unsealed,
        dropped: done.dropped,
        disk_bytes: done.disk_bytes,
        recovery: Recovery {
            segments: recovery.segments,
            records: recovery.records,
            interrupted: recovery.interrupted,
            left_open: recovery.left_open,
            damage: recovery.damage.iter().map(damage).collect(),
            missing: recovery.missing.iter().map(missing).collect(),
            damaged_checkpoints: recovery.checkpoints.iter().map(|c| c.follower.clone()).collect(),
        },
        followers: lags.iter().map(lag).collect(),
        indexed: index.transactions,
        index_lag_records: index.lag_records,
        index_lag_seconds: index.lag_us as f64 / 1e6,
    }
}

fn missing(file: &journal::MissingFile) -> MissingFile {
    MissingFile {
        lane: file.lane,
        segment: file.segment,
        kind: file.kind.to_owned(),
        transactions: file.transactions,
        accepted: file.accepted,
    }
}

fn damage(damage: &journal::Damage) -> Damage {
    Damage {
        lane: damage.lane,
        segment: damage.position.segment(),
        offset: damage.position.offset(),
        bytes: damage.bytes,
    }
}

pub(crate) fn id(id: u128) -> String {
    uuid::Uuid::from_u128(id).to_string()
}

pub(crate) fn time(us: u64) -> String {
    let time = i64::try_from(us).ok().and_then(|us| jiff::Timestamp::from_microsecond(us).ok());
    time.unwrap_or_default().to_string()
}

/// The path of a target: its query may say what only those may see who may see payloads.
fn path(target: &str) -> String {
    target.split('?').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_has_no_payload() {
        let whole = journal::Transaction {
            target: "/a?pin=secret".to_owned(),
            request_head: b"X-A: secret\r\n".to_vec(),
            request_body: b"secret".to_vec(),
            keys: vec![("k".to_owned(), "secret".to_owned())],
            ..journal::Transaction::default()
        };
        let text = serde_json::to_string(&summary(&whole)).unwrap();
        assert!(text.contains("\"/a\"") && !text.contains("secret"), "{text}");
        assert!(transaction(whole.clone(), false).payload.is_none());
        let shown = transaction(whole, true);
        let payload = shown.payload.unwrap();
        assert_eq!(payload.request_headers[0].name, "X-A");
        assert_eq!(payload.request_body.text.as_deref(), Some("secret"));
    }

    #[test]
    fn bodies_are_text_where_they_can_be() {
        assert_eq!(body(b"", "a€".as_bytes()).text.as_deref(), Some("a€"));
        assert_eq!(body(b"", &"a€".as_bytes()[..3]).text.as_deref(), Some("a"));
        assert_eq!(body(b"", b"\xffa").base64.as_deref(), Some("/2E="));
        let long = body(b"", &vec![b'a'; LONGEST_BODY + 1]);
        assert!(long.cut && long.text.is_some_and(|text| text.len() == LONGEST_BODY));
    }
}
