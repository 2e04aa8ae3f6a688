//! Executors: how users come and go, and how runs end.

use crate::plan::{closed, get, open, program, run, samples, step};
use crate::server::Server;
use std::time::{Duration, Instant};
use weir_lab::engine::{self, Control, Event, Options, StepVerdict};
use weir_lab::program::{ArrivalRate, Executor, FindMax, Pause, Stage, Step, Text, Users};

const MILLIS: fn(u64) -> Duration = Duration::from_millis;

#[test]
fn users_come_over_the_ramp_and_end_with_their_time() {
    let server = Server::start();
    let users =
        Users { users: 10, ramp: MILLIS(1000), iterations: None, duration: Some(MILLIS(1500)) };
    let began = Instant::now();
    let summary =
        run(program(Executor::Users(users), vec![step(get(&server.origin(), "/delay/50"))]));
    let lasted = began.elapsed();
    assert!(lasted >= MILLIS(1500), "{lasted:?}");
    let count = samples(&summary).ok;
    // User i starts after i tenths of a second: 150 of 50 ms each less what the ramp takes.
    assert!((100..=215).contains(&count), "{count}");
    assert_eq!((count, server.connections()), (server.requests(), 10));
    assert_eq!(summary.interrupted, 0, "what is under way at the end is waited for");
}

#[test]
fn ramping_users_follow_their_stages() {
    let server = Server::start();
    let executor = Executor::RampingVus {
        start: 0,
        stages: vec![
            Stage { duration: MILLIS(1000), target: 20.0 },
            Stage { duration: MILLIS(1000), target: 2.0 },
        ],
        iterations: None,
    };
    let mut most = Vec::new();
    let mut one = program(executor, vec![step(get(&server.origin(), "/delay/20"))]);
    one.label("requests");
    engine::run(one, &Options::default(), &Control::default(), &mut |event| {
        if let Event::Second(interval) = event {
            most.push(interval.users);
        }
    })
    .unwrap();
    assert!((12..=20).contains(&most[0]), "{most:?}: nearly 20 after a second");
    assert!(server.connections() >= 18, "{}", server.connections());
}

#[test]
fn a_pause_does_not_outlast_the_time_or_a_stop() {
    let server = Server::start();
    let steps = || {
        let pause = Step::Pause(Pause::constant(Text::fixed("600000")));
        vec![step(get(&server.origin(), "/")), pause]
    };
    let users = Users { users: 3, ramp: MILLIS(0), iterations: None, duration: Some(MILLIS(200)) };
    let summary = run(program(Executor::Users(users), steps()));
    assert_eq!(samples(&summary).ok, 3);
    let control = Control::default();
    let stopper = control.clone();
    std::thread::spawn(move || {
        std::thread::sleep(MILLIS(200));
        stopper.stop();
    });
    let mut one = program(closed(3, 2), steps());
    one.label("requests");
    let summary = engine::run(one, &Options::default(), &control, &mut |_| {}).unwrap();
    assert!(summary.stopped);
    assert_eq!(samples(&summary).ok, 3);
}

#[test]
fn endless_requests_are_interrupted_after_the_grace_time() {
    let server = Server::start();
    let users = Users { users: 3, ramp: MILLIS(0), iterations: None, duration: Some(MILLIS(100)) };
    let options = Options { grace: MILLIS(200), ..Options::default() };
    let hang = program(Executor::Users(users), vec![step(get(&server.origin(), "/hang"))]);
    let summary = crate::plan::run_with(hang, &options);
    assert_eq!((samples(&summary).samples(), summary.interrupted), (0, 3));
}

#[test]
fn a_ramping_rate_is_exact_over_several_loops() {
    let server = Server::start();
    let executor = Executor::ArrivalRate(ArrivalRate {
        start: 0.0,
        stages: vec![
            Stage { duration: MILLIS(1000), target: 200.0 },
            Stage { duration: MILLIS(1000), target: 200.0 },
        ],
        quantum: Duration::from_micros(500),
        max_in_flight: 200,
        backlog: 0,
    });
    let options = Options { loops: 2, ..Options::default() };
    let ramp = program(executor, vec![step(get(&server.origin(), "/"))]);
    let summary = crate::plan::run_with(ramp, &options);
    assert_eq!((summary.total.offered, samples(&summary).ok, server.requests()), (300, 300, 300));
}

#[test]
fn an_open_model_can_be_stopped() {
    let server = Server::start();
    let control = Control::default();
    let stopper = control.clone();
    std::thread::spawn(move || {
        std::thread::sleep(MILLIS(300));
        stopper.stop();
    });
    let mut one = program(open(100.0, Duration::from_secs(600), 10), vec![]);
    one.groups[0].steps = vec![step(get(&server.origin(), "/"))];
    one.label("requests");
    let summary = engine::run(one, &Options::default(), &control, &mut |_| {}).unwrap();
    assert!(summary.stopped && summary.interrupted == 0);
    assert_eq!(samples(&summary).ok, server.requests());
}

#[test]
fn the_highest_rate_of_a_slow_server_is_found() {
    let server = Server::start();
    // Two connections of 20 ms each: a hundred a second, no more.
    let executor = Executor::FindMax(FindMax {
        start: 20.0,
        errors: 0.0,
        limits: vec![(50.0, MILLIS(500))],
        precision: 0.2,
        step_duration: MILLIS(600),
        confirm: MILLIS(1000),
        quantum: MILLIS(1),
        max_in_flight: 2,
    });
    let summary = run(program(executor, vec![step(get(&server.origin(), "/delay/20"))]));
    let last = summary.rate_steps.last().unwrap();
    assert!(last.confirms && last.verdict == StepVerdict::Met, "{:?}", summary.rate_steps);
    assert!((15.0..=110.0).contains(&last.rate), "{last:?}");
    assert!(summary.rate_steps.iter().any(|hold| hold.verdict == StepVerdict::Behind));
    assert_eq!(samples(&summary).samples(), server.requests(), "all holds are in the whole");
}
