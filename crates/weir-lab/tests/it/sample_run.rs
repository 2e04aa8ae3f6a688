//! A run's folder without a run: simulated seconds, written as a run would write them.

use std::path::Path;
use std::time::{Duration, SystemTime};
use weir_lab::measure::{Case, Measurement, Method, RoundConditions, SERVER, Settings};
use weir_lab::protocol::{CaseOrder, RoundSize, Rules};
use weir_lab::record::{Example, FailureGroup, Failures, Interval, Tally, histogram};
use weir_lab::results::{CaseAttributes, Cell, Factor, Folder, Host, Published, Run, ServerRow};
use weir_lab::sample::ErrorKind;
use weir_lab::threshold::Threshold;

/// A server that reaches `rate` within some rounds.
struct Simulated {
    random: fastrand::Rng,
    rate: f64,
    open: bool,
    errors: bool,
}

impl Simulated {
    /// A second of it; `warmth` from 0 to 1.
    fn second(&mut self, at: u64, warmth: f64) -> Interval {
        let mut tally = Tally::new(self.open);
        let rate = self.rate * (0.5 + 0.5 * warmth);
        let count = (rate * (0.98 + 0.04 * self.random.f64())) as u64 / 20;
        for _ in 0..count {
            let slow = if self.random.u32(..100) == 0 { 20.0 } else { 1.0 };
            let ms = (1.0 + 2.0 * self.random.f64() * self.random.f64() / (0.2 + warmth)) * slow;
            // Each stands for twenty.
            let time = (ms * 1e6) as u64;
            tally.service.record_n(time, 20).expect("in range");
            if let Some(response) = &mut tally.response {
                response.record_n(time + self.random.u64(..900_000), 20).expect("in range");
            }
            tally.service_sum += 20 * u128::from(time);
            tally.latency_sum += 18 * u128::from(time);
        }
        tally.ok = 20 * count;
        tally.started = tally.ok;
        if self.errors {
            let failed = 40 + self.random.u64(..30);
            tally.errors[ErrorKind::Http503.index()] = failed;
            tally.errors[ErrorKind::Timeout.index()] = 5;
            tally.service.record_n(5_000_000, failed + 5).expect("in range");
            if let Some(response) = &mut tally.response {
                response.record_n(5_000_000, failed + 5).expect("in range");
            }
        }
        (tally.received, tally.sent) = (tally.ok * 520, tally.ok * 180);
        (tally.body, tally.decoded) = (tally.ok * 353, tally.ok * 4_481);
        tally.first_start = at * 1_000_000_000;
        tally.last_end = (at + 1) * 1_000_000_000;
        let mut lag = histogram();
        lag.record_n(200_000, tally.ok).expect("in range");
        let mut failures = Failures::default();
        if self.errors {
            failures.add_group(&busy(at));
        }
        Interval {
            second: at,
            offered: if self.open { tally.started } else { 0 },
            send_lag: self.open.then_some(lag),
            in_flight: 40 + self.random.u64(..20),
            users: 150,
            generator_cpu: 300_000_000,
            busiest_loop: 0.3,
            failures,
            labels: vec![tally],
            ..Interval::default()
        }
    }
}

/// Fifty responses with an error.
fn busy(second: u64) -> FailureGroup {
    FailureGroup {
        label: weir_lab::program::Label(0),
        kind: ErrorKind::Http503,
        message: "Service Unavailable".to_owned(),
        count: 50,
        first: second * 1_000_000_000,
        last: second * 1_000_000_000 + 900_000_000,
        example: Example {
            status: 503,
            url: "http://127.0.0.1:8080/a?b=<c>".to_owned(),
            request: "GET /a?b=<c> HTTP/1.1\nHost: 127.0.0.1".to_owned(),
            response: "HTTP/1.1 503 Service Unavailable\n\n{\"error\": \"</script><b>busy\"}"
                .to_owned(),
        },
    }
}

/// The four cases of a 2×2 design, and one more that fails.
const CASES: [(&str, &str, f64); 5] = [
    ("false", "false", 21_000.0),
    ("true", "false", 18_500.0),
    ("false", "true", 19_800.0),
    ("true", "true", 17_000.0),
    ("true", "broken", 12_000.0),
];

