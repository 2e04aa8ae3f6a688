//! A run's folder without a run: simulated seconds, written as a run would write them.

use std::path::Path;
use std::time::{Duration, SystemTime};
use weir_lab::protocol::{Extent, Round, Rules, Stabilise, Stage, Use};
use weir_lab::record::{FirstError, Interval, Tally, histogram};
use weir_lab::results::{
    Cell, Event, EventKind, Factor, Failure, Folder, Generator, Host, Open, Place, Published,
    RoundFigures, Run, Server, ServerRow, Summary, Times, Total, Traits,
};
use weir_lab::sample::ErrorKind;
use weir_lab::threshold::Threshold;
use weir_lab::validity;
use weir_lab::verdict::{Grounds, judge};

/// A server that answers at `rate` and gets there within some rounds.
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
        if self.errors && at.is_multiple_of(3) {
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
        let first = FirstError {
            label: weir_lab::program::Label(0),
            kind: ErrorKind::Http503,
            at: at * 1_000_000_000,
            status: 503,
            message: "Service Unavailable".to_owned(),
            url: "http://127.0.0.1:8080/a?b=<c>".to_owned(),
            body: "{\"error\": \"</script><b>busy\"}".to_owned(),
        };
        Interval {
            second: at,
            offered: if self.open { tally.started } else { 0 },
            send_lag: self.open.then_some(lag),
            in_flight: 40 + self.random.u64(..20),
            users: 150,
            generator_cpu: 300_000_000,
            busiest_loop: 0.3,
            first_errors: if self.errors { vec![first] } else { Vec::new() },
            labels: vec![tally],
            ..Interval::default()
        }
    }
}

/// The four cases of a 2×2 design, interleaved, one of them in an open model with errors.
const CASES: [(&str, &str, f64); 4] = [
    ("false", "false", 21_000.0),
    ("true", "false", 18_500.0),
    ("false", "true", 19_800.0),
    ("true", "true", 17_000.0),
];

/// Writes a run with `cases` cases below `folder`.
pub(crate) fn write(folder: &Path, cases: usize) {
    let run = run();
    let mut out = Folder::create(folder, &run, SystemTime::now()).expect("a new folder");
    let names = vec!["say hello".to_owned()];
    let mut now = 0.0;
    let mut summary = Summary { name: run.name.clone(), ..Summary::default() };
    for (at, (tracker, monitor, rate)) in CASES.iter().take(cases).enumerate() {
        let broken = at == 3;
        let mut server = Simulated {
            random: fastrand::Rng::with_seed(at as u64),
            rate: *rate,
            open: broken,
            errors: broken,
        };
        let mut cell = Cell {
            name: format!("tracker={tracker} monitor={monitor}"),
            factors: vec![factor("tracker", tracker), factor("monitor", monitor)],
            traits: Traits { users: Some(150), ..Traits::default() },
            ..Cell::default()
        };
        let total = rounds(&mut out, &mut server, &mut cell, at, &names, &mut now);
        conclude(&mut cell, &total, &names, broken.then_some(*rate));
        summary.cells.push(cell);
    }
    summary.conclude();
    out.finish(&run, &summary).expect("written");
}

fn rounds(
    out: &mut Folder,
    server: &mut Simulated,
    cell: &mut Cell,
    at: usize,
    names: &[String],
    now: &mut f64,
) -> Total {
    let mut protocol = Stabilise::new(Rules::default(), Extent::Seconds(3.0));
    let mut kept: Vec<(usize, Total)> = Vec::new();
    while let Some(order) = protocol.order() {
        let warmth = 1.0 - (-(order.number as f64) / 3.0).exp();
        let mut total = Total::new(1, server.open);
        let place = Place {
            cell: at,
            round: order.number,
            stage: Some(order.stage),
            warm_up: false,
            start: *now,
        };
        let event = format!("round {} of {}", order.number, cell.name);
        out.event(&Event { time: *now, cell: Some(at), kind: EventKind::Round, text: event })
            .expect("written");
        for second in 0..3 {
            let second = server.second(second, warmth);
            out.second(place, &cell.name, &second, names, &[]).expect("written");
            total.add(&second);
            observe(out, *now + second.second as f64 + 1.0, warmth);
        }
        total.end_round(0);
        out.end_round(&cell.name, names).expect("written");
        *now += 3.5;
        let throughput = total.figures(names)[0].throughput;
        protocol.observe(Round { took: Duration::from_secs(3), throughput, flaws: Vec::new() });
        if order.stage == Stage::Recording {
            kept.push((order.number, total));
        }
    }
    cell.rounds = protocol.log().to_vec();
    cell.protocol = protocol.outcome().cloned();
    let mut sum = Total::new(1, server.open);
    for (number, total) in kept.iter().filter(|(number, _)| {
        cell.rounds.iter().any(|round| round.number == *number && round.used == Use::Recorded)
    }) {
        let figures = &total.figures(names)[0];
        cell.recorded.push(RoundFigures {
            number: *number,
            throughput: figures.throughput,
            response: figures.response.clone(),
        });
        sum.merge(total);
    }
    sum
}

fn conclude(cell: &mut Cell, total: &Total, names: &[String], rate: Option<f64>) {
    cell.labels = total.figures(names);
    cell.window = total.window();
    let outcome = cell.protocol.clone().expect("ended");
    (cell.throughput, cell.interval) = (outcome.throughput, outcome.interval);
    cell.failures = total.first_errors.iter().map(|error| Failure::of(error, names)).collect();
    cell.generator = Generator { cpu_us: 4.7, busiest: total.busiest_loop() };
    cell.server = Some(Server { cpu_us: 9.1, busiest: Some(0.93), memory: 30 << 20 });
    if let Some(offered) = rate {
        let achieved = cell.labels[0].throughput;
        let send_lag = Times::of(&total.send_lag);
        cell.open = Some(Open { offered, achieved, dropped: 0, send_lag });
    }
    cell.published = vec![Published {
        what: "throughput".to_owned(),
        value: 9_254.0,
        source: "the published test: EC2 c3.xlarge, 4 cores".to_owned(),
    }];
    let thresholds = ["error-rate<=0", "p99<100ms for say hello"];
    cell.thresholds = thresholds
        .iter()
        .map(|text| Threshold::parse(text).expect("one").check(&cell.name, &cell.labels))
        .collect();
    cell.flaws = validity::flaws(&total.evidence(None, Duration::ZERO), validity::ERRORS);
    let (verdict, reasons) =
        judge(&Grounds { flaws: &cell.flaws, thresholds: &cell.thresholds, ..Grounds::default() });
    (cell.verdict, cell.reasons) = (verdict, reasons);
}

fn observe(out: &mut Folder, time: f64, warmth: f64) {
    let row =
        |subject: &str| ServerRow { time, subject: subject.to_owned(), ..ServerRow::default() };
    let rows = [
        ServerRow {
            cpu: Some(1.4 * warmth),
            busiest_thread: Some(0.9 * warmth),
            memory: Some(((20.0 + 10.0 * warmth) * 1048576.0) as u64),
            descriptors: Some(180),
            switches: Some(9_000.0),
            ..row("gateway")
        },
        ServerRow { cpu: Some(1.9), steal: Some(0.002), ..row("host") },
        ServerRow { gauge: Some(time * 7.0 % 100.0), ..row("queue depth") },
    ];
    for row in rows {
        out.server(&row).expect("written");
    }
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

fn factor(name: &str, value: &str) -> Factor {
    Factor { name: name.to_owned(), value: value.to_owned() }
}
