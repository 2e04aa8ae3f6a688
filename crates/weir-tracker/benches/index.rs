//! What indexing costs and how long searches take, on the corpus of the comparisons: bodies of
//! 1 KiB with a unique id and words drawn by Zipf from 50,000, always the same.
//!
//! `cargo bench -p weir-tracker [-- TRANSACTIONS]` prints medians of three rounds, CPU time of this
//! process (user and system) in microseconds a transaction. Reading the journal is told apart.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_journal::{Completed, Journal, Lane, Position, Received, Refused};
use weir_model::stage;
use weir_tracker::{Depth, Index, Page, Query, Settings};

const WORDS: usize = 50_000;
const NOON: u64 = 1_795_176_000_000_000;
const ROUNDS: usize = 3;

type Failure = Box<dyn std::error::Error>;

#[derive(Clone, Copy)]
enum Case {
    Hello,
    Echo,
}

/// Draws words by Zipf.
struct Corpus {
    random: fastrand::Rng,
    words: Vec<String>,
    sums: Vec<f64>,
}

impl Corpus {
    fn new() -> Self {
        let mut random = fastrand::Rng::with_seed(1);
        let letters = |random: &mut fastrand::Rng| {
            let length = random.usize(3..11);
            (0..length).map(|_| random.lowercase()).collect::<String>()
        };
        let words = (0..WORDS).map(|_| letters(&mut random)).collect();
        let mut sum = 0.0;
        let sums = (1..=WORDS).map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        });
        Self { sums: sums.collect(), words, random }
    }

    fn word(&mut self) -> &str {
        let point = self.random.f64() * self.sums[WORDS - 1];
        &self.words[self.sums.partition_point(|sum| *sum < point).min(WORDS - 1)]
    }

    /// 1 KiB of JSON with a unique id.
    fn body(&mut self) -> String {
        let mut body = format!("{{\"id\":\"{:016x}\",\"payload\":\"", self.random.u64(..));
        while body.len() < 1022 {
            let word = self.word().to_owned();
            body.push_str(&word);
            body.push(' ');
        }
        body.truncate(1022);
        body + "\"}"
    }
}

fn write(lane: &mut Lane, corpus: &mut Corpus, case: Case, number: u64) -> Result<(), Failure> {
    let (request, response) = match case {
        Case::Hello => (
            String::new(),
            "{\n    \"result\": \"OK\",\n    \"message\": \"Hello World\"\n}".to_owned(),
        ),
        Case::Echo => (corpus.body(), corpus.body()),
    };
    let id = u128::from(NOON / 1000 + number / 20) << 80 | u128::from(number);
    let received = Received {
        id: id.to_be_bytes(),
        received_us: NOON + number * 50,
        api: "examples",
        operation: "sayHello",
        method: "POST",
        client: "127.0.0.1",
        target: "/api/examples-services/sayHello",
        head: b"host: localhost:8080\r\nuser-agent: ApacheBench/2.3\r\naccept: */*\r\ncontent-type: application/json\r\n",
        ..Received::default()
    };
    let key = format!("A-{number}");
    let completed = Completed {
        status: 200,
        head: b"content-type: application/json\r\ncontent-length: 52\r\ndate: Fri, 20 Nov 2026 12:00:00 GMT\r\n",
        stages: &[(stage::TOTAL, 150 + number as u32 % 50), (stage::LIMIT, 3)],
        request_body: request.as_bytes(),
        response_body: response.as_bytes(),
        keys: &[("order", &key)],
        ..Completed::default()
    };
    loop {
        match lane.append(&received, &completed) {
            // The next segment is not ready yet.
            Err(Refused::Full) => std::thread::sleep(Duration::from_millis(1)),
            other => return Ok(other.map(drop)?),
        }
    }
}

/// CPU microseconds of this process, from /proc/self/stat in ticks of 10 ms.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
    let ticks =
        |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) * 10_000.0
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn size(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    let entries = entries.flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(there) if there.is_dir() => size(&entry.path()),
            Ok(there) => there.len(),
            Err(_) => 0,
        })
        .sum()
}