/// Writes a run with `cases` cases below `folder`.
pub(crate) fn write(folder: &Path, cases: usize) {
    let run = run();
    let out = Folder::create(folder, &run, SystemTime::now()).expect("a new folder");
    let mut servers: Vec<Simulated> = CASES.iter().take(cases).zip(0..).map(server).collect();
    let settings = Settings {
        stop: Vec::new(),
        bars: Vec::new(),
        method: Method::Stabilise(Rules::default()),
        case_order: CaseOrder::Interleaved,
        seed: 1,
        thresholds: ["p99<100ms for say hello", "error-rate<=0"]
            .map(|text| Threshold::parse(text).expect("one"))
            .to_vec(),
        quick: false,
    };
    let cases = CASES.iter().take(cases).map(case).collect();
    let mut measurement = Measurement::new(settings, cases, out);
    let mut now = 0.0;
    while let Some(turn) = measurement.next_round() {
        let warmth = 1.0 - (-(turn.round.number as f64) / 3.0).exp();
        measurement.start_round(turn, now).expect("written");
        for at in 0..3 {
            let second = servers[turn.cell].second(at, warmth);
            measurement.second(&second).expect("written");
            measurement.observe(seen(at as f64 + 1.0, warmth)).expect("written");
        }
        measurement.end_round(RoundConditions::default()).expect("written");
        now += 3.5;
    }
    measurement.finish(&run, None).expect("written");
}

fn server(((_, _, rate), at): (&(&str, &str, f64), u64)) -> Simulated {
    let random = fastrand::Rng::with_seed(at);
    Simulated { random, rate: *rate, open: at == 3, errors: at == 4 }
}

fn case((tracker, monitor, rate): &(&str, &str, f64)) -> Case {
    let factor =
        |name: &str, value: &str| Factor { name: name.to_owned(), value: value.to_owned() };
    let open = (*tracker, *monitor) == ("true", "true");
    Case {
        cell: Cell {
            name: format!("tracker={tracker} monitor={monitor}"),
            factors: vec![factor("tracker", tracker), factor("monitor", monitor)],
            attributes: CaseAttributes { users: Some(150), ..CaseAttributes::default() },
            published: vec![Published {
                what: "throughput".to_owned(),
                value: rate / 2.2,
                source: "the published test: EC2 c3.xlarge, 4 cores".to_owned(),
                to: None,
            }],
            ..Cell::default()
        },
        contender: String::new(),
        load: String::new(),
        values: Vec::new(),
        labels: ["say hello"].into_iter().collect(),
        transactions: Vec::new(),
        rate: None,
        allowed_lag: Duration::ZERO,
        open,
        requests: Some(1.0),
        constant: true,
        size: RoundSize::Seconds(3.0),
        block: 0,
    }
}

fn seen(time: f64, warmth: f64) -> Vec<ServerRow> {
    let row =
        |subject: &str| ServerRow { time, subject: subject.to_owned(), ..ServerRow::default() };
    vec![
        ServerRow {
            cpu: Some(1.4 * warmth),
            busiest_thread: Some(0.9 * warmth),
            memory: Some(((20.0 + 10.0 * warmth) * 1_048_576.0) as u64),
            descriptors: Some(180),
            sockets: Some(150),
            switches: Some(9_000.0),
            ..row(SERVER)
        },
        ServerRow { cpu: Some(1.9), steal: Some(0.002), ..row("host") },
        ServerRow { gauge: Some(time * 7.0 * warmth), ..row("queue depth") },
    ]
}

fn run() -> Run {
    let command = ["weir", "lab", "run", "toro", "--out", "it's here"];
    Run {
        lab: 1,
        name: "toro <Tracker & Monitor>".to_owned(),
        started: "2026-01-01T12:00:00Z".to_owned(),
        command: command.map(str::to_owned).to_vec(),
        version: "weir 0.1.0".to_owned(),
        target: "http://127.0.0.1:8080".to_owned(),
        server: "weir 0.1.0".to_owned(),
        host: Host::here(),
        ..Run::default()
    }
}
