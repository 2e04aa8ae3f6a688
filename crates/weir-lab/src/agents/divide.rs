//! An agent's share of a program. Users and arrivals are divided by the numbers of the loops; this divides
//! what the users of one process share: rows, counters, shared iterations and rates.

use super::message::Share;
use crate::program::{
    Body, Counter, Executor, Feeder, PartContent, Program, Share as Scope, Step, Text, ThroughputOf,
};
use std::sync::Arc;

/// The program of an agent.
///
/// # Errors
/// A part of the program needs all users in one process.
pub(super) fn divide(mut program: Program, share: Share) -> Result<Program, String> {
    check(&program)?;
    for group in &mut program.groups {
        if let Executor::SharedIterations { vus, iterations, .. } = &mut group.executor {
            *iterations = shared_iterations(*iterations, *vus, share);
        }
        slow(&mut group.steps, f64::from(share.loops) / f64::from(share.all.max(1)))?;
    }
    for feeder in &mut program.feeders {
        if !feeder.random && feeder.share != Scope::User {
            *feeder = Arc::new(rows(feeder, share));
        }
    }
    for counter in &mut program.counters {
        if counter.share != Scope::User {
            stride(counter, share)?;
        }
    }
    Ok(program)
}

/// Fails if the program cannot be divided.
pub(super) fn check(program: &Program) -> Result<(), String> {
    let is_search = |executor: &Executor| matches!(executor, Executor::FindMax(_));
    if program.groups.iter().any(|group| is_search(&group.executor)) {
        return Err(
            "`find-max` and `steps` need a single generator: the search evaluates every step"
                .to_owned(),
        );
    }
    if program.scripts.is_some() {
        return Err("scripts need a single generator: agents start no helper JVM".to_owned());
    }
    if has_changing_files(program) {
        return Err("files whose names change during the run need a single generator: agents have only the \
                    files that are known before"
            .to_owned());
    }
    if !program.timers.is_empty() {
        return Err("timers that wait for other users need a single generator".to_owned());
    }
    if program.gates.iter().any(|gate| !gate.per_user) {
        return Err(
            "controllers that count the iterations of all users need a single generator".to_owned()
        );
    }
    Ok(())
}

/// Whether users read files whose names are known only while the program runs.
fn has_changing_files(program: &Program) -> bool {
    let is_changing = |step: &&Step| match step {
        Step::Request(request) => match &request.body {
            Body::File(_) => true,
            Body::Multipart(body) => {
                body.parts.iter().any(|part| matches!(part.content, PartContent::Named(_)))
            }
            _ => false,
        },
        _ => false,
    };
    program.feeders.iter().any(|feeder| feeder.file.is_some())
        || program.steps().iter().any(is_changing)
}

/// Iterations of this agent's users: those of all agents add up to the whole number.
fn shared_iterations(iterations: u64, vus: u32, share: Share) -> u64 {
    // Users with numbers n for which n modulo `all` is below `loops`.
    let users_below = |loops: u32| {
        let all = share.all.max(1);
        u64::from(vus / all * loops + (vus % all).min(loops))
    };
    let below = |loops: u32| {
        let part = u128::from(iterations) * u128::from(users_below(loops));
        u64::try_from(part / u128::from(vus.max(1))).unwrap_or(u64::MAX)
    };
    below(share.first + share.loops) - below(share.first)
}

/// The agent's rows: each row belongs to exactly one agent. If there are too few rows and they may be repeated, every
/// agent has all of them.
fn rows(feeder: &Feeder, share: Share) -> Feeder {
    let own = |at: usize| at % share.agents.max(1) as usize == share.agent as usize;
    let rows = feeder.rows.iter().enumerate().filter(|(at, _)| own(*at));
    let rows: Vec<_> = rows.map(|(_, row)| row.clone()).collect();
    let rows = if rows.is_empty() && feeder.recycle { feeder.rows.clone() } else { rows };
    Feeder { rows, ..feeder.clone() }
}

/// Each agent counts in steps of all agents.
fn stride(counter: &mut Counter, share: Share) -> Result<(), String> {
    let number = |text: &Text| text.as_fixed().and_then(|text| text.trim().parse::<i64>().ok());
    let (Some(start), Some(step)) = (number(&counter.start), number(&counter.increment)) else {
        return Err("a counter of all users needs constant numbers with several agents".to_owned());
    };
    let fixed = |number: i64| Text::fixed(number.to_string());
    counter.start = fixed(start.saturating_add(step.saturating_mul(share.agent.into())));
    counter.increment = fixed(step.saturating_mul(share.agents.into()));
    Ok(())
}

