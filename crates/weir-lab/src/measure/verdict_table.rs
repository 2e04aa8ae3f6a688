//! Ways of spoiling a measurement, each with its verdict and reason, and clean measurements that pass.

use super::tests::{case, finish, second, settings, start};
use super::*;
use crate::record::{Tally, histogram};
use crate::results::Cell;
use crate::sample::ErrorKind;

const FIXED: Method = Method::Fixed { cut: Duration::from_secs(1) };

/// A measurement of seconds with a constant rate, and what spoils it.
struct Measured {
    method: Method,
    /// Offered rate of an open model.
    offered: Option<f64>,
    thresholds: &'static [&'static str],
    seconds: u64,
    /// Requests in a second of a round.
    rate: fn(usize, u64) -> u64,
    spoil: fn(&mut Interval),
    /// Share of the hypervisor.
    steal: f64,
    /// Threads of the server that wait for a core; of the busy time of the machine, 0.8 are of others.
    waiting: f64,
    conditions: RoundConditions,
}

impl Default for Measured {
    fn default() -> Self {
        Self {
            method: Method::Once,
            offered: None,
            thresholds: &["p99<1s"],
            seconds: 60,
            rate: |_, _| 1000,
            spoil: |_| {},
            steal: 0.0,
            waiting: 0.0,
            conditions: RoundConditions::default(),
        }
    }
}

/// The result of a measurement.
fn measure(measured: &Measured) -> Cell {
    let thresholds = measured.thresholds.iter().map(|text| Threshold::parse(text).expect("valid"));
    let settings =
        Settings { thresholds: thresholds.collect(), ..settings(measured.method.clone()) };
    let mut one = case("", RoundSize::Seconds(measured.seconds as f64));
    one.open = measured.offered.is_some();
    one.rate = measured.offered.map(|rate| (rate, Duration::from_millis(1)));
    let (mut measurement, _folder) = start(settings, vec![one]);
    while let Some(turn) = measurement.next_round() {
        measurement.start_round(turn, 0.0).expect("written");
        let RoundSize::Seconds(length) = turn.round.size else { panic!("{turn:?}") };
        let length = length.ceil() as u64;
        for at in 0..=length {
            // The last second is incomplete.
            let part = if at == length { 0.001 } else { 1.0 };
            let count = ((measured.rate)(turn.round.number, at) as f64 * part) as u64;
            let mut interval = second(at, count, 0, part);
            if let Some(offered) = measured.offered {
                open(&mut interval, (offered * part) as u64);
            }
            (measured.spoil)(&mut interval);
            measurement.second(&interval).expect("written");
            let host = ServerRow {
                time: at as f64 + 1.0,
                subject: "host".to_owned(),
                cpu: Some(1.0),
                steal: Some(measured.steal),
                ..ServerRow::default()
            };
            let server = ServerRow {
                subject: SERVER.to_owned(),
                cpu: Some(0.2),
                waiting_threads: Some(measured.waiting),
                steal: None,
                ..host.clone()
            };
            measurement.observe(vec![host, server]).expect("written");
        }
        measurement.end_round(measured.conditions.clone()).expect("written");
    }
    finish(measurement).cells.remove(0)
}

/// Makes a second one of an open model.
fn open(interval: &mut Interval, offered: u64) {
    interval.offered = offered;
    let mut lag = histogram();
    lag.record_n(200_000, offered).expect("in range");
    interval.send_lag = Some(lag);
    for tally in &mut interval.labels {
        tally.response = Some(tally.service.clone());
    }
}

fn tally(interval: &mut Interval) -> &mut Tally {
    &mut interval.labels[0]
}

fn fail(interval: &mut Interval, kind: ErrorKind) {
    let tally = tally(interval);
    let failed = tally.ok / 2;
    tally.ok -= failed;
    tally.errors[kind.index()] += failed;
}

fn stabilise() -> Method {
    Method::Stabilise(Rules::default())
}

/// A way of spoiling a measurement: its name, the measurement, the verdict, and a part of the reason.
type Spoilt = (&'static str, Measured, Verdict, &'static str);

/// Spoilt by generator and machine.
fn of_generator() -> Vec<Spoilt> {
    use Verdict::Invalid;
    let plain = Measured::default;
    let rate = |offered| Measured { offered: Some(offered), ..Measured::default() };
    vec![
        (
            "starved generator",
            Measured { spoil: |s| (s.waited, s.waits) = (400_000_000, 100), ..plain() },
            Invalid,
            "other processes took the cores",
        ),
        (
            "stopped generator",
            Measured { spoil: |s| s.stalled = 80_000_000, ..plain() },
            Invalid,
            "was stalled",
        ),
        (
            "clock set",
            Measured { spoil: |s| s.clock_step = 2_000_000_000, ..plain() },
            Invalid,
            "the clock of the machine was set",
        ),
        (
            "saturated generator",
            Measured { spoil: |s| s.busiest_loop = 0.97, ..plain() },
            Invalid,
            "at its limit",
        ),
        (
            "late requests",
            Measured {
                spoil: |s| {
                    let lag = s.send_lag.get_or_insert_with(histogram);
                    lag.record_n(20_000_000, 500).expect("in range");
                },
                ..rate(1000.0)
            },
            Invalid,
            "sent late",
        ),
        (
            "starved server",
            Measured { waiting: 0.3, ..plain() },
            Invalid,
            "0.24 threads of the server waited for one on average, which delays responses by about 0.24 ms",
        ),
        ("hypervisor", Measured { steal: 0.2, ..plain() }, Invalid, "the hypervisor took"),
    ]
}

