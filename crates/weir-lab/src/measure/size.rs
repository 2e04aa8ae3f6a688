//! How much a program does, and the same program doing more or less.

use crate::program::{Executor, Group, Phase, Program, Step, Users};
use crate::protocol::Extent;
use std::time::Duration;

/// What a program does in a round: iterations if a number of them ends it, seconds otherwise.
/// `None` if it never ends, or ends by itself (`find-max`).
#[must_use]
pub fn extent(program: &Program) -> Option<Extent> {
    let mut iterations = 0_u64;
    let mut seconds = 0.0_f64;
    for group in main(program) {
        match &group.executor {
            Executor::SharedIterations { iterations: n, .. } => iterations += n,
            Executor::Users(users) => match (users.iterations, users.duration) {
                (Some(n), None) => iterations += n.saturating_mul(u64::from(users.users)),
                (_, Some(duration)) => seconds = seconds.max(duration.as_secs_f64()),
                (None, None) => return None,
            },
            Executor::RampingVus { stages, .. } | Executor::ArrivalRate { stages, .. } => {
                seconds = seconds.max(stages.iter().map(|s| s.duration.as_secs_f64()).sum());
            }
            Executor::FindMax(_) => return None,
        }
    }
    match (iterations, seconds > 0.0) {
        (0, false) => None,
        (0, true) => Some(Extent::Seconds(seconds)),
        (n, _) => Some(Extent::Iterations(n)),
    }
}

/// The program doing as much as `wanted`, with the same users and rates. One whose extent is of
/// the other kind, or not known, stays as it is.
#[must_use]
pub fn sized(program: &Program, wanted: Extent) -> Program {
    let factor = match (extent(program), wanted) {
        (Some(Extent::Iterations(now)), Extent::Iterations(n)) => n as f64 / now.max(1) as f64,
        (Some(Extent::Seconds(now)), Extent::Seconds(seconds)) => seconds / now,
        _ => return program.clone(),
    };
    let mut sized = program.clone();
    for group in sized.groups.iter_mut().filter(|group| group.phase == Phase::Main) {
        scale(&mut group.executor, factor);
    }
    sized
}

fn scale(executor: &mut Executor, factor: f64) {
    let count = |n: u64| ((n as f64 * factor).round() as u64).max(1);
    let time = |length: Duration| {
        Duration::try_from_secs_f64(length.as_secs_f64() * factor).unwrap_or(length)
    };
    match executor {
        Executor::SharedIterations { iterations, limit, .. } => {
            *iterations = count(*iterations);
            *limit = limit.map(time);
        }
        Executor::Users(users) => {
            users.iterations = users.iterations.map(count);
            users.duration = users.duration.map(time);
        }
        Executor::RampingVus { stages, .. } | Executor::ArrivalRate { stages, .. } => {
            stages.iter_mut().for_each(|stage| stage.duration = time(stage.duration));
        }
        Executor::FindMax(_) => {}
    }
}

/// Requests a second that a program offers, and its pacing quantum, if all of it is one constant
/// rate of iterations whose requests can be counted.
#[must_use]
pub fn rate(program: &Program) -> Option<(f64, Duration)> {
    let mut sum = (0.0, Duration::ZERO);
    for group in main(program) {
        let Executor::ArrivalRate { start, stages, quantum, .. } = &group.executor else {
            return None;
        };
        if stages.iter().any(|stage| stage.target != *start) {
            return None;
        }
        sum = (sum.0 + start * requests(&group.steps)?, sum.1.max(*quantum));
    }
    (sum.0 > 0.0).then_some(sum)
}

/// Requests a second that users who begin one after the other bring in, if each does a number of
/// iterations whose requests can be counted: what is offered, however fast the server is.
#[must_use]
pub fn offered(program: &Program) -> Option<f64> {
    let (mut sum, mut all, mut time) = (0.0, 0.0, 0.0);
    for group in main(program) {
        let Executor::Users(Users { users, ramp, iterations, .. }) = &group.executor else {
            return None;
        };
        if ramp.is_zero() {
            return None;
        }
        let count = f64::from(*users) * (*iterations)? as f64 * requests(&group.steps)?;
        sum += count / ramp.as_secs_f64();
        all += count;
        time += ramp.as_secs_f64();
    }
    let offered = if program.consecutive { all / f64::max(time, f64::MIN_POSITIVE) } else { sum };
    (offered > 0.0).then_some(offered)
}

