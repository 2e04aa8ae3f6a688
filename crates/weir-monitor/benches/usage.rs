//! How long usage reports take: counts generated calls of 30 days and prints the median time of each report, as
//! a JSON object a line. No report may take more than 200 ms over five million calls.
//! `cargo bench -p weir-monitor --bench usage [-- CALLS]`, five million by default.
//!
//! The calls are of 10 consumers and 20 operations; one in twenty fails.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weir_journal::{BodyMetadata, Completed, Journal, Received, counted};
use weir_model::stage;
use weir_monitor::{Group, Monitor, Settings, Usage};

const ROUNDS: usize = 5;
const DAYS: u64 = 30;
/// Longest report.
const LIMIT: Duration = Duration::from_millis(200);

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds an argument of its own.
    let calls = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(5_000_000);
    let folder = tempfile::tempdir()?;
    let data = folder.path();
    fill(data, calls)?;
    let monitor = Monitor::read(data);
    let mut slowest = Duration::ZERO;
    for (name, by, step) in reports() {
        let usage = Usage { by: by.clone(), step, ..Usage::default() };
        let mut times = Vec::with_capacity(ROUNDS);
        let mut rows = 0;
        for _ in 0..ROUNDS {
            let start = Instant::now();
            rows = monitor.usage(&usage)?.rows.len();
            times.push(start.elapsed());
        }
        times.sort();
        let median = times[ROUNDS / 2];
        slowest = slowest.max(median);
        let middle = median.as_secs_f64() * 1e3;
        println!("{{\"report\":\"{name}\",\"ms\":{middle:.1},\"rows\":{rows}}}");
    }
    let met = if slowest <= LIMIT { "met" } else { "MISSED" };
    println!("{{\"bar_ms\":{},\"result\":\"{met}\"}}", LIMIT.as_millis());
    Ok(())
}

type Report = (&'static str, Vec<Group>, Option<u64>);

fn reports() -> Vec<Report> {
    let all = vec![Group::Consumer, Group::Operation, Group::Plan, Group::Status];
    vec![
        ("total", vec![], None),
        ("by consumer", vec![Group::Consumer], None),
        ("by operation", vec![Group::Operation], None),
        ("by everything", all.clone(), None),
        ("each day by consumer", vec![Group::Consumer], Some(86_400)),
        ("each day by operation and status", vec![Group::Operation, Group::Status], Some(86_400)),
        ("each hour", vec![], Some(3600)),
        ("each hour by consumer", vec![Group::Consumer], Some(3600)),
    ]
}

/// Records calls in the order of time, and counts them.
fn fill(data: &Path, calls: u64) -> Result<(), Box<dyn Error>> {
    let (journal, mut lanes, _) = Journal::open(data, weir_journal::Settings::default())?;
    let keep = Duration::from_secs(400 * 86_400);
    let settings = Settings { keep, cardinality: 10_000, ..Settings::default() };
    let (_, mut counter) = Monitor::open(data, Arc::new(journal), settings)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_micros() as u64;
    let length = DAYS * 86_400_000_000;
    let begin = now - length;
    let names: Vec<String> = (0..20).map(|number| format!("name-{number}")).collect();
    let (mut counting, mut appending) = (Duration::ZERO, Duration::ZERO);
    for number in 0..calls {
        let (consumer, operation) = (fastrand::usize(..10), fastrand::usize(..20));
        let received = Received {
            received_us: begin
                + (u128::from(number) * u128::from(length) / u128::from(calls)) as u64,
            api: &names[operation / 7],
            operation: &names[operation],
            consumer: &names[consumer],
            plan: &names[consumer % 3],
            counted: counted::PLAN | counted::COUNT_ONLY,
            ..Received::default()
        };
        let body = BodyMetadata { length: fastrand::u64(..10_000), ..BodyMetadata::default() };
        // Most are quick, some are slow.
        let took = (500.0 * (1.0 / (1.001 - fastrand::f64())).powf(0.7)) as u32;
        let end = Completed {
            status: if fastrand::u8(..20) == 0 { 500 } else { 200 },
            stages: &[(stage::TOTAL, took)],
            request: body,
            response: body,
            ..Completed::default()
        };
        let start = Instant::now();
        while lanes[0].append(&received, &end).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        appending += start.elapsed();
        if number % 4096 == 4095 {
            let start = Instant::now();
            counter.step(8192)?;
            counting += start.elapsed();
        }
    }
    let start = Instant::now();
    counter.catch_up()?;
    counting += start.elapsed();
    let each = |time: Duration| time.as_secs_f64() * 1e6 / calls as f64;
    println!(
        "{{\"filled\":{calls},\"append_us\":{:.3},\"count_us\":{:.3}}}",
        each(appending),
        each(counting)
    );
    Ok(())
}
