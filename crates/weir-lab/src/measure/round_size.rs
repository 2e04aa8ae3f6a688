//! The size of a program, and programs of another size.

use crate::program::{ArrivalRate, Executor, Group, Phase, Program, Searched, Step, Users};
use crate::protocol::RoundSize;
use std::time::Duration;

/// The size of a program: iterations if a number of them ends the program, seconds otherwise.
/// `None` if the program is endless or ends by itself (`find-max`).
#[must_use]
pub fn size(program: &Program) -> Option<RoundSize> {
    let mut iterations = 0_u64;
    let mut seconds = 0.0_f64;
    // Consecutive groups add up, others run at the same time.
    let mut add = |length: f64| {
        seconds = if program.consecutive { seconds + length } else { seconds.max(length) };
    };
    for group in main(program) {
        match &group.executor {
            Executor::SharedIterations { iterations: n, .. } => iterations += n,
            Executor::Users(users) => match (users.iterations, users.duration) {
                (Some(n), None) => iterations += n.saturating_mul(u64::from(users.users)),
                (_, Some(duration)) => add(duration.as_secs_f64()),
                (None, None) => return None,
            },
            Executor::RampingVus { stages, .. }
            | Executor::ArrivalRate(ArrivalRate { stages, .. }) => {
                add(stages.iter().map(|s| s.duration.as_secs_f64()).sum());
            }
            Executor::Planned(planned) => add(planned.end().as_secs_f64()),
            Executor::Arrivals(times) => add(times.length().as_secs_f64()),
            Executor::FindMax(_) | Executor::UsersAtStart(_) => return None,
        }
    }
    match (iterations, seconds > 0.0) {
        (0, false) => None,
        (0, true) => Some(RoundSize::Seconds(seconds)),
        (n, _) => Some(RoundSize::Iterations(n)),
    }
}

/// The program with another size, and with the same users and rates. A program with a size of the
/// other kind, or without one, is unchanged.
#[must_use]
pub fn resized(program: &Program, target: RoundSize) -> Program {
    let factor = match (size(program), target) {
        (Some(RoundSize::Iterations(now)), RoundSize::Iterations(n)) => {
            n as f64 / now.max(1) as f64
        }
        (Some(RoundSize::Seconds(now)), RoundSize::Seconds(seconds)) => seconds / now,
        _ => return program.clone(),
    };
    let mut resized = program.clone();
    for group in resized.groups.iter_mut().filter(|group| group.phase == Phase::Main) {
        scale(&mut group.executor, factor);
    }
    resized
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
        Executor::RampingVus { stages, .. } | Executor::ArrivalRate(ArrivalRate { stages, .. }) => {
            stages.iter_mut().for_each(|stage| stage.duration = time(stage.duration));
        }
        Executor::Planned(planned) => {
            for span in &mut planned.spans {
                (span.start, span.end) = (time(span.start), time(span.end));
            }
        }
        Executor::Arrivals(times) => {
            times.stages.iter_mut().for_each(|stage| stage.duration = time(stage.duration));
        }
        Executor::FindMax(_) | Executor::UsersAtStart(_) => {}
    }
}

/// Offered requests per second of a program and its pacing quantum, if the program has one constant
/// rate of iterations with a fixed number of requests.
#[must_use]
pub fn rate(program: &Program) -> Option<(f64, Duration)> {
    let mut sum = (0.0, Duration::ZERO);
    for group in main(program) {
        let Executor::ArrivalRate(ArrivalRate { start, stages, quantum, .. }) = &group.executor
        else {
            return None;
        };
        if stages.iter().any(|stage| stage.target != *start) {
            return None;
        }
        sum = (sum.0 + start * requests(&group.steps)?, sum.1.max(*quantum));
    }
    (sum.0 > 0.0).then_some(sum)
}

/// Offered requests per second of users that start one after the other, if each has a fixed number
/// of iterations and requests. This rate does not depend on the server.
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

