//! kill -9 at random moments.

use super::load::{Load, Responses};
use super::{config, show, wait_for_index};
use crate::harness::{self, Signal, Weir, each_transaction, eventually, id_of, kills};
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;
use weir_journal::Outcome;

/// Answers that are looked up after each kill.
const SAMPLE: usize = 20;

/// Compares what is in a journal with what clients received whole. Gives how many transactions
/// are there.
pub(super) fn compare(data: &Path, responses: &Responses) -> usize {
    let mut records: HashMap<String, (u32, Outcome, u16, bool)> = HashMap::new();
    each_transaction(data, |one| {
        let record = records.entry(id_of(&one)).or_insert((0, one.outcome, one.status, false));
        record.0 += 1;
        record.3 |= one.damaged;
    });
    let twice: Vec<_> = records.iter().filter(|(_, record)| record.0 > 1).collect();
    assert!(twice.is_empty(), "recorded twice: {twice:?}");
    let damaged: Vec<_> = records.iter().filter(|(_, record)| record.3).collect();
    assert!(damaged.is_empty(), "damaged: {damaged:?}");
    for (id, status) in responses {
        let outcome = if *status >= 500 { Outcome::Failed } else { Outcome::Completed };
        let found = records.get(id).map(|record| (record.1, record.2));
        assert_eq!(found, Some((outcome, *status)), "{id} of {} answers", responses.len());
    }
    records.len()
}

#[test]
fn after_a_kill_every_complete_response_has_exactly_one_record() {
    let echo = harness::echo(&[]);
    let mut weir = Weir::new(&config(&echo, 2, "", "journal: {when_full: refuse}\n")).start();
    let (mut all, mut rounds) = (Responses::new(), 0);
    while rounds < kills() {
        let load = Load::start(weir.listen[0]);
        // Also on a machine that has much else to do.
        eventually("some answers", || load.answered() > 60);
        std::thread::sleep(Duration::from_millis(fastrand::u64(..400)));
        weir.kill();
        let responses = load.end();
        rounds += 1;
        weir.restart(&[]);
        wait_for_index(&weir);
        let step = (responses.len() / SAMPLE).max(1);
        for (id, status) in responses.iter().step_by(step) {
            let found = show(&weir, id).unwrap_or_else(|| panic!("kill {rounds}: no {id}"));
            assert_eq!(found["status"], *status, "kill {rounds}: {found}");
        }
        all.extend(responses);
    }
    weir.signal(Signal::TERM);
    weir.wait();
    let recorded = compare(&weir.data(), &all);
    let failed = all.values().filter(|status| **status >= 500).count();
    eprintln!("{rounds} kills, {} whole answers, {recorded} records", all.len());
    assert!(failed > 0 && all.len() > 50 * rounds, "{} answers are no test", all.len());
    assert!(recorded > all.len(), "no request was in flight at any kill");
    // Restarts have closed whatever was open.
    let settings = weir_journal::Settings { lanes: 0, ..weir_journal::Settings::default() };
    let (_, _, report) = weir_journal::Journal::open(&weir.data(), settings).expect("a journal");
    assert_eq!((report.interrupted, report.left_open), (0, 0), "{report:?}");
}
