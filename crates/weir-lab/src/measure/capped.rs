//! Limits the rate of a program.

use crate::program::{ArrivalRate, Executor, Program, Searched, Step, Text, ThroughputOf};

/// The program with at most `max_rate` requests per second of all users together: one shared
/// schedule assigns a time to each request. The rate of an open model is reduced instead.
#[must_use]
pub fn with_max_rate(program: &Program, max_rate: f64) -> Program {
    let mut capped = program.clone();
    for group in &mut capped.groups {
        if let Executor::ArrivalRate(ArrivalRate { start, stages, .. }) = &mut group.executor {
            let iterations =
                max_rate / super::round_size::requests(&group.steps).unwrap_or(1.0).max(1.0);
            *start = start.min(iterations);
            stages.iter_mut().for_each(|stage| stage.target = stage.target.min(iterations));
        }
        if let Executor::FindMax(search) = &mut group.executor {
            let open = search.of == Searched::Rate;
            search.start = if open { search.start.min(max_rate) } else { search.start };
        }
        group.steps = slowed(std::mem::take(&mut group.steps), max_rate);
    }
    capped
}

/// Steps with a wait before each request.
fn slowed(steps: Vec<Step>, max_rate: f64) -> Vec<Step> {
    let mut all = Vec::with_capacity(steps.len() * 2);
    for mut step in steps {
        if let Step::Request(request) = &step {
            // A WebSocket takes the time of its messages as well.
            let messages = request.stream.as_ref().and_then(|stream| stream.message_count());
            let rate = max_rate * 60.0 / (1.0 + messages.unwrap_or_default());
            let per_minute = Text::fixed(format!("{rate}"));
            all.push(Step::Throughput { per_minute, of: ThroughputOf::AllUsersShared });
        }
        for inner in step.branches_mut() {
            *inner = slowed(std::mem::take(inner), max_rate);
        }
        all.push(step);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Overrides, load};

    #[test]
    fn every_request_waits_for_its_moment_and_open_models_are_slower() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        let text = "lab: 1\nname: a\ntarget: {base: \"http://127.0.0.1:1\"}\n\
            requests: [{name: a, get: /a}, {name: b, get: /b}]\n\
            load: {executor: constant-arrival-rate, rate: 500/s, duration: 1s}\n";
        std::fs::write(&path, text).unwrap();
        let (scenario, _) = load(&path, &Overrides::default()).unwrap();
        let program = with_max_rate(&scenario.cells[0].program, 100.0);
        let Executor::ArrivalRate(ArrivalRate { start, stages, .. }) = &program.groups[0].executor
        else {
            panic!("{:?}", program.groups[0].executor);
        };
        assert_eq!((*start, stages[0].target), (50.0, 50.0), "two requests an iteration");
        let waits = |step: &&Step| matches!(step, Step::Throughput { per_minute, .. } if per_minute.as_fixed() == Some("6000"));
        assert_eq!(program.groups[0].steps.iter().filter(waits).count(), 2);
        let socket = "[{websocket: /, repeat: 3, messages: [{send: a}, {ping: true}, {send: b}]}]";
        let text = text.replace("[{name: a, get: /a}, {name: b, get: /b}]", socket);
        std::fs::write(&path, text).unwrap();
        let (scenario, _) = load(&path, &Overrides::default()).unwrap();
        let program = with_max_rate(&scenario.cells[0].program, 100.0);
        let [Step::Throughput { per_minute, .. }, Step::Request(_)] = &program.groups[0].steps[..]
        else {
            panic!("{:?}", program.groups[0].steps);
        };
        assert_eq!(per_minute.as_fixed(), Some("600"), "ten samples an iteration");
    }
}