/// Allowed send lag of `find-max`: a tenth of the shortest response time in the objective, which
/// includes the lag.
#[must_use]
pub(super) fn allowed_lag(program: &Program) -> Option<Duration> {
    let limits = main(program).filter_map(|group| match &group.executor {
        Executor::FindMax(search) if search.of == Searched::Rate => {
            search.limits.iter().map(|(_, limit)| *limit / 10).min()
        }
        _ => None,
    });
    limits.min()
}

/// Requests of an iteration of every group; `None` if their number varies or differs.
#[must_use]
pub fn requests_of_iteration(program: &Program) -> Option<f64> {
    let mut groups = main(program).map(|group| requests(&group.steps));
    let first = groups.next()??;
    groups.all(|other| other == Some(first)).then_some(first)
}

/// Whether the load is constant once its users have started: users that repeat their iterations for
/// a time, or an open model with one rate.
pub(super) fn is_constant(program: &Program) -> bool {
    let is_constant = |group: &Group| match &group.executor {
        Executor::Users(users) => users.duration.is_some(),
        Executor::ArrivalRate(rate) => rate.stages.iter().all(|stage| stage.target == rate.start),
        Executor::SharedIterations { .. } => true,
        Executor::RampingVus { .. }
        | Executor::UsersAtStart(_)
        | Executor::Planned(_)
        | Executor::Arrivals(_)
        | Executor::FindMax(_) => false,
    };
    !program.consecutive && main(program).all(is_constant)
}

/// Requests of an iteration; `None` if their number varies.
pub(super) fn requests(steps: &[Step]) -> Option<f64> {
    let mut count = 0.0;
    for step in steps {
        count += match step {
            Step::Request(request) => match &request.stream {
                Some(stream) => 1.0 + stream.message_count()?,
                None => 1.0,
            },
            Step::Local(_) => 1.0,
            Step::Loop { .. } | Step::Once(_) | Step::Control(_) | Step::Flow(_) => return None,
            Step::OnFailure(_) => return None,
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
            new_user: false,
            grace: None,
            index: None,
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
        assert_eq!(size(&ab), Some(RoundSize::Iterations(30_000)));
        let longer = resized(&ab, RoundSize::Iterations(90_000));
        assert_eq!(longer.groups[0].executor, shared(60_000));
        assert_eq!(longer.groups[1].executor, shared(30_000));

        let constant = program(vec![users(None, Some(10))]);
        assert_eq!(size(&constant), Some(RoundSize::Seconds(10.0)));
        let shorter = resized(&constant, RoundSize::Seconds(3.0));
        assert_eq!(size(&shorter), Some(RoundSize::Seconds(3.0)));
        assert_eq!(size(&program(vec![users(Some(7), None)])), Some(RoundSize::Iterations(70)));
        assert_eq!(size(&program(vec![users(None, None)])), None);
        let mut both = program(vec![users(None, Some(10)), users(None, Some(30))]);
        assert_eq!(size(&both), Some(RoundSize::Seconds(30.0)), "at the same time");
        both.consecutive = true;
        assert_eq!(size(&both), Some(RoundSize::Seconds(40.0)));
        assert_eq!(size(&resized(&both, RoundSize::Seconds(4.0))), Some(RoundSize::Seconds(4.0)));
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
            let mut open = program(vec![Executor::ArrivalRate(ArrivalRate {
                start: 50.0,
                stages,
                quantum,
                max_in_flight,
                backlog,
            })]);
            let label = open.label("both");
            let steps = Vec::new();
            open.groups[0].steps = vec![Step::Transaction {
                scripts: None,
                label,
                name: None,
                with_pauses: false,
                parent_only: false,
                checks: std::sync::Arc::default(),
                steps,
            }];
            open
        };
        assert_eq!(rate(&open(50.0)), None, "no request, no rate");
        assert_eq!(rate(&open(90.0)), None);
        assert_eq!(size(&open(50.0)), Some(RoundSize::Seconds(4.0)));
        assert_eq!(rate(&program(vec![shared(1)])), None);
    }
}