/// How late requests of `find-max` may be: a tenth of the shortest time that it promises, in which
/// being late is included.
#[must_use]
pub(super) fn lateness(program: &Program) -> Option<Duration> {
    let limits = main(program).filter_map(|group| match &group.executor {
        Executor::FindMax(search) => search.limits.iter().map(|(_, limit)| *limit / 10).min(),
        _ => None,
    });
    limits.min()
}

/// Requests of an iteration; `None` if it depends.
pub(super) fn requests(steps: &[Step]) -> Option<f64> {
    let mut count = 0.0;
    for step in steps {
        count += match step {
            Step::Request(_) => 1.0,
            Step::Loop { .. } | Step::Once(_) => return None,
            Step::Transaction { steps, .. } => requests(steps)?,
            _ => 0.0,
        };
    }
    Some(count)
}

fn main(program: &Program) -> impl Iterator<Item = &Group> {
    program.groups.iter().filter(|group| group.phase == Phase::Main)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Cookies, OnError, Origin, Request, Stage, Text};

    fn program(executors: Vec<Executor>) -> Program {
        let group = |executor| Group {
            name: String::new(),
            phase: Phase::Main,
            executor,
            delay: Duration::ZERO,
            steps: Vec::new(),
            on_error: OnError::Continue,
            cookies: Cookies::Ignored,
            fresh_user: false,
        };
        Program { groups: executors.into_iter().map(group).collect(), ..Program::default() }
    }

    fn shared(iterations: u64) -> Executor {
        Executor::SharedIterations { vus: 10, iterations, limit: None }
    }

    fn users(iterations: Option<u64>, seconds: Option<u64>) -> Executor {
        let duration = seconds.map(Duration::from_secs);
        Executor::Users(Users { users: 10, ramp: Duration::ZERO, iterations, duration })
    }

    #[test]
    fn iterations_and_seconds_are_scaled() {
        let ab = program(vec![shared(20_000), shared(10_000)]);
        assert_eq!(extent(&ab), Some(Extent::Iterations(30_000)));
        let longer = sized(&ab, Extent::Iterations(90_000));
        assert_eq!(longer.groups[0].executor, shared(60_000));
        assert_eq!(longer.groups[1].executor, shared(30_000));

        let constant = program(vec![users(None, Some(10))]);
        assert_eq!(extent(&constant), Some(Extent::Seconds(10.0)));
        let shorter = sized(&constant, Extent::Seconds(3.0));
        assert_eq!(extent(&shorter), Some(Extent::Seconds(3.0)));
        assert_eq!(extent(&program(vec![users(Some(7), None)])), Some(Extent::Iterations(70)));
        assert_eq!(extent(&program(vec![users(None, None)])), None);
    }

    #[test]
    fn users_that_begin_one_after_the_other_offer_a_rate() {
        let ramp = |users, iterations| {
            let ramp = Duration::from_secs(20);
            Executor::Users(Users { users, ramp, iterations, duration: None })
        };
        let mut two = program(vec![ramp(1_000, Some(1)), ramp(200, Some(10))]);
        let label = two.label("a");
        let origin = Origin { tls: false, host: "h".to_owned(), port: 1 };
        for group in &mut two.groups {
            let request = Request::get(label, origin.clone(), Text::fixed("/"));
            group.steps = vec![Step::Request(request.into())];
        }
        assert_eq!(offered(&two), Some(150.0));
        two.consecutive = true;
        assert_eq!(offered(&two), Some(75.0));
        assert_eq!(offered(&program(vec![users(Some(7), None)])), None, "all at once");
        assert_eq!(offered(&program(vec![ramp(5, None)])), None);
    }

    #[test]
    fn only_one_constant_rate_is_a_rate() {
        let open = |target| {
            let stages = vec![Stage { duration: Duration::from_secs(4), target }];
            let (quantum, max_in_flight, backlog) = (Duration::from_millis(1), 10, 0);
            let mut open = program(vec![Executor::ArrivalRate {
                start: 50.0,
                stages,
                quantum,
                max_in_flight,
                backlog,
            }]);
            let label = open.label("both");
            let steps = Vec::new();
            open.groups[0].steps =
                vec![Step::Transaction { label, with_pauses: false, instead: false, steps }];
            open
        };
        assert_eq!(rate(&open(50.0)), None, "no request, no rate");
        assert_eq!(rate(&open(90.0)), None);
        assert_eq!(extent(&open(50.0)), Some(Extent::Seconds(4.0)));
        assert_eq!(rate(&program(vec![shared(1)])), None);
    }
}
