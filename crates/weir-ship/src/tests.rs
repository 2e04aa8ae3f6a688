//! A journal, a shipper, and an OpenSearch whose responses the tests decide.

mod kafka;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_journal::{
    Completed, Journal, Lane, Outcome, Position, Received, Settings as JournalSettings, Skipped,
};
use weir_model::search_sink::Content;

use super::*;

/// 2026-11-26T12:00:00Z in milliseconds.
const NOON: u128 = 1_795_694_400_000;
const SINK: &str = "search";

/// A UUIDv7.
fn id(number: u64) -> [u8; 16] {
    ((NOON << 80) | (7 << 76) | (2 << 62) | u128::from(number)).to_be_bytes()
}

fn append(lane: &mut Lane, numbers: std::ops::Range<u64>, body: &[u8]) {
    for number in numbers {
        let received = Received {
            id: id(number),
            received_us: NOON as u64 * 1000,
            method: "POST",
            target: "/orders",
            head: b"content-type: text/plain\r\n",
            ..Received::default()
        };
        let outcome = if number % 10 == 9 { Outcome::Failed } else { Outcome::Completed };
        let end = Completed { outcome, status: 200, request_body: body, ..Completed::default() };
        let deadline = Instant::now() + Duration::from_secs(30);
        while lane.append(&received, &end).is_err() {
            assert!(Instant::now() < deadline, "a record is refused");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// What the next bulk request meets.
type Fault = Box<dyn FnOnce(&mut Engine, &[(Value, Value)]) -> Result<Response, String>>;

#[derive(Default)]
struct Engine {
    documents: BTreeMap<(String, String), Value>,
    creates: usize,
    /// Documents of each bulk request.
    bulks: Vec<usize>,
    faults: Vec<Fault>,
    template: Option<Value>,
}

fn respond(status: u16, body: impl Into<String>) -> Result<Response, String> {
    Ok(Response { status, body: body.into().into_bytes().into() })
}

fn item(status: u16, kind: &str) -> Value {
    match status {
        201 => json!({"create": {"status": 201}}),
        _ => json!({"create": {"status": status, "error": {"type": kind, "reason": "because"}}}),
    }
}

impl Engine {
    fn take(&mut self, request: &Request) -> Result<Response, String> {
        match (request.method, request.path.as_str()) {
            ("POST", path) if path.starts_with("/_bulk?") => self.bulk(&request.body),
            ("GET", "/_index_template/weir-search") => match &self.template {
                Some(template) => {
                    let found = json!({"index_templates": [{"index_template": template}]});
                    respond(200, found.to_string())
                }
                None => respond(404, "{}"),
            },
            ("PUT", "/_index_template/weir-search") => {
                self.template = serde_json::from_slice(&request.body).ok();
                respond(200, "{}")
            }
            ("GET", path) if path.starts_with("/_cat/indices/") => respond(200, "[]"),
            other => panic!("{other:?}"),
        }
    }

    fn bulk(&mut self, body: &[u8]) -> Result<Response, String> {
        let lines: Vec<Value> = body
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect();
        let pairs: Vec<(Value, Value)> =
            lines.chunks(2).map(|pair| (pair[0]["create"].clone(), pair[1].clone())).collect();
        self.bulks.push(pairs.len());
        if !self.faults.is_empty() {
            return self.faults.remove(0)(self, &pairs);
        }
        self.create_all(&pairs)
    }

    fn create(&mut self, action: &Value, document: &Value) -> Value {
        let text = |name: &str| action[name].as_str().unwrap().to_owned();
        let (index, id) = (text("_index"), text("_id"));
        if self.documents.contains_key(&(index.clone(), id.clone())) {
            return item(409, "version_conflict_engine_exception");
        }
        self.creates += 1;
        self.documents.insert((index, id), document.clone());
        item(201, "")
    }

    fn create_all(&mut self, pairs: &[(Value, Value)]) -> Result<Response, String> {
        let items: Vec<_> =
            pairs.iter().map(|(action, document)| self.create(action, document)).collect();
        respond(200, json!({"errors": true, "items": items}).to_string())
    }

    /// Creates all documents but those for which `refuse` has a response.
    fn create_unless(
        &mut self,
        pairs: &[(Value, Value)],
        refuse: impl Fn(usize, &Value) -> Option<Value>,
    ) -> Result<Response, String> {
        let items: Vec<_> = pairs
            .iter()
            .enumerate()
            .map(|(at, (action, document))| {
                refuse(at, document).unwrap_or_else(|| self.create(action, document))
            })
            .collect();
        respond(200, json!({"errors": true, "items": items}).to_string())
    }
}

struct Bench {
    data: tempfile::TempDir,
    journal: Arc<Journal>,
    lane: Lane,
    shipper: Shipper,
    engine: Engine,
    now: Instant,
    notes: Vec<String>,
}

fn settings(content: Content, max_backlog: u64) -> Settings {
    let keep = Duration::from_secs(90 * 24 * 60 * 60);
    Settings {
        name: SINK.to_owned(),
        content,
        node: ("0b9e8c1a".to_owned(), "node-1".to_owned()),
        keys: Arc::default(),
        max_backlog,
        destination: Destination::OpenSearch {
            keep_completed: keep,
            keep_failed: keep,
            deletes_indexes: true,
        },
    }
}

impl Bench {
    fn new(content: Content) -> Self {
        Self::with(content, JournalSettings::default(), 1 << 30)
    }

    fn with(content: Content, journal: JournalSettings, max_backlog: u64) -> Self {
        let data = tempfile::tempdir().unwrap();
        let (journal, mut lanes, _) = Journal::open(data.path(), journal).unwrap();
        let journal = Arc::new(journal);
        let settings = settings(content, max_backlog);
        let shipper = Shipper::open(&journal, data.path(), settings).unwrap();
        Self {
            data,
            journal,
            lane: lanes.remove(0),
            shipper,
            engine: Engine::default(),
            now: Instant::now(),
            notes: Vec::new(),
        }
    }

    fn fault(
        &mut self,
        fault: impl FnOnce(&mut Engine, &[(Value, Value)]) -> Result<Response, String> + 'static,
    ) {
        self.engine.faults.push(Box::new(fault));
    }

    /// One request that fails as a whole.
    fn fail(&mut self, response: Result<Response, String>) {
        self.fault(move |_, _| response);
    }

    /// Sends everything that can be sent now; false if there was nothing.
    fn step(&mut self) -> bool {
        self.shipper.work(self.now).unwrap();
        let mut requests = Vec::new();
        while let Some(next) = self.shipper.next_request(self.now) {
            requests.push(next);
            self.shipper.work(self.now).unwrap();
        }
        let sent = !requests.is_empty();
        for (ticket, request) in requests {
            let response = self.engine.take(&request);
            self.shipper.settle(ticket, response, self.now).unwrap();
        }
        self.notes.extend(self.shipper.take_notes());
        sent
    }

    /// Ships everything; delays pass at once.
    fn ship(&mut self) {
        for _ in 0..100_000 {
            let sent = self.step();
            self.now += self.shipper.wait(self.now);
            if sent || !self.shipper.wait(self.now).is_zero() {
                continue;
            }
            // Documents that do not fill a request wait.
            self.now += Duration::from_secs(1);
            if self.shipper.is_idle() && !self.shipper.is_backfilling() {
                self.shipper.work(self.now).unwrap();
                return;
            }
        }
        panic!("it does not end: {:?}", self.shipper.statistics());
    }

    fn lag(&self) -> u64 {
        let lags = self.journal.lags().unwrap();
        lags.iter().find(|lag| lag.name == "ship-search").unwrap().records
    }
}

#[test]
fn every_transaction_is_in_the_index_of_its_state_and_day_once() {
    let mut bench = Bench::new(Content::Keys);
    append(&mut bench.lane, 0..5_000, b"x");
    bench.ship();
    let of = |kind: &str| {
        let index = format!("weir-search-{kind}-2026.11.26");
        bench.engine.documents.keys().filter(|(found, _)| *found == index).count()
    };
    assert_eq!((of("done"), of("failed")), (4_500, 500));
    assert_eq!(bench.engine.bulks.iter().max(), Some(&2_000));
    assert_eq!((bench.shipper.statistics().docs, bench.lag()), (5_000, 0));
}

#[test]
fn documents_that_do_not_fill_a_request_wait_for_others_and_not_for_long() {
    let mut bench = Bench::new(Content::Keys);
    bench.ship();
    append(&mut bench.lane, 0..1, b"x");
    assert!(bench.step(), "the last one was long ago");
    append(&mut bench.lane, 1..2_001, b"x");
    assert!(bench.step(), "it is full");
    append(&mut bench.lane, 2_001..2_004, b"x");
    bench.now += Duration::from_millis(499);
    assert!(!bench.step());
    bench.now += Duration::from_millis(1);
    assert!(bench.step());
    assert_eq!(bench.engine.bulks, [1, 2_000, 3]);
}

#[test]
fn the_checkpoint_waits_for_what_is_acknowledged_and_a_restart_sends_the_rest_again() {
    let mut bench = Bench::new(Content::Keys);
    bench.ship();
    append(&mut bench.lane, 0..6_000, b"x");
    // Two bulks in flight, of which the first is not acknowledged.
    bench.fail(Err("connection reset".to_owned()));
    bench.step();
    assert_eq!(bench.engine.bulks, [2_000, 2_000]);
    assert_eq!(bench.lag(), 6_000, "the second one may not advance the checkpoint alone");
    bench.shipper.close().unwrap();
    let settings = settings(Content::Keys, 1 << 30);
    bench.shipper = Shipper::open(&bench.journal, bench.data.path(), settings).unwrap();
    bench.ship();
    assert_eq!((bench.engine.documents.len(), bench.engine.creates), (6_000, 6_000));
    assert_eq!(bench.shipper.statistics().docs, 6_000, "those that exist are acknowledged, too");
    assert_eq!(bench.lag(), 0);
}

#[test]
fn only_items_that_are_rejected_for_now_are_repeated() {
    let mut bench = Bench::new(Content::Keys);
    append(&mut bench.lane, 0..1_000, b"x");
    for (status, kind) in [
        (429, "rejected_execution_exception"),
        (503, "unavailable_shards_exception"),
        (403, "cluster_block_exception"),
    ] {
        bench.fault(move |engine, pairs| {
            engine.create_unless(pairs, |at, _| (at % 4 == 0).then(|| item(status, kind)))
        });
    }
    bench.ship();
    assert_eq!(bench.engine.bulks, [1_000, 250, 63, 16]);
    assert_eq!((bench.engine.documents.len(), bench.shipper.statistics().rejected), (1_000, 0));
    assert_eq!(bench.lag(), 0);
}

#[test]
fn whole_requests_that_fail_are_repeated_smaller_and_grow_again() {
    let mut bench = Bench::new(Content::Keys);
    append(&mut bench.lane, 0..20_000, b"x");
    let blocked = r#"{"error":{"type":"cluster_block_exception","reason":"disk"}}"#;
    bench.fail(Err("connection refused".to_owned()));
    bench.fail(respond(429, "{}"));
    bench.fail(respond(503, "<html>Service Unavailable</html>"));
    bench.fail(respond(200, "<html>Welcome</html>"));
    bench.fail(respond(200, r#"{"errors":false,"items":[{"create":{"status":2"#));
    bench.fail(respond(403, blocked));
    bench.fault(|engine, pairs| {
        // It was executed, and the response is lost.
        engine.create_all(pairs)?;
        Err("connection reset".to_owned())
    });
    bench.ship();
    assert!(bench.engine.bulks.contains(&50), "{:?}", bench.engine.bulks);
    assert_eq!(bench.engine.bulks.iter().rev().nth(1), Some(&2_000), "{:?}", bench.engine.bulks);
    assert_eq!((bench.engine.documents.len(), bench.engine.creates), (20_000, 20_000));
    assert!(bench.notes.len() < 5, "{:?}", bench.notes);
}

#[test]
fn a_request_that_is_too_large_is_halved_down_to_one_document() {
    let mut bench = Bench::new(Content::Payload);
    append(&mut bench.lane, 0..64, b"small");
    append(&mut bench.lane, 64..65, &[b'x'; 60_000]);
    append(&mut bench.lane, 65..100, b"small");
    for _ in 0..200 {
        bench.fault(|engine, pairs| {
            let bytes: usize = pairs.iter().map(|(_, document)| document.to_string().len()).sum();
            if bytes > 20_000 { respond(413, "") } else { engine.create_all(pairs) }
        });
    }
    bench.ship();
    assert_eq!(bench.engine.documents.len(), 100);
    let reduced = bench.engine.documents.values().filter(|doc| doc.get("payload").is_none());
    assert_eq!(reduced.count(), 1, "the long one is there without its payload");
    assert_eq!(bench.shipper.statistics().rejected, 0);
}

#[test]
fn a_poisonous_document_is_sent_without_payload_and_then_rejected_and_holds_up_nothing() {
    let mut bench = Bench::new(Content::Payload);
    append(&mut bench.lane, 0..1_000, b"x");
    for _ in 0..3 {
        bench.fault(|engine, pairs| {
            engine.create_unless(pairs, |_, document| {
                let id = document["id"].as_str().unwrap();
                let poison = |number: u64| {
                    let wanted = weir_model::TransactionId(u128::from_be_bytes(self::id(number)));
                    id == wanted.to_string()
                };
                let refused = poison(5) || poison(7) && document.get("payload").is_some();
                refused.then(|| item(400, "mapper_parsing_exception"))
            })
        });
    }
    bench.ship();
    assert_eq!(bench.engine.documents.len(), 999);
    assert_eq!((bench.shipper.statistics().rejected, bench.lag()), (1, 0));
    let found = rejected(bench.data.path(), 10).unwrap();
    assert_eq!((found.len(), found[0].status, found[0].sink.as_str()), (1, 400, SINK));
    assert!(found[0].reason.contains("mapper_parsing_exception"), "{found:?}");
}

#[test]
fn a_sink_that_refuses_altogether_is_paused_and_goes_on_when_it_accepts() {
    let mut bench = Bench::new(Content::Keys);
    append(&mut bench.lane, 0..100, b"x");
    let shards = |pairs: &[(Value, Value)]| {
        let items: Vec<_> = pairs.iter().map(|_| item(400, "validation_exception")).collect();
        respond(200, json!({"items": items}).to_string())
    };
    let conflict = |pairs: &[(Value, Value)]| {
        let items: Vec<_> = pairs.iter().map(|_| item(400, "mapper_parsing_exception")).collect();
        respond(200, json!({"items": items}).to_string())
    };
    bench.fail(respond(401, "Unauthorized"));
    bench.fail(respond(403, r#"{"error":{"type":"security_exception","reason":"no"}}"#));
    bench.fault(move |_, pairs| shards(pairs));
    bench.fault(move |_, pairs| conflict(pairs));
    while bench.engine.bulks.len() < 4 {
        bench.step();
        let paused = bench.shipper.statistics().paused.is_some();
        assert_eq!(paused, !bench.engine.bulks.is_empty());
        bench.now += bench.shipper.wait(bench.now);
    }
    assert_eq!(bench.lag(), 100);
    bench.ship();
    assert_eq!(bench.engine.documents.len(), 100);
    assert_eq!((bench.shipper.statistics().paused.as_ref(), bench.lag()), (None, 0));
    assert_eq!(bench.shipper.statistics().rejected, 0, "an index at fault rejects no documents");
    // 401 and 403, two item errors, and the end.
    assert_eq!(bench.notes.len(), 5, "{:?}", bench.notes);
}

#[test]
fn a_template_of_another_application_is_left_alone_and_nothing_is_sent() {
    let mut bench = Bench::new(Content::Keys);
    append(&mut bench.lane, 0..10, b"x");
    bench.engine.template = Some(json!({"version": 1}));
    for _ in 0..5 {
        bench.step();
        bench.now += bench.shipper.wait(bench.now);
    }
    assert!(bench.engine.bulks.is_empty());
    assert!(bench.shipper.statistics().paused.as_ref().unwrap().contains("weir-search"));
    assert_eq!(bench.engine.template, Some(json!({"version": 1})));
    bench.engine.template = None;
    bench.ship();
    assert_eq!(bench.engine.documents.len(), 10);
    assert_eq!(bench.shipper.statistics().paused, None);
}

#[test]
fn an_outage_beyond_the_backlog_leaves_a_gap_with_its_number_and_recording_goes_on() {
    let disk_bytes = 4 << 20;
    let journal = JournalSettings { segment_bytes: 64 << 10, disk_bytes, ..<_>::default() };
    let mut bench = Bench::with(Content::Payload, journal, disk_bytes / 2);
    append(&mut bench.lane, 0..10, b"x");
    bench.ship();
    // Words and figures that do not compress.
    let mut noise = 7u64;
    for number in 10..30_000 {
        let body: String = (0..40)
            .map(|_| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                format!("{:x} ", noise >> 20)
            })
            .collect();
        append(&mut bench.lane, number..number + 1, body.as_bytes());
        if number % 1_000 == 0 {
            // The shipper tries, in vain, and knows what is dropped meanwhile.
            bench.fail(Err("connection refused".to_owned()));
            bench.now += Duration::from_secs(40);
            bench.step();
            bench.engine.faults.clear();
        }
    }
    bench.ship();
    let gap_of = |why: &str| {
        let found: Vec<_> = gaps(bench.data.path(), 100)
            .unwrap()
            .into_iter()
            .filter(|gap| gap.why == why)
            .collect();
        found.iter().for_each(|gap| assert!(!gap.at_most));
        (found.len(), found.iter().map(|gap| gap.records).sum::<u64>())
    };
    let documents = bench.engine.documents.len() as u64;
    let (gaps, records) = gap_of("record");
    assert_eq!(documents + records, 30_000);
    let (_, without_payload) = gap_of("payload");
    let expired = bench.engine.documents.values().filter(|doc| doc["expired"] == true).count();
    assert_eq!(without_payload, expired as u64);
    assert!(expired + gaps > 0, "the outage is longer than the backlog");
    let gap_records = bench.shipper.statistics().gap_records;
    assert_eq!((gap_records, bench.lag()), (records + without_payload, 0));
    // Whatever was dropped is gone: a backfill says so.
    let progress = backfill(&mut bench, &BackfillOptions::default());
    assert_eq!((progress.recovered, progress.gone), (0, records), "{progress:?}");
    let found = super::gaps(bench.data.path(), 100).unwrap().into_iter();
    let filled = found.filter(|gap| gap.why == "record").map(|gap| gap.filled.unwrap().gone);
    assert_eq!(filled.map(Option::unwrap).sum::<u64>(), records);
}

/// Runs a backfill to its end.
fn backfill(bench: &mut Bench, options: &BackfillOptions) -> BackfillProgress {
    bench.shipper.start_backfill(options).unwrap();
    bench.ship();
    for _ in 0..100_000 {
        if !bench.shipper.is_backfilling() {
            break;
        }
        bench.step();
    }
    let progress = bench.shipper.backfill().unwrap().clone();
    assert_eq!(progress.state, BackfillState::Completed, "{progress:?}");
    progress
}

/// Notes a gap from a position of the journal to its end, as if it had not been sent.
fn add_gap(bench: &mut Bench, from: Position, records: u64) {
    let to = bench.journal.end(0);
    let gap = Skipped { lane: 0, from, to, records, at_most: false };
    let mut database = records::Records::open(bench.data.path(), SINK).unwrap();
    database.add_gap(records::Missing::Record, gap).unwrap();
}

#[test]
fn a_backfill_sends_what_is_in_gaps_and_leaves_the_rest_alone() {
    let mut bench = Bench::new(Content::Payload);
    append(&mut bench.lane, 0..100, b"x");
    let from = bench.journal.end(0);
    append(&mut bench.lane, 100..5_100, b"y");
    bench.ship();
    // What is not in a gap stays missing; ten records were dropped.
    bench.engine.documents.clear();
    add_gap(&mut bench, from, 5_010);
    let progress = backfill(&mut bench, &BackfillOptions::default());
    assert_eq!(bench.engine.documents.len(), 5_000);
    assert_eq!((progress.ranges, progress.done, progress.records), (1, 1, 5_010));
    assert_eq!((progress.read, progress.recovered, progress.gone), (5_000, 5_000, 10));
    let filled = gaps(bench.data.path(), 1).unwrap()[0].filled.unwrap();
    assert_eq!((filled.recovered, filled.gone), (5_000, Some(10)));
    // Once more, with a document that is rejected for good.
    bench.engine.documents.pop_last();
    bench.fault(|engine, pairs| {
        engine
            .create_unless(pairs, |at, _| (at == 0).then(|| item(400, "mapper_parsing_exception")))
    });
    bench.fault(|engine, pairs| {
        engine.create_unless(pairs, |_, document| {
            document.get("payload").is_none().then(|| item(400, "mapper_parsing_exception"))
        })
    });
    bench.fault(|engine, pairs| {
        engine.create_unless(pairs, |_, document| {
            document.get("payload").is_none().then(|| item(400, "mapper_parsing_exception"))
        })
    });
    let progress = backfill(&mut bench, &BackfillOptions::default());
    assert_eq!((progress.recovered, progress.rejected), (4_999, 1), "{progress:?}");
    let all = BackfillOptions { all: true, ..<_>::default() };
    assert_eq!(backfill(&mut bench, &all).recovered, 5_100);
    assert_eq!(bench.engine.documents.len(), 5_100);
    let later = BackfillOptions { from: Some(NOON as u64 * 1000 + 1), ..all };
    assert_eq!(backfill(&mut bench, &later).read, 0, "none is of that time");
}

#[test]
fn a_backfill_has_every_second_bulk_while_transactions_come_in() {
    let mut bench = Bench::new(Content::Keys);
    append(&mut bench.lane, 0..10_000, b"x");
    let from = bench.journal.begin(0);
    bench.ship();
    bench.engine.documents.clear();
    bench.engine.bulks.clear();
    add_gap(&mut bench, from, 10_000);
    bench.shipper.start_backfill(&BackfillOptions::default()).unwrap();
    append(&mut bench.lane, 10_000..20_000, b"x");
    let id = |number: u64| weir_model::TransactionId(u128::from_be_bytes(self::id(number)));
    let old = id(10_000).to_string();
    // A transaction that comes in waits for one bulk of the backfill at most.
    for _ in 0..3 {
        bench.step();
    }
    let live = bench.engine.documents.keys().filter(|(_, id)| *id >= old).count();
    let filled = bench.engine.documents.len() - live;
    assert!(live >= filled && filled > 0, "{live} live, {filled} of the backfill");
    bench.ship();
    assert_eq!((bench.lag(), bench.engine.documents.len() >= 10_000), (0, true));
}

#[test]
fn a_checkpoint_that_was_set_back_changes_no_document() {
    let mut bench = Bench::new(Content::Keys);
    append(&mut bench.lane, 0..3_000, b"x");
    bench.ship();
    let before = bench.engine.documents.clone();
    bench.journal.forget("ship-search").unwrap();
    let settings = settings(Content::Keys, 1 << 30);
    bench.shipper = Shipper::open(&bench.journal, bench.data.path(), settings).unwrap();
    bench.ship();
    assert_eq!(bench.shipper.statistics().docs, 3_000);
    assert!(before == bench.engine.documents && bench.engine.creates == 3_000);
}

#[test]
fn followers_of_other_sinks_are_removed() {
    let bench = Bench::new(Content::Keys);
    bench.journal.follower("tracker").unwrap();
    let other = Settings { name: "other".to_owned(), ..settings(Content::Keys, 1) };
    Shipper::open(&bench.journal, bench.data.path(), other).unwrap();
    remove_other_followers(&bench.journal, &[SINK]).unwrap();
    assert_eq!(bench.journal.followers(), ["ship-search", "tracker"]);
}
