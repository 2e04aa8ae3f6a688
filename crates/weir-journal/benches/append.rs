//! What an append costs the worker: `cargo bench -p weir-journal --bench append`.
//!
//! Prints the median of some rounds in CPU nanoseconds of the appending thread, for the record of a
//! hello (heads and a body of 52 bytes) and of an echo (heads and two bodies of 1 KiB). A round is
//! as long as a segment and a half; it pauses when no segment is ready, which is not counted.

use std::time::{Duration, Instant};

use weir_journal::{BodyMetadata, Completed, Journal, Received, Refused, Settings};

const ROUNDS: usize = 15;
const REQUEST: &[u8] = b"host: 127.0.0.1:8080\r\nuser-agent: bench/1.0\r\naccept: */*\r\n";
const RESPONSE: &[u8] = b"content-type: application/json\r\ncontent-length: 52\r\n\
    date: Sat, 21 Nov 2026 12:00:00 GMT\r\nweir-transaction-id: 0197a1b2c3d4e5f6a7b8c9d0e1f2a3b4\r\n";

fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn main() {
    let data = tempfile::tempdir().expect("a folder");
    let (journal, mut lanes, _) =
        Journal::open(data.path(), Settings::default()).expect("a journal");
    let lane = &mut lanes[0];
    for (name, size, both) in [("hello", 52, false), ("echo 1 KiB", 1024, true)] {
        let body = vec![b'x'; size];
        let received = Received {
            id: [7; 16],
            received_us: 1_795_262_400_000_000,
            api: "examples",
            operation: "/sayHello",
            client: "127.0.0.1",
            method: "GET",
            target: "/api/examples-services/sayHello",
            head: REQUEST,
            level: 3,
            ..Received::default()
        };
        let facts =
            BodyMetadata { length: size as u64, stored: size as u64, ..BodyMetadata::default() };
        let completed = Completed {
            status: 200,
            head: RESPONSE,
            stages: &[(1, 20), (2, 30), (9, 57)],
            request: if both { facts } else { BodyMetadata::default() },
            response: facts,
            request_body: if both { &body } else { b"" },
            response_body: &body,
            ..Completed::default()
        };
        let before = journal.statistics();
        lane.append(&received, &completed).expect("room");
        let bytes = journal.statistics().bytes - before.bytes;
        let batch = 200;
        let batches = (24 << 20) / bytes / batch;
        let mut rounds: Vec<f64> = (0..ROUNDS)
            .map(|_| {
                let mut spent = Duration::ZERO;
                for _ in 0..batches {
                    let start = thread_time();
                    let refused = (0..batch)
                        .filter(|_| lane.append(&received, &completed) == Err(Refused::Full))
                        .count();
                    spent += thread_time() - start;
                    if refused > 0 {
                        let since = Instant::now();
                        while lane.append(&received, &completed).is_err() {
                            assert!(since.elapsed() < Duration::from_secs(10), "no segment");
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    }
                }
                spent.as_nanos() as f64 / (batches * batch) as f64
            })
            .collect();
        rounds.sort_by(f64::total_cmp);
        println!(
            "{name}: {bytes} B a record, {:.0} ns, rounds {:.0} to {:.0} ns",
            rounds[ROUNDS / 2],
            rounds[0],
            rounds[ROUNDS - 1]
        );
    }
    let statistics = journal.statistics();
    println!("refused {}, segments {}", statistics.refused, statistics.segments);
}
