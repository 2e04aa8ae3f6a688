//! A shipper for Kafka: a topic whose verdicts the tests decide.

use super::*;

/// A shipper with the transactions of a lane.
fn bench(transactions: u64) -> Bench {
    let mut bench = Bench::new(Content::Payload);
    let settings =
        Settings { destination: Destination::Kafka, ..settings(Content::Payload, 1 << 30) };
    bench.shipper = Shipper::open(&bench.journal, bench.data.path(), settings).unwrap();
    append(&mut bench.lane, 0..transactions, b"x");
    bench.shipper.work(bench.now).unwrap();
    bench
}

fn key(number: u64) -> String {
    weir_model::TransactionId(u128::from_be_bytes(id(number))).to_string()
}

impl Bench {
    /// Sends the next messages; the verdict on each is given by its key.
    fn send(&mut self, verdict: impl Fn(&str) -> ItemVerdict) -> Vec<EventMessage> {
        let Some((ticket, messages)) = self.shipper.next_messages(self.now).unwrap() else {
            return Vec::new();
        };
        let of = |message: &EventMessage| verdict(std::str::from_utf8(&message.key).unwrap());
        let verdicts = messages.iter().map(of).collect();
        self.shipper.settle_messages(ticket, verdicts, self.now).unwrap();
        self.now += Duration::from_secs(60);
        self.shipper.work(self.now).unwrap();
        messages
    }
}

#[test]
fn the_checkpoint_waits_for_the_message_that_is_repeated() {
    let mut bench = bench(10);
    assert!(bench.shipper.next_request(bench.now).is_none(), "no request to OpenSearch");
    let retried = key(3);
    let sent = bench.send(|key| match key == retried {
        true => ItemVerdict::Retry("no leader".to_owned()),
        false => ItemVerdict::Done,
    });
    assert_eq!(sent.len(), 10);
    let header = |message: &EventMessage, name| {
        message.headers.iter().find(|(found, _)| *found == name).map(|(_, value)| value.clone())
    };
    assert_eq!(header(&sent[9], "ce_type").as_deref(), Some("weir.transaction.failed"));
    assert_eq!(header(&sent[0], "ce_id"), Some(key(0)));
    let value: Value = serde_json::from_slice(&sent[0].value).unwrap();
    assert_eq!((&value["id"], &value["node"]), (&key(0).into(), &"node-1".into()));
    assert_eq!((bench.shipper.is_idle(), bench.lag()), (false, 10), "it waits for the fourth");
    let again = bench.send(|_| ItemVerdict::Done);
    assert_eq!(again.iter().map(|message| &*message.key).collect::<Vec<_>>(), [retried.as_bytes()]);
    assert_eq!((bench.shipper.is_idle(), bench.lag()), (true, 0));
    assert_eq!(bench.shipper.statistics().docs, 10);
}

#[test]
fn a_rejected_message_is_sent_without_payload_and_then_noted() {
    let mut bench = bench(2);
    let rejected = key(1);
    let reject = |key: &str| match key == rejected {
        true => ItemVerdict::Rejected(10, "too large".to_owned()),
        false => ItemVerdict::Done,
    };
    let payload = |message: &EventMessage| {
        let value: Value = serde_json::from_slice(&message.value).unwrap();
        value.get("payload").is_some()
    };
    let sent = bench.send(reject);
    assert!(payload(&sent[1]));
    let reduced = bench.send(reject);
    assert_eq!((reduced.len(), payload(&reduced[0])), (1, false));
    assert_eq!((bench.shipper.is_idle(), bench.lag()), (true, 0));
    let noted = rejected_documents(&bench);
    assert_eq!(noted, [(rejected, 10)]);
}

fn rejected_documents(bench: &Bench) -> Vec<(String, u16)> {
    let found = crate::rejected(bench.data.path(), 10).unwrap();
    found.into_iter().map(|one| (one.id.to_string(), one.status)).collect()
}

#[test]
fn a_topic_has_no_backfill() {
    let mut bench = bench(1);
    let started = bench.shipper.start_backfill(&BackfillOptions::default());
    assert!(matches!(started, Err(ShipError::NoBackfill)), "{started:?}");
    assert!(bench.shipper.backfill().is_none());
}

#[test]
fn a_topic_is_not_searched() {
    let bench = bench(1);
    let unsent = |_: &str, _| -> Sending { panic!("nothing is sent") };
    let sinks = Sinks::new(&bench.journal, || {}, unsent);
    let state = |kind, content| {
        let (statistics, backfill) = (Statistics::default(), None);
        SinkState { kind, content, statistics, backfill }
    };
    let topic = ("a".to_owned(), state(SinkKind::Kafka, Content::Payload));
    sinks.publish([topic.clone()].into());
    assert_eq!(sinks.searched(), None);
    assert!(!sinks.backfill("a", BackfillOptions::default()));
    let search = ("b".to_owned(), state(SinkKind::OpenSearch, Content::Keys));
    sinks.publish([topic, search].into());
    assert_eq!(sinks.searched(), Some(("b".to_owned(), Content::Keys)));
    assert!(sinks.backfill("b", BackfillOptions::default()));
}
