//! Executors: how users come and go, and how runs end.

use crate::plan::{closed, get, open, program, run, samples, step};
use crate::server::Server;
use std::time::{Duration, Instant};
use weir_lab::engine::{self, Capacity, Control, Event, Options, StepVerdict};
use weir_lab::program::{
    ArrivalRate, Climb, Executor, FindMax, Pause, Searched, Stage, Step, Text, Users,
};

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
    assert_eq!(summary.total.interrupted, 3);
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
        of: Searched::Rate,
        climb: Climb::Double,
        max: 1000.0,
        repeats: 1,
        ramp: Duration::ZERO,
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
    let last = summary.load_steps.last().unwrap();
    assert!(last.confirms && last.verdict == StepVerdict::Met, "{:?}", summary.load_steps);
    assert!((15.0..=110.0).contains(&last.load.value()), "{last:?}");
    assert!(summary.load_steps.iter().any(|hold| hold.verdict == StepVerdict::Behind));
    assert_eq!(samples(&summary).samples(), server.requests(), "all holds are in the whole");
}

#[test]
fn the_highest_number_of_users_of_a_slow_server_is_found() {
    let server = Server::start();
    let executor = Executor::FindMax(FindMax {
        of: Searched::Users,
        climb: Climb::Double,
        max: 64.0,
        repeats: 2,
        ramp: MILLIS(100),
        start: 2.0,
        errors: 0.0,
        limits: vec![(50.0, MILLIS(45))],
        precision: 0.3,
        step_duration: MILLIS(300),
        confirm: MILLIS(500),
        quantum: MILLIS(1),
        max_in_flight: 1,
    });
    let summary = run(program(executor, vec![step(get(&server.origin(), "/queue/4"))]));
    let last = summary.load_steps.last().unwrap();
    assert!(last.confirms && last.verdict == StepVerdict::Met, "{:?}", summary.load_steps);
    assert!(!summary.open, "users wait for their responses");
    let found = Capacity::of(&summary.load_steps).unwrap();
    // One request at a time of 4 ms: eleven users wait for less than 45 ms.
    assert!((1.0..=16.0).contains(&found.load.value()), "{found:?} {:?}", summary.load_steps);
    assert!(found.confirmed && found.searches == 2 && found.interval.is_some(), "{found:?}");
    assert!(summary.load_steps.iter().any(|step| step.verdict == StepVerdict::Slow));
    assert_eq!(samples(&summary).samples(), server.requests(), "all steps are in the total");
}

#[test]
fn the_ramp_up_of_a_step_is_not_evaluated() {
    let server = Server::start();
    let executor = Executor::FindMax(FindMax {
        of: Searched::Users,
        climb: Climb::Add(1.0),
        max: 1.0,
        repeats: 1,
        ramp: MILLIS(200),
        start: 1.0,
        errors: 0.0,
        limits: vec![],
        precision: 0.02,
        step_duration: MILLIS(2000),
        confirm: Duration::ZERO,
        quantum: MILLIS(1),
        max_in_flight: 1,
    });
    let mut events = Vec::new();
    let one = program(executor, vec![step(get(&server.origin(), "/delay/20"))]);
    engine::run(one, &Options::default(), &Control::default(), &mut |event| match event {
        engine::Event::Second(second) => events.push(second.second),
        engine::Event::StepRamped => events.push(100),
        engine::Event::LoadStep(step) => events.push(200 + u64::from(step.met)),
        engine::Event::Groups(_) => {}
    })
    .unwrap();
    assert_eq!(events, [0, 100, 1, 2, 201]);
}