/// Rates of all users become the agent's share of them.
fn slow(steps: &mut [Step], part: f64) -> Result<(), String> {
    for step in steps {
        if let Step::Throughput { per_minute, of } = step
            && *of != ThroughputOf::User
        {
            let rate = per_minute.as_fixed().and_then(|text| text.trim().parse::<f64>().ok());
            let Some(rate) = rate else {
                return Err(
                    "a rate of all users needs a constant number with several agents".to_owned()
                );
            };
            *per_minute = Text::fixed((rate * part).to_string());
        }
        step.branches_mut().iter_mut().try_for_each(|steps| slow(steps, part))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{
        Cookies, FileName, Group, Label, NumberFormat, OnError, Origin, Phase, Request, Variable,
    };
    use std::time::Duration;

    /// Shares of agents with these numbers of loops.
    fn shares(loops: &[u32]) -> Vec<Share> {
        let (all, agents) = (loops.iter().sum(), loops.len() as u32);
        let first = |agent: usize| loops[..agent].iter().sum();
        let share = |agent: usize| Share {
            first: first(agent),
            loops: loops[agent],
            all,
            agent: agent as u32,
            agents,
        };
        (0..loops.len()).map(share).collect()
    }

    #[test]
    fn shared_iterations_add_up_and_need_users() {
        for loops in [&[1, 1][..], &[3, 1, 4], &[2, 2, 2, 1]] {
            for (iterations, vus) in [(1_000, 7), (5, 3), (1, 1), (0, 4), (u64::MAX, 9)] {
                let parts = shares(loops);
                let parts = parts.iter().map(|share| {
                    let users = (0..vus).filter(|user| {
                        (share.first..share.first + share.loops).contains(&(user % share.all))
                    });
                    (shared_iterations(iterations, vus, *share), users.count())
                });
                let parts: Vec<(u64, usize)> = parts.collect();
                let sum: u128 = parts.iter().map(|(part, _)| u128::from(*part)).sum();
                assert_eq!(sum, u128::from(iterations), "{parts:?}");
                assert!(parts.iter().all(|(part, users)| *users > 0 || *part == 0), "{parts:?}");
            }
        }
    }

    #[test]
    fn rows_and_counters_are_disjoint() {
        let row = |number: usize| vec![number.to_string().into()];
        let feeder = Feeder { rows: (0..10).map(row).collect(), ..Feeder::default() };
        let mut all: Vec<_> =
            shares(&[1, 2, 1]).iter().flat_map(|share| rows(&feeder, *share).rows).collect();
        all.sort();
        assert_eq!(all, feeder.rows);
        let few = Feeder { rows: vec![row(0)], recycle: true, ..Feeder::default() };
        assert_eq!(rows(&few, shares(&[1, 1])[1]).rows, few.rows, "rows may be repeated");
        let counter = |share: &Share| {
            let mut counter = Counter {
                variable: Variable(0),
                start: Text::fixed("5"),
                increment: Text::fixed("10"),
                maximum: Text::default(),
                format: NumberFormat::default(),
                share: Scope::All,
                reset_each_iteration: false,
            };
            stride(&mut counter, *share).expect("constant");
            (counter.start.as_fixed().map(str::to_owned), counter.increment)
        };
        let counters: Vec<_> = shares(&[1, 1]).iter().map(counter).collect();
        assert_eq!(counters[1], (Some("15".to_owned()), Text::fixed("20")));
    }

    #[test]
    fn files_with_changing_names_need_a_single_generator() {
        let origin = Origin { tls: false, host: "h".to_owned(), port: 80 };
        let check_body = |body: Body| {
            let mut request = Request::get(Label(0), origin.clone(), Text::fixed("/"));
            request.body = body;
            let group = Group {
                name: String::new(),
                phase: Phase::Main,
                executor: Executor::SharedIterations { vus: 1, iterations: 1, limit: None },
                delay: Duration::ZERO,
                steps: vec![Step::Once(vec![Step::Request(request.into())])],
                on_error: OnError::Continue,
                cookies: Cookies::Ignored,
                new_user: false,
                grace: None,
                index: None,
            };
            check(&Program { groups: vec![group], ..Program::default() })
        };
        assert_eq!(check_body(Body::None), Ok(()));
        let name = FileName { folder: "/tmp".into(), name: Text::fixed("../etc/passwd") };
        let refused = check_body(Body::File(name)).expect_err("it changes");
        assert!(refused.contains("names change"), "{refused}");
    }

    #[test]
    fn rates_are_divided_by_loops() {
        let step = |of| Step::Throughput { per_minute: Text::fixed("600"), of };
        let mut steps = vec![step(ThroughputOf::AllUsersShared), step(ThroughputOf::User)];
        slow(&mut steps, 0.25).expect("constant");
        let rates: Vec<_> = steps
            .iter()
            .map(|step| match step {
                Step::Throughput { per_minute, .. } => per_minute.as_fixed().map(str::to_owned),
                _ => None,
            })
            .collect();
        assert_eq!(rates, [Some("150".to_owned()), Some("600".to_owned())]);
    }
}
