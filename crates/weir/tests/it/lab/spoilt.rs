//! The table of verdicts on real measurements: ways of spoiling one, each with its verdict and reason,
//! and clean ones that pass. All of them, with `LAB_VERDICTS=all` (`make soak`), take six minutes of a quiet
//! machine; tests run those by responses, which other programs do not change.

use super::busy::Busy;
use super::target::{Response, Target};
use crate::harness::{eventually, weir};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Seconds that a trend can be seen in.
const LONG: &str = "21s";
const FIXED: &str = "protocol: {fixed: {cut: 1s}}\n";

/// A server that responds with 200 after a time, which depends on the seconds since the start.
fn server(delay_ms: impl Fn(f64) -> f64 + Send + Sync + 'static) -> Target {
    let begun = Instant::now();
    Target::start(move |_, _| {
        let delay = delay_ms(begun.elapsed().as_secs_f64());
        Response::Text(Duration::from_secs_f64(delay / 1e3), "well".to_owned())
    })
}

fn closed(users: u32, duration: &str) -> String {
    format!("load: {{executor: constant-vus, vus: {users}, duration: {duration}}}\n")
}

fn open(rate: u32, duration: &str) -> String {
    format!("load: {{executor: constant-arrival-rate, rate: {rate}, duration: {duration}}}\n")
}

fn write(folder: &Path, target: &Target, more: &str) {
    let requests = if more.contains("requests:") { "" } else { "requests: [{get: /}]\n" };
    let text = format!("lab: 1\ntarget: {{base: \"http://{}\"}}\n{requests}{more}", target.addr);
    std::fs::write(folder.join("scenario.yaml"), text).unwrap();
}

fn run(target: &Target, more: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), target, more);
    weir(folder.path(), &["lab", "run", "scenario.yaml", "--out", "out"])
}

/// A run during which something happens, once it has begun.
fn during(target: &Target, more: &str, command: &[&str], happens: impl FnOnce(Pid)) -> Output {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), target, more);
    let child = Command::new(command[0])
        .args(&command[1..])
        .args([env!("CARGO_BIN_EXE_weir"), "lab", "run", "scenario.yaml", "--out", "out"])
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("it has begun", || target.requests() >= 100);
    happens(Pid::from_child(&child));
    child.wait_with_output().unwrap()
}

fn starved() -> Output {
    let target = server(|_| 1.0);
    let _busy = Busy::start();
    run(&target, &closed(4, "5s"))
}

fn stopped() -> Output {
    let target = server(|_| 5.0);
    during(&target, &closed(4, "5s"), &["env"], |pid| {
        kill_process(pid, Signal::STOP).unwrap();
        std::thread::sleep(Duration::from_secs(1));
        kill_process(pid, Signal::CONT).unwrap();
    })
}

/// The wall clock of the process is set by Debian's `faketime`.
fn clock_set() -> Output {
    let target = server(|_| 5.0);
    let folder = tempfile::tempdir().unwrap();
    let offset = folder.path().join("offset");
    std::fs::write(&offset, "+0").unwrap();
    let library = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
    let env = [
        "env".to_owned(),
        format!("LD_PRELOAD={library}"),
        format!("FAKETIME_TIMESTAMP_FILE={}", offset.display()),
        "FAKETIME_NO_CACHE=1".to_owned(),
        "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
    ];
    during(&target, &closed(4, "5s"), &env.each_ref().map(String::as_str), |_| {
        std::fs::write(&offset, "+30").unwrap();
    })
}

fn neighbour() -> Output {
    let target = server(|_| 0.0);
    let ended = Arc::new(AtomicBool::new(false));
    let seen = ended.clone();
    let neighbour = std::thread::spawn(move || {
        while !seen.load(Ordering::SeqCst) {
            let busy = Busy::start();
            std::thread::sleep(Duration::from_millis(900));
            drop(busy);
            std::thread::sleep(Duration::from_millis(1300));
        }
    });
    let rules = "protocol: {stabilise: {max_rounds: 15}}\n";
    let output = run(&target, &format!("{}{rules}", closed(4, "1s")));
    ended.store(true, Ordering::SeqCst);
    neighbour.join().unwrap();
    output
}

/// Name, measurement, exit codes of the verdicts that are right, and parts of reasons, one of which is given.
type Row = (&'static str, fn() -> Output, &'static [i32], &'static [&'static str]);

const INVALID: &[i32] = &[3];
const UNSTABLE: &[i32] = &[4];

