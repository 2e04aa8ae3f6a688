//! Executors: how many users or iterations there are, and when they begin.

use std::time::Duration;

/// How a group's users or iterations come.
#[derive(Clone, Debug, PartialEq)]
pub enum Executor {
    /// `constant-vus`, `ramp-users` and JMeter's thread group: a closed model.
    Users(Users),
    /// `ramping-vus`: the number of users follows stages; users above it end after their
    /// iteration.
    RampingVus {
        /// Users at the beginning.
        start: u32,
        /// Then, one after the other.
        stages: Vec<Stage>,
    },
    /// `shared-iterations`: users share a number of iterations (ab's `-n`).
    SharedIterations {
        /// Users.
        vus: u32,
        /// Iterations of all of them together.
        iterations: u64,
        /// No iteration begins later than this after the group began.
        limit: Option<Duration>,
    },
    /// `constant-arrival-rate` and `ramping-arrival-rate`: an open model. Iterations begin when
    /// the schedule says so, whatever the server does.
    ArrivalRate {
        /// Iterations a second at the beginning.
        start: f64,
        /// The rate goes in a straight line from one stage's target to the next one's; a constant
        /// rate is one stage whose target is `start`.
        stages: Vec<Stage>,
        /// Iterations are due at multiples of it: a coarser one is cheaper for the generator.
        quantum: Duration,
        /// Users, and with them connections, at most.
        max_in_flight: u32,
        /// Iterations that may wait for a user when all are busy; the next ones are dropped. What
        /// waits is late, which its response time includes and its service time does not.
        backlog: u64,
    },
    /// `find-max`: the highest rate that keeps a promise.
    FindMax(FindMax),
}

/// Users in a closed model: each does iteration after iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct Users {
    /// How many.
    pub users: u32,
    /// User i of n begins i/n of this after the group.
    pub ramp: Duration,
    /// Iterations of each user; `None` is no end.
    pub iterations: Option<u64>,
    /// No iteration begins later than this after the group began, and users stop before their next
    /// step.
    pub duration: Option<Duration>,
}

/// A straight line to a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// How long it takes.
    pub duration: Duration,
    /// Users, or iterations a second, at its end.
    pub target: f64,
}

/// `find-max`: doubles the rate until the promise breaks, then halves the interval in between.
#[derive(Clone, Debug, PartialEq)]
pub struct FindMax {
    /// First rate, iterations a second.
    pub start: f64,
    /// The promise: at most this share of errors.
    pub errors: f64,
    /// The promise: response times, as (percentile from 0 to 100, limit).
    pub limits: Vec<(f64, Duration)>,
    /// Where it stops: the interval as a share of the rate, 0.02 for 2 %.
    pub precision: f64,
    /// How long each rate is held while searching.
    pub hold: Duration,
    /// How long the rate found is held at the end.
    pub confirm: Duration,
    /// As for [`Executor::ArrivalRate`].
    pub quantum: Duration,
    /// As for [`Executor::ArrivalRate`].
    pub max_in_flight: u32,
}
