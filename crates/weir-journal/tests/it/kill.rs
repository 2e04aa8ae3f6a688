//! What the promise says about kill -9: every acknowledged transaction is there once, and nothing
//! stays open. The test runs itself again as the writer that is killed.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use weir_journal::{Completed, Journal, Outcome, Position, Received, Refused, Settings, Side};

const WRITER: &str = "WEIR_JOURNAL_TEST_WRITER";
fn settings() -> Settings {
    Settings { segment_bytes: 16 << 10, ..Settings::default() }
}

fn request(number: u64) -> Received<'static> {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&number.to_le_bytes());
    // Not so long ago that it is dropped for its age.
    Received {
        id,
        received_us: 4_102_444_800_000_000,
        method: "POST",
        target: "/",
        ..Received::default()
    }
}

/// A loop that does nothing else is faster than segments are made ready.
fn patiently<T>(mut append: impl FnMut() -> Result<T, Refused>) -> Result<T, Refused> {
    loop {
        match append() {
            Err(Refused::Full) => std::thread::yield_now(),
            other => return other,
        }
    }
}

/// Writes until it is killed, and tells the number of each transaction once it is completed.
fn write_until_killed(data: &str) -> Result<(), Box<dyn std::error::Error>> {
    let (_journal, mut lanes, _) = Journal::open(data.as_ref(), settings())?;
    let mut out = std::io::stderr().lock();
    let end = Completed { status: 200, ..Completed::default() };
    for number in 0.. {
        let handle = patiently(|| lanes[0].start(&request(number)))?;
        patiently(|| lanes[0].part(handle, Side::Request, b"body"))?;
        lanes[0].complete(handle, &end)?;
        writeln!(out, "acknowledged {number}")?;
    }
    Ok(())
}

#[test]
fn every_acknowledged_transaction_survives_a_kill_once() {
    if let Ok(data) = std::env::var(WRITER) {
        write_until_killed(&data).expect("the writer writes");
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "kill::every_acknowledged_transaction_survives_a_kill_once",
            "--nocapture",
        ])
        .env(WRITER, data.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut acknowledged = Vec::new();
    let number = |line: String| line.strip_prefix("acknowledged ").and_then(|n| n.parse().ok());
    while acknowledged.len() < 2000 {
        acknowledged.extend(number(lines.next().unwrap().unwrap()));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // The last line may have been torn by the kill: only whole numbers that follow count.
    for line in lines.map_while(Result::ok) {
        let next = acknowledged.len() as u64;
        acknowledged.extend(number(line).filter(|number: &u64| *number == next));
    }

    let (journal, _lanes, report) = Journal::open(data.path(), settings()).unwrap();
    assert!(report.interrupted <= 1);
    let mut seen: HashMap<[u8; 16], Vec<Outcome>> = HashMap::new();
    let mut reader = journal.reader(0, Position::START);
    while let Some(transaction) = reader.next_transaction().unwrap() {
        assert!(!transaction.damaged);
        seen.entry(transaction.id).or_default().push(transaction.outcome);
    }
    for number in &acknowledged {
        assert_eq!(seen[&request(*number).id], [Outcome::Completed], "{number}");
    }
    assert!(seen.values().all(|outcomes| outcomes.len() == 1));
}