const SPOILT: &[Row] = &[
    ("starved", starved, INVALID, &["took the cores"]),
    ("stopped", stopped, INVALID, &["was stalled"]),
    ("clock step", clock_set, INVALID, &["the clock of the machine was set"]),
    ("noisy neighbour", neighbour, &[3, 4], &["vary by", "took the cores", "stalled"]),
    (
        "drifting up",
        || run(&server(|at| 40.0 - 1.4 * at.min(22.0)), &(closed(4, LONG) + FIXED)),
        UNSTABLE,
        &["rises throughout"],
    ),
    (
        "drifting down",
        || run(&server(|at| 10.0 + 1.4 * at.min(22.0)), &(closed(4, LONG) + FIXED)),
        UNSTABLE,
        &["falls"],
    ),
    (
        "throttled server",
        || run(&server(|at| if at < 11.0 { 10.0 } else { 40.0 }), &(closed(4, LONG) + FIXED)),
        UNSTABLE,
        &["falls"],
    ),
    (
        "cold start",
        || run(&server(|at| if at < 8.0 { 60.0 } else { 10.0 }), &(closed(4, LONG) + FIXED)),
        UNSTABLE,
        &["reaches its level at", "rises"],
    ),
    (
        "generator saturated",
        || run(&server(|_| 0.0), &open(500_000, "3s")),
        INVALID,
        &["at its limit", "late", "were offered", "dropped"],
    ),
];

/// Spoilt by what is responded.
const OF_RESPONSES: &[Row] = &[
    (
        "fast errors",
        || {
            let broken = Target::start(|number, _| {
                let (status, delay) = if number < 500 { (200, 5) } else { (500, 0) };
                Response::Status(status, Duration::from_millis(delay), "broken".to_owned())
            });
            run(&broken, &closed(4, "3s"))
        },
        INVALID,
        &["requests failed"],
    ),
    (
        "wrong bytes",
        || {
            let checks = "requests: [{get: /, checks: [{body_equals: good}]}]\n";
            run(&server(|_| 5.0), &format!("{checks}{}", closed(4, "3s")))
        },
        INVALID,
        &["requests failed"],
    ),
    (
        "too few samples",
        || run(&server(|_| 5.0), &(open(10, "3s") + "thresholds: [\"p99.9<1s\"]\n")),
        INVALID,
        &["samples"],
    ),
    (
        "connection limit",
        || {
            let load = "load: {executor: constant-arrival-rate, rate: 400, max_in_flight: 10, backlog: 1, \
                        duration: 3s}\n";
            run(&server(|_| 100.0), load)
        },
        INVALID,
        &["dropped"],
    ),
];

fn varied(at: f64) -> f64 {
    5.0 + (at * 7919.0) % 3.0
}

/// Name and measurement.
type Clean = (&'static str, fn() -> Output);

const CLEAN: &[Clean] = &[
    ("constant users", || run(&server(|_| 5.0), &closed(4, "5s"))),
    ("constant users, cut", || run(&server(|_| 10.0), &(closed(4, LONG) + FIXED))),
    ("one user", || run(&server(|_| 5.0), &closed(1, "5s"))),
    ("response times that vary", || run(&server(varied), &(closed(4, LONG) + FIXED))),
    ("slow server", || run(&server(|_| 100.0), &closed(20, "5s"))),
    ("constant rate", || run(&server(|_| 5.0), &open(200, "5s"))),
    ("constant rate, cut", || run(&server(|_| 5.0), &(open(200, LONG) + FIXED))),
    ("low rate", || run(&server(|_| 5.0), &open(5, "10s"))),
    ("warm-up within the cut", || {
        let cold = server(|at| if at < 1.0 { 50.0 } else { 10.0 });
        run(&cold, &(closed(4, LONG) + "protocol: {fixed: {cut: 3s}}\n"))
    }),
    ("stable rounds", || {
        let rules = "protocol: {stabilise: {max_rounds: 40}}\n";
        run(&server(|_| 10.0), &(closed(4, "1s") + rules))
    }),
    ("right bytes", || {
        let checks = "requests: [{get: /, checks: [{body_equals: well}]}]\n";
        run(&server(|_| 5.0), &format!("{checks}{}", closed(4, "5s")))
    }),
    ("enough samples for a threshold", || {
        run(&server(|_| 5.0), &(open(200, "10s") + "thresholds: [\"p99<1s\", \"rps>100\"]\n"))
    }),
];

#[test]
fn spoilt_measurements_are_not_passed_and_clean_ones_are() {
    let mut rows = OF_RESPONSES.to_vec();
    if std::env::var("LAB_VERDICTS").is_ok_and(|value| value == "all") {
        rows.extend(SPOILT);
        rows.extend(CLEAN.iter().map(|&(name, measure)| -> Row { (name, measure, &[0], &[]) }));
    }
    let mut wrong = Vec::new();
    for (name, measure, codes, reasons) in rows {
        let output = measure();
        let text = String::from_utf8_lossy(&output.stdout);
        let given = reasons.is_empty() || reasons.iter().any(|reason| text.contains(reason));
        let verdict = text.lines().find(|line| {
            ["INVALID", "UNSTABLE", "FAIL", "PASS"].iter().any(|word| line.contains(word))
        });
        println!("{name}: {:?} {}", output.status.code(), verdict.unwrap_or_default());
        if !output.status.code().is_some_and(|code| codes.contains(&code)) || !given {
            wrong.push(format!("{name}: {:?}\n{text}", output.status.code()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
