//! Executors: number of users or iterations, and their start.

use std::time::Duration;

/// Schedule of the users or iterations of a group.
#[derive(Clone, Debug, PartialEq)]
pub enum Executor {
    /// `constant-vus`, `ramp-users` and JMeter's thread group: a closed model.
    Users(Users),
    /// `ramping-vus`: the number of users follows stages; surplus users end after their iteration.
    RampingVus {
        /// Users at the start.
        start: u32,
        /// Stages, one after the other.
        stages: Vec<Stage>,
    },
    /// `shared-iterations`: users share a number of iterations (ab's `-n`).
    SharedIterations {
        /// Users.
        vus: u32,
        /// Iterations of all users together.
        iterations: u64,
        /// Time after the start of the group from which on no iteration starts.
        limit: Option<Duration>,
    },
    /// `constant-arrival-rate` and `ramping-arrival-rate`: an open model. Iterations start by a
    /// schedule, independent of the server.
    ArrivalRate(ArrivalRate),
    /// `find-max`: the highest rate that meets an objective.
    FindMax(FindMax),
}

/// Users in a closed model: each executes one iteration after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Users {
    /// Number of users.
    pub users: u32,
    /// Ramp-up time: user i of n starts at i/n of this time.
    pub ramp: Duration,
    /// Iterations of each user; `None` is endless.
    pub iterations: Option<u64>,
    /// Time after the start of the group from which on no step starts.
    pub duration: Option<Duration>,
}

/// A linear change to a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Length.
    pub duration: Duration,
    /// Users, or iterations per second, at the end.
    pub target: f64,
}

/// Rate of iterations in an open model.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrivalRate {
    /// Iterations per second at the start.
    pub start: f64,
    /// The rate changes linearly from the target of one stage to the next. A constant rate is
    /// one stage with the target `start`.
    pub stages: Vec<Stage>,
    /// Iterations are due at multiples of the quantum; a coarser one is cheaper for the
    /// generator.
    pub quantum: Duration,
    /// Largest number of users, and thus of connections.
    pub max_in_flight: u32,
    /// Iterations that may wait for a user when all are busy; further ones are dropped. The
    /// waiting time is part of the response time, not of the service time.
    pub backlog: u64,
}

/// `find-max`: doubles the rate until the objective is missed, then bisects.
#[derive(Clone, Debug, PartialEq)]
pub struct FindMax {
    /// First rate, in iterations per second.
    pub start: f64,
    /// Objective: largest share of errors.
    pub errors: f64,
    /// Objective: response times, as (percentile from 0 to 100, limit).
    pub limits: Vec<(f64, Duration)>,
    /// Precision: interval as a share of the rate at which the search ends, 0.02 for 2 %.
    pub precision: f64,
    /// Length of each rate step of the search.
    pub step_duration: Duration,
    /// Length of the confirming step.
    pub confirm: Duration,
    /// As for [`ArrivalRate`].
    pub quantum: Duration,
    /// As for [`ArrivalRate`].
    pub max_in_flight: u32,
}
