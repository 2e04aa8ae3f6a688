//! Programs of the tests, and running them.

use std::time::Duration;
use weir_lab::engine::{self, Control, Options, Summary};
use weir_lab::program::{
    ArrivalRate, Cookies, Executor, Group, OnError, Origin, Phase, Program, Request, Stage, Step,
    Text, Users,
};
use weir_lab::record::Tally;

/// A program of one group that does `steps`.
pub(crate) fn program(executor: Executor, steps: Vec<Step>) -> Program {
    Program { groups: vec![group(executor, steps)], insecure: true, ..Program::default() }
}

pub(crate) fn group(executor: Executor, steps: Vec<Step>) -> Group {
    Group {
        name: "users".to_owned(),
        phase: Phase::Main,
        executor,
        delay: Duration::ZERO,
        steps,
        on_error: OnError::Continue,
        cookies: Cookies::Ignored,
        new_user: false,
        grace: None,
        index: None,
    }
}

/// A GET under the label 0, `requests`.
pub(crate) fn get(origin: &Origin, target: &str) -> Request {
    Request::get(weir_lab::program::Label(0), origin.clone(), Text::fixed(target))
}

pub(crate) fn step(request: Request) -> Step {
    Step::Request(request.into())
}

/// `users` that do `each` iterations.
pub(crate) fn closed(users: u32, each: u64) -> Executor {
    Executor::Users(Users { users, ramp: Duration::ZERO, iterations: Some(each), duration: None })
}

/// A constant rate.
pub(crate) fn open(rate: f64, duration: Duration, max_in_flight: u32) -> Executor {
    Executor::ArrivalRate(ArrivalRate {
        start: rate,
        stages: vec![Stage { duration, target: rate }],
        quantum: Duration::from_millis(1),
        max_in_flight,
        backlog: 0,
    })
}

/// Runs a program whose requests all have the label `requests`.
pub(crate) fn run(program: Program) -> Summary {
    run_with(program, &Options::default())
}

pub(crate) fn run_with(mut program: Program, options: &Options) -> Summary {
    program.label("requests");
    engine::run(program, options, &Control::default(), &mut |_| {}).unwrap()
}

/// All samples of a run.
pub(crate) fn samples(summary: &Summary) -> &Tally {
    &summary.total.labels[0]
}
