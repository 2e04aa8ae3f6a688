//! Executors: number of users or iterations, and their start.

use super::{Scope, Text};
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
        /// Iterations after which a user is replaced by a new one; `None` is endless.
        iterations: Option<u64>,
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
    /// JMeter's thread group with texts that are evaluated when the group starts.
    UsersAtStart(Box<UsersAtStart>),
    /// Users that each have their own start and end.
    Planned(Planned),
    /// JMeter's open model: each iteration is a new user.
    Arrivals(ArrivalTimes),
    /// `find-max`, `steps`: the highest load that meets an objective.
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

/// Texts for [`Users`].
#[derive(Clone, Debug, PartialEq)]
pub struct UsersAtStart {
    /// Number of users.
    pub users: Text,
    /// Seconds of the ramp-up time.
    pub ramp: Text,
    /// Iterations of each user; endless if negative.
    pub iterations: Text,
    /// Seconds after the start of the group from which on no step starts; endless if `None`.
    pub duration: Option<Text>,
}

impl Executor {
    /// An open model: response times differ from service times.
    #[must_use]
    pub fn is_open(&self) -> bool {
        match self {
            Self::ArrivalRate(_) | Self::Arrivals(_) => true,
            Self::FindMax(search) => search.of == Searched::Rate,
            _ => false,
        }
    }
}

impl UsersAtStart {
    /// The users at this moment. An invalid number is 0, as in JMeter.
    ///
    /// # Errors
    /// The duration is not positive, for which JMeter stops the test.
    pub fn evaluate(&self, scope: &mut Scope<'_>) -> Result<Users, String> {
        let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let duration = self.duration.as_ref().map(|duration| duration.integer(scope));
        if let Some(duration) = duration.filter(|duration| *duration <= 0) {
            return Err(format!(
                "the duration of a thread group is {duration} s; it must be positive, or the scheduler off"
            ));
        }
        Ok(Users {
            users: u32::try_from(self.users.integer(scope)).unwrap_or(0),
            ramp: seconds(self.ramp.integer(scope)),
            iterations: u64::try_from(self.iterations.integer(scope)).ok(),
            duration: duration.map(seconds),
        })
    }
}

/// Users that each have their own start and end.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// One for each user.
    pub spans: Vec<Span>,
    /// Iterations of each user; `None` is endless.
    pub iterations: Option<u64>,
}

impl Planned {
    /// End of the last user.
    #[must_use]
    pub fn end(&self) -> Duration {
        self.spans.iter().map(|span| span.end).max().unwrap_or_default()
    }
}

/// Start and end of a user, after the start of its group. No step starts after the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Start.
    pub start: Duration,
    /// End.
    pub end: Duration,
}

/// Times of arrivals.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrivalTimes {
    /// Stages, one after the other.
    pub stages: Vec<ArrivalStage>,
    /// As for [`ArrivalRate`].
    pub quantum: Duration,
    /// Largest number of users at the same time. Further arrivals are dropped.
    pub max_in_flight: u32,
}

impl ArrivalTimes {
    /// End of the last stage.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.stages.iter().map(|stage| stage.duration).sum()
    }
}

/// Arrivals with a linear rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrivalStage {
    /// Length.
    pub duration: Duration,
    /// Arrivals per second at the start.
    pub from: f64,
    /// Arrivals per second at the end.
    pub to: f64,
    /// Random times; their number is exact.
    pub random: bool,
}

impl ArrivalStage {
    /// Number of arrivals: complete ones.
    #[must_use]
    pub fn count(&self) -> u64 {
        ((self.from + self.to) / 2.0 * self.duration.as_secs_f64() + 1e-6).max(0.0) as u64
    }

    /// Time at which this part of the area below the rate is reached, in seconds.
    #[must_use]
    pub fn time_of(&self, area: f64) -> f64 {
        let length = self.duration.as_secs_f64();
        let slope = (self.to - self.from) / length.max(1e-9);
        if (self.to - self.from).abs() < 1e-4 * (self.from + self.to) / 2.0 {
            return area / ((self.from + self.to) / 2.0);
        }
        let root = (self.from * self.from + 2.0 * slope * area).max(0.0).sqrt();
        (root - self.from) / slope
    }
}

/// A linear change to a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Length.
    pub duration: Duration,
    /// Users, or iterations per second, at the end.
    pub target: f64,
}

/// Highest rate of an open model, in iterations per second.
pub(crate) const MAX_RATE: f64 = 10_000_000.0;
/// Longest stage of an open model, in seconds: 10 years.
pub(crate) const MAX_STAGE_SECONDS: f64 = 10.0 * 366.0 * 86_400.0;

/// Checks a rate of an open model.
///
/// # Errors
/// It is no number from 0 to [`MAX_RATE`].
pub(crate) fn valid_rate(rate: f64) -> Result<f64, String> {
    match (0.0..=MAX_RATE).contains(&rate) {
        true => Ok(rate),
        false => Err(format!("a rate is from 0 to {MAX_RATE}/s, not {rate}/s")),
    }
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

/// `find-max` and `steps`: increases the load until the objective is missed; `find-max` then bisects.
#[derive(Clone, Debug, PartialEq)]
pub struct FindMax {
    /// What is increased.
    pub of: Searched,
    /// How it is increased.
    pub climb: Climb,
    /// First load, in iterations per second or users.
    pub start: f64,
    /// Largest load.
    pub max: f64,
    /// Objective: largest share of errors.
    pub errors: f64,
    /// Objective: response times, as (percentile from 0 to 100, limit).
    pub limits: Vec<(f64, Duration)>,
    /// Precision: interval as a share of the load at which the search ends, 0.02 for 2 %.
    pub precision: f64,
    /// Number of searches, for the interval of the result.
    pub repeats: u32,
    /// Length of each step of the search.
    pub step_duration: Duration,
    /// Length of the confirming step; zero for none.
    pub confirm: Duration,
    /// Ramp-up time of the users of each step, before the step is evaluated.
    pub ramp: Duration,
    /// As for [`ArrivalRate`].
    pub quantum: Duration,
    /// As for [`ArrivalRate`].
    pub max_in_flight: u32,
}

/// The load that a search increases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::EnumString, strum::VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum Searched {
    /// Iterations per second, in an open model.
    Rate,
    /// Users, in a closed model.
    Users,
}

/// How a search increases the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Climb {
    /// Doubled until the objective is missed, then bisected, repeated and confirmed.
    Double,
    /// By this load in each step, until the objective is missed.
    Add(f64),
}
