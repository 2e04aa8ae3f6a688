//! Random actions on a file system that fails, against a model of what was promised.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use proptest::prelude::*;

use super::*;
use crate::{Follower, TransactionHandle};

#[derive(Clone, Debug)]
enum Action {
    Whole,
    Receive,
    Part(usize, u8),
    Complete(usize),
    Work,
    /// One more passage through a place fails.
    Fail(&'static str, u32),
    Follow(u8),
    Tick,
    /// weir ends without warning and is started again.
    Crash,
}

const PLACES: [&str; 13] = [
    "segment.create",
    "segment.reuse",
    "spare.remove",
    "seal.scanned",
    "seal.part",
    "seal.carried",
    "seal.written",
    "seal.before-recycling",
    "seal.recycle",
    "seal.recycled",
    "retention.drop",
    "checkpoint.write",
    "sync",
];

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => Just(Action::Whole),
        4 => Just(Action::Receive),
        6 => (any::<usize>(), any::<u8>()).prop_map(|(which, byte)| Action::Part(which, byte)),
        4 => any::<usize>().prop_map(Action::Complete),
        3 => Just(Action::Work),
        1 => (prop::sample::select(&PLACES[..]), 0..4u32)
            .prop_map(|(place, after)| Action::Fail(place, after)),
        2 => any::<u8>().prop_map(Action::Follow),
        1 => Just(Action::Tick),
        1 => Just(Action::Crash),
    ]
}

/// What the journal has promised of a transaction: its outcome, and the body if it took it whole.
type Promise = (Outcome, Option<Vec<u8>>);

struct Run {
    data: tempfile::TempDir,
    faults: Faults,
    settings: Settings,
    journal: Option<(Journal, Lane, Follower)>,
    next: u32,
    open: Vec<(TransactionHandle, u32, Vec<u8>)>,
    promised: BTreeMap<u32, Promise>,
    followed: Vec<u32>,
}

fn id(number: u32) -> [u8; 16] {
    let mut id = [0; 16];
    id[..4].copy_from_slice(&number.to_le_bytes());
    id
}

fn number(transaction: &Transaction) -> u32 {
    u32::from_le_bytes(transaction.id[..4].try_into().unwrap())
}

impl Run {
    fn start(settings: Settings) -> Self {
        let mut run = Self {
            data: tempfile::tempdir().unwrap(),
            faults: Faults::default(),
            settings,
            journal: None,
            next: 0,
            open: Vec::new(),
            promised: BTreeMap::new(),
            followed: Vec::new(),
        };
        run.open();
        run
    }

    fn open(&mut self) {
        // What was open and cannot be closed now is closed by a later opening.
        self.faults.clear();
        let (journal, lane, report) = open_with(self.data.path(), self.settings, &self.faults);
        assert!(report.damage.is_empty(), "{report:?}");
        assert_eq!((report.interrupted, report.left_open), (self.open.len() as u64, 0));
        for (_, number, body) in self.open.drain(..) {
            self.promised.insert(number, (Outcome::Interrupted, Some(body)));
        }
        let follower = journal.follower("model").unwrap();
        self.journal = Some((journal, lane, follower));
    }

    fn act(&mut self, action: Action) {
        let (journal, lane, follower) = self.journal.as_mut().unwrap();
        match action {
            Action::Whole => {
                let received = Received { id: id(self.next), ..request(0) };
                if lane.append(&received, &answer()).is_ok() {
                    self.promised.insert(self.next, (Outcome::Completed, Some(Vec::new())));
                }
                self.next += 1;
            }
            Action::Receive => {
                let received = Received { id: id(self.next), ..request(0) };
                if let Ok(handle) = lane.start(&received) {
                    self.open.push((handle, self.next, Vec::new()));
                }
                self.next += 1;
            }
            Action::Part(which, byte) if !self.open.is_empty() => {
                let which = which % self.open.len();
                let (handle, _, body) = &mut self.open[which];
                let bytes = vec![byte; usize::from(byte) * 3];
                if lane.part(*handle, Side::Request, &bytes).is_ok() {
                    body.extend(bytes);
                }
            }
            Action::Complete(which) if !self.open.is_empty() => {
                let (handle, number, body) = self.open.swap_remove(which % self.open.len());
                let end = Completed { outcome: Outcome::Failed, ..answer() };
                let shortened = journal.statistics().shortened;
                lane.complete(handle, &end).unwrap();
                let whole = journal.statistics().shortened == shortened;
                self.promised.insert(number, (Outcome::Failed, whole.then_some(body)));
            }
            Action::Part(..) | Action::Complete(_) => {}
            Action::Work => {
                let _ = journal.work();
            }
            Action::Fail(place, after) => self.faults.inject_after(place, after, ErrorKind::Other),
            Action::Follow(most) => {
                let mut reader = journal.follow(follower, 0);
                let mut read = Vec::new();
                for _ in 0..most {
                    let Some(one) = reader.next_transaction().unwrap() else { break };
                    assert!(!one.expired, "dropped before it was followed");
                    read.push(number(&one));
                }
                let before = Position::from_bits(follower.position(0).to_bits());
                follower.advance(&reader);
                if follower.commit().is_ok() {
                    self.followed.extend(read);
                } else {
                    *follower = journal.follower("model").unwrap_or_else(|_| {
                        self.faults.clear();
                        journal.follower("model").unwrap()
                    });
                    assert_eq!(follower.position(0), before);
                }
            }
            Action::Tick => lane.tick(),
            Action::Crash => {
                self.journal = None;
                self.open();
            }
        }
    }

    fn finish(mut self) {
        self.journal = None;
        self.open();
        let (journal, lane, _) = self.journal.as_ref().unwrap();
        let _ = lane;
        journal.work().unwrap();
        let mut read = BTreeMap::new();
        for one in all(journal) {
            assert!(!one.damaged, "{one:?}");
            assert_eq!(read.insert(number(&one), one).map(|twice| twice.id), None);
        }
        for (number, (outcome, body)) in &self.promised {
            let Some(one) = read.get(number) else {
                assert!(self.followed.contains(number), "{number} is lost");
                continue;
            };
            assert_eq!(one.outcome, *outcome);
            let kept = !one.expired;
            assert!(kept || self.followed.contains(number));
            if let Some(body) = body.as_ref().filter(|_| kept) {
                assert_eq!(&one.request_body, body, "{number}");
                assert!(!one.shortened);
            }
        }
        let unknown = read.keys().find(|number| !self.promised.contains_key(number));
        assert_eq!(unknown, None, "what was refused is not there");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_promised_is_kept(
        actions in prop::collection::vec(action(), 1..250),
        short in any::<bool>(),
        old in any::<bool>(),
    ) {
        let settings = Settings {
            disk_bytes: if short { 14 * 4096 } else { 1 << 20 },
            keep_completed: if old { Duration::ZERO } else { FOREVER },
            seal_after: Duration::ZERO,
            ..SMALL
        };
        let mut run = Run::start(settings);
        for action in actions {
            run.act(action);
        }
        run.finish();
    }
}
