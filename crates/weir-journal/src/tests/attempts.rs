//! Attempts at upstreams in the record of a transaction.

use super::*;
use weir_model::Attempt;

#[test]
fn attempts_and_the_last_target_come_back() {
    let data = tempfile::tempdir().unwrap();
    let (journal, mut lane, _) = open(data.path());
    let failed = Attempt {
        target: "10.0.0.7:8080".to_owned(),
        started_us: 70_000,
        duration_us: u32::MAX,
        status: 503,
        error: String::new(),
    };
    let unreachable = Attempt {
        target: "unix:/run/app.sock".to_owned(),
        error: "connect".to_owned(),
        ..Attempt::default()
    };
    let attempts = [failed, unreachable];
    let end = Completed { upstream_target: "10.0.0.8:8080", attempts: &attempts, ..answer() };
    lane.append(&request(1), &end).unwrap();
    // What is recorded when there is no room names the target only.
    lane.append(&request(2), &end.reduced()).unwrap();
    let read = all(&journal);
    assert!(read.iter().all(|one| one.upstream_target == "10.0.0.8:8080" && !one.damaged));
    assert_eq!((&read[0].attempts[..], &read[1].attempts[..]), (&attempts[..], &[][..]));
    // An error too long for its length is rejected, not cut.
    let long = [Attempt { error: "e".repeat(256), ..Attempt::default() }];
    assert!(!Completed { attempts: &long, ..answer() }.encode(&mut Vec::new()));
}

#[test]
fn a_malformed_attempt_marks_the_transaction_as_damaged() {
    for value in [&[0; 10][..], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, b'x']] {
        let mut record = ((value.len() as u32) << 8).to_le_bytes().to_vec();
        record[0] = 52;
        record.extend_from_slice(value);
        let mut transaction = Transaction::default();
        transaction.add_fields(&record, true);
        assert!(transaction.damaged && transaction.attempts.is_empty());
    }
}
