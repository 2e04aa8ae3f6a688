//! What a transaction costs until it is sealed, and what it takes on the disk then:
//! `cargo bench -p weir-journal --bench seal`.
//!
//! For hellos and for echoes with two JSON bodies of 1 KiB: words drawn by Zipf from 50,000, a
//! unique id, the answer different from the request. Prints CPU of the appending thread and of the
//! others (user and system) for each transaction, bytes on the disk, and what reading costs.

use std::time::{Duration, Instant};

use weir_journal::{BodyMetadata, Completed, Journal, Position, Received, Settings};

const TRANSACTIONS: usize = 60_000;
const WORDS: usize = 50_000;
const REQUEST: &[u8] = b"host: 127.0.0.1:8080\r\nuser-agent: bench/1.0\r\naccept: */*\r\n";
const RESPONSE: &[u8] = b"content-type: application/json\r\n\
    date: Sat, 21 Nov 2026 12:00:00 GMT\r\n";

fn time(clock: rustix::time::ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What the threads of this name have spent, those that run now.
fn spent_by(name: &str) -> Duration {
    let spent = |task: std::path::PathBuf| {
        let comm = std::fs::read_to_string(task.join("comm")).ok()?;
        let stat = std::fs::read_to_string(task.join("schedstat")).ok()?;
        let nanos: u64 = stat.split(' ').next()?.parse().ok()?;
        (comm.trim() == name).then(|| Duration::from_nanos(nanos))
    };
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.filter_map(|task| spent(task.path())).sum()
}

/// A small generator with a fixed seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A word by Zipf's law with exponent 1: the cumulated weights are close to a logarithm.
    fn word(&mut self) -> String {
        let uniform = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        let rank = ((WORDS as f64).powf(uniform) - 1.0) as u64;
        let mut random = Random(rank);
        let length = 3 + random.next() % 8;
        (0..length).map(|_| char::from(b'a' + (random.next() % 26) as u8)).collect()
    }

    fn body(&mut self, number: usize) -> Vec<u8> {
        let mut body =
            format!("{{\"orderId\":\"A-{number}-{:08x}\",\"text\":\"", self.next() as u32);
        while body.len() < 1020 {
            body.push_str(&self.word());
            body.push(' ');
        }
        body.truncate(1022);
        body.push_str("\"}");
        body.into_bytes()
    }
}

fn main() {
    let mut random = Random(42);
    let bodies: Vec<[Vec<u8>; 2]> =
        (0..TRANSACTIONS).map(|number| [random.body(number), random.body(number)]).collect();
    let hello =
        [Vec::new(), b"{\n    \"result\": \"OK\",\n    \"message\": \"Hello World\"\n}".to_vec()];
    run("hello", &|_| &hello, &mut random);
    run("echo 1 KiB", &|number| &bodies[number], &mut random);
}

fn run<'a>(name: &str, bodies: &dyn Fn(usize) -> &'a [Vec<u8>; 2], random: &mut Random) {
    use rustix::time::ClockId::{ProcessCPUTime, ThreadCPUTime};
    let data = tempfile::tempdir().expect("a folder");
    let settings = Settings { segment_bytes: 4 << 20, ..Settings::default() };
    let (journal, mut lanes, _) = Journal::open(data.path(), settings).expect("a journal");
    let prepared = journal.statistics().disk_bytes;
    let lane = &mut lanes[0];
    let (process, mut own) = (time(ProcessCPUTime), Duration::ZERO);
    let started = time(ThreadCPUTime);
    for number in 0..TRANSACTIONS {
        let [request, response] = bodies(number);
        let mut id = [0; 16];
        id[..6].copy_from_slice(&(1_795_262_400_000 + number as u64).to_be_bytes()[2..]);
        id[6..14].copy_from_slice(&random.next().to_be_bytes());
        let facts = |body: &Vec<u8>| BodyMetadata {
            length: body.len() as u64,
            stored: body.len() as u64,
            ..BodyMetadata::default()
        };
        let received = Received {
            id,
            received_us: 1_795_262_400_000_000 + number as u64 * 20,
            api: "examples",
            operation: "/sayHello",
            client: "127.0.0.1",
            method: "POST",
            target: "/api/examples-services/sayHello",
            head: REQUEST,
            level: 3,
            ..Received::default()
        };
        let stages = [(1, 20 + number as u32 % 7), (9, 57 + number as u32 % 31)];
        let completed = Completed {
            status: 200,
            head: RESPONSE,
            stages: &stages,
            request: facts(request),
            response: facts(response),
            request_body: request,
            response_body: response,
            ..Completed::default()
        };
        let start = time(ThreadCPUTime);
        let since = Instant::now();
        while lane.append(&received, &completed).is_err() {
            assert!(since.elapsed() < Duration::from_secs(30), "no segment");
            std::thread::sleep(Duration::from_millis(1));
        }
        own += time(ThreadCPUTime) - start;
    }
    drop(lanes);
    while journal.statistics().unsealed > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let others = (time(ProcessCPUTime) - process).saturating_sub(time(ThreadCPUTime) - started);
    let sealing = spent_by("journal-seal");
    let sealed: u64 = std::fs::read_dir(data.path().join("journal/lane-0000"))
        .expect("a folder")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            ["meta", "payload", "failed"].iter().any(|kind| path.extension() == Some(kind.as_ref()))
        })
        .filter_map(|path| Some(path.metadata().ok()?.len()))
        .sum();
    let per = |spent: Duration| spent.as_nanos() as f64 / TRANSACTIONS as f64 / 1000.0;
    let start = time(ThreadCPUTime);
    let mut reader = journal.reader(0, Position::START);
    let mut read = 0;
    while reader.next_transaction().expect("readable").is_some() {
        read += 1;
    }
    let reading = time(ThreadCPUTime) - start;
    assert_eq!(read, TRANSACTIONS, "all are there");
    println!(
        "{name}: appending {:.2} µs (with the clock), other threads {:.2} µs, of it sealing {:.2}, {} B on the disk, reading sealed {:.2} µs; {} prepared at first",
        per(own),
        per(others),
        per(sealing),
        sealed / TRANSACTIONS as u64,
        per(reading),
        prepared,
    );
}