fn resident() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("RssAnon"));
    line.unwrap_or_default().to_owned()
}

/// A journal that keeps what is old: the corpus has fixed times.
fn kept() -> weir_journal::Settings {
    let keep = Duration::from_secs(1000 * 365 * 86_400);
    weir_journal::Settings {
        keep_completed: keep,
        keep_failed: keep,
        ..weir_journal::Settings::default()
    }
}

/// Two words that are next to each other in a body of the middle of the journal.
fn phrase(journal: &Journal, count: u64) -> Result<String, Failure> {
    let mut reader = journal.reader(0, Position::START);
    for _ in 0..count / 2 {
        reader.next_transaction()?;
    }
    let body = reader.next_transaction()?.unwrap_or_default().request_body;
    let words = String::from_utf8_lossy(&body).into_owned();
    let words: Vec<&str> = words.split(' ').skip(1).take(2).collect();
    Ok(match words[..] {
        [one, other] => format!("\"{one} {other}\""),
        _ => "\"hello world\"".to_owned(),
    })
}

fn measure(name: &str, case: Case, count: u64) -> Result<(), Failure> {
    let data = tempfile::tempdir()?;
    let (journal, mut lanes, _) = Journal::open(data.path(), kept())?;
    let journal = Arc::new(journal);
    let mut corpus = Corpus::new();
    for number in 0..count {
        write(&mut lanes[0], &mut corpus, case, number)?;
    }
    let mut reads = Vec::new();
    for _ in 0..ROUNDS {
        let begun = cpu();
        let mut reader = journal.reader(0, Position::START);
        while reader.next_transaction()?.is_some() {}
        reads.push((cpu() - begun) / count as f64);
    }
    let read = median(reads);
    for depth in [Depth::Keys, Depth::Payload] {
        let mut costs = Vec::new();
        for _ in 0..ROUNDS {
            std::fs::remove_dir_all(data.path().join("index")).ok();
            let settings = Settings { depth, ..Settings::default() };
            let begun = cpu();
            let (_, mut indexer) = Index::open(data.path(), Arc::clone(&journal), settings)?;
            indexer.catch_up()?;
            indexer.seal()?;
            costs.push((cpu() - begun) / count as f64 - read);
        }
        let bytes = size(&data.path().join("index")) as f64 / count as f64;
        println!(
            "{name}, {depth:?}: {:.2} µs a transaction and {read:.2} to read it, {bytes:.0} B, {}",
            median(costs),
            resident()
        );
    }
    let phrase = phrase(&journal, count)?;
    let (index, _indexer) = Index::open(data.path(), journal, Settings::default())?;
    let rare = corpus.words[WORDS / 2].clone();
    let common = corpus.words[3].clone();
    let id = u128::from(NOON / 1000 + count / 40) << 80 | u128::from(count / 2);
    for (what, query) in [
        ("id", format!("id:{id:032x}")),
        ("key", format!("key.order:A-{}", count / 2)),
        ("absent key", "key.order:A-x".to_owned()),
        ("rare word", rare),
        ("common word", common),
        ("two words in a row", phrase),
        ("column", "took:>=199us".to_owned()),
    ] {
        let query = Query::parse(&query, NOON)?;
        let mut times = Vec::new();
        let mut hits = 0;
        for _ in 0..20 {
            let begun = Instant::now();
            hits = index.search(&query, &Page::default())?.hits.len();
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        let begun = Instant::now();
        let counts = index.count(&query, Duration::from_secs(1), false)?;
        println!(
            "  {what}: {:.2} ms for {hits}; counted {} in {:.0} ms{}",
            median(times),
            counts.matched,
            begun.elapsed().as_secs_f64() * 1e3,
            if counts.cut { ", cut" } else { "" }
        );
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let count = std::env::args().skip(1).find_map(|argument| argument.parse().ok());
    let count = count.unwrap_or(100_000);
    measure("hello", Case::Hello, count)?;
    measure("1 KiB echo", Case::Echo, count)
}