/// Spoilt by the course of the server.
fn of_server() -> Vec<Spoilt> {
    use Verdict::{Invalid, Unstable};
    let plain = Measured::default;
    let fixed = || Measured { method: FIXED, ..Measured::default() };
    let rate = |offered| Measured { offered: Some(offered), ..Measured::default() };
    vec![
        (
            "drift up",
            Measured { rate: |_, at| 500 + 10 * at, ..fixed() },
            Unstable,
            "rises throughout",
        ),
        ("drift down", Measured { rate: |_, at| 1100 - 10 * at, ..fixed() }, Unstable, "falls"),
        (
            "throttled server",
            Measured { rate: |_, at| if at < 30 { 1000 } else { 400 }, ..fixed() },
            Unstable,
            "falls",
        ),
        (
            "connection limit",
            Measured { rate: |_, _| 600, spoil: |s| s.dropped = 400, ..rate(1000.0) },
            Invalid,
            "were dropped",
        ),
        (
            "rate that is not reached",
            Measured { rate: |_, _| 900, ..rate(1000.0) },
            Invalid,
            "were offered",
        ),
        (
            "cold start",
            Measured { rate: |_, at| if at < 15 { 300 } else { 1000 }, ..fixed() },
            Unstable,
            "reaches its level at 15 s",
        ),
        (
            "noisy neighbour",
            Measured {
                method: stabilise(),
                seconds: 3,
                rate: |round, _| if round % 3 == 0 { 600 } else { 1000 },
                ..plain()
            },
            Unstable,
            "vary by",
        ),
    ]
}

/// Spoilt by responses and counts.
fn of_responses() -> Vec<Spoilt> {
    use Verdict::{Fail, Invalid};
    let plain = Measured::default;
    vec![
        (
            "fast errors",
            Measured { spoil: |s| fail(s, ErrorKind::Http500), ..plain() },
            Invalid,
            "requests failed",
        ),
        (
            "fast errors, with a threshold",
            Measured {
                spoil: |s| fail(s, ErrorKind::Http500),
                thresholds: &["error-rate<=1%"],
                ..plain()
            },
            Fail,
            "error-rate<=1% is not met",
        ),
        (
            "wrong bytes",
            Measured { spoil: |s| fail(s, ErrorKind::Check), ..plain() },
            Invalid,
            "requests failed",
        ),
        (
            "too few samples",
            Measured { rate: |_, _| 10, seconds: 30, thresholds: &["p99.9<1s"], ..plain() },
            Invalid,
            "p99.9<1s needs 1000 samples",
        ),
        (
            "queues of the round before",
            Measured {
                conditions: RoundConditions { undrained: true, ..RoundConditions::default() },
                ..plain()
            },
            Invalid,
            "queues were not empty",
        ),
        (
            "lost requests",
            Measured {
                conditions: RoundConditions {
                    count_mismatch: Some((60_000, 59_000)),
                    ..RoundConditions::default()
                },
                ..plain()
            },
            Invalid,
            "the server counted",
        ),
        (
            "no response",
            Measured { rate: |_, _| 0, ..plain() },
            Invalid,
            "no request got a response",
        ),
    ]
}

#[test]
fn every_spoilt_measurement_has_its_verdict_and_reason() {
    let mut wrong = Vec::new();
    for (name, measured, verdict, reason) in
        of_generator().into_iter().chain(of_server()).chain(of_responses())
    {
        let cell = measure(&measured);
        let reasons = cell.reasons.join("; ");
        if cell.verdict != verdict || !reasons.contains(reason) {
            wrong.push(format!("{name}: {} ({reasons}), not {verdict} ({reason})", cell.verdict));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn clean_measurements_pass() {
    let plain = Measured::default;
    let fixed = || Measured { method: FIXED, ..Measured::default() };
    let noise = |_: usize, at: u64| 990 + (at * 7919) % 21;
    let clean = [
        ("constant users", plain()),
        ("constant users, cut", fixed()),
        ("constant users, noise", Measured { rate: noise, ..fixed() }),
        ("server that waits for itself and the generator", Measured { waiting: 0.2, ..plain() }),
        ("slow server", Measured { rate: |_, _| 20, ..fixed() }),
        ("fast server", Measured { rate: |_, _| 50_000, ..fixed() }),
        (
            "warm-up within the cut",
            Measured { rate: |_, at| if at == 0 { 100 } else { 1000 }, ..fixed() },
        ),
        ("constant rate", Measured { offered: Some(1000.0), ..plain() }),
        ("constant rate, cut", Measured { offered: Some(1000.0), ..fixed() }),
        ("low rate", Measured { offered: Some(5.0), rate: |_, _| 5, ..plain() }),
        ("stable rounds", Measured { method: stabilise(), seconds: 3, ..plain() }),
        (
            "stable rounds after a warm-up",
            Measured {
                method: stabilise(),
                seconds: 3,
                rate: |round, at| if round < 4 { 500 } else { 990 + (round as u64 * 31 + at) % 13 },
                ..plain()
            },
        ),
        (
            "a few errors",
            Measured { spoil: |s| tally(s).errors[0] = u64::from(s.second == 7), ..plain() },
        ),
        (
            "busy server and generator below its limit",
            Measured { spoil: |s| s.busiest_loop = 0.85, ..plain() },
        ),
        (
            "enough samples",
            Measured { rate: |_, _| 20, thresholds: &["p99.9<1s", "rps>10"], ..plain() },
        ),
    ];
    let mut wrong = Vec::new();
    for (name, measured) in clean {
        let cell = measure(&measured);
        if cell.verdict != Verdict::Pass {
            wrong.push(format!("{name}: {} ({})", cell.verdict, cell.reasons.join("; ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
