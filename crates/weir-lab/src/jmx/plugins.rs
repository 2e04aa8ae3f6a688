//! Thread groups of plugins, and the open model.

use super::schedule;
use super::translate::Translation;
use super::tree::{Element, Property};
use crate::program::{
    ArrivalRate, ArrivalTimes, Executor, MAX_STAGE_SECONDS, Planned, Span, Stage, valid_rate,
};
use std::time::Duration;

/// Most users of a group whose users start on their own.
const MAX_USERS: u32 = 100_000;
/// Most iterations at the same time of an open model without a limit.
const MAX_IN_FLIGHT: u32 = 10_000;
/// Resolution of the schedules of open models.
const QUANTUM: Duration = Duration::from_millis(1);

impl Translation<'_> {
    /// The schedule of a thread group that is not JMeter's classic one.
    pub(super) fn special_group(&mut self, element: &Element) -> Option<Executor> {
        match element.class.as_str() {
            "UltimateThreadGroup" => self.ultimate(element),
            "SteppingThreadGroup" => self.stepping(element),
            "ConcurrencyThreadGroup" => self.concurrency(element),
            "ArrivalsThreadGroup" => self.arrivals(element),
            "FreeFormArrivalsThreadGroup" => self.free_form(element),
            "OpenModelThreadGroup" => {
                let text = self.fixed(element, "OpenModelThreadGroup.schedule");
                let stages = schedule::parse(&text);
                let stages =
                    stages.map_err(|problem| format!("the schedule is invalid: {problem}"));
                let stages = self.valid(element, stages)?;
                Some(Executor::Arrivals(ArrivalTimes {
                    stages,
                    quantum: QUANTUM,
                    max_in_flight: MAX_IN_FLIGHT,
                }))
            }
            _ => {
                self.unsupported(element, "the Lab does not support this kind of thread group");
                None
            }
        }
    }

    /// Rows of numbers.
    pub(super) fn table(&mut self, element: &Element, name: &str) -> Vec<Vec<f64>> {
        let rows: Vec<Vec<String>> = element
            .properties
            .lists(name)
            .map(|row| row.iter().filter_map(Property::text).map(str::to_owned).collect())
            .collect();
        let rows = rows.into_iter().map(|row| {
            let cell = |raw: String| {
                let text = self.fixed_text(element, &raw, name);
                let number = match text.trim() {
                    "" => Some(0.0),
                    text => text.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0),
                };
                let number = number.ok_or_else(|| format!("`{name}` has `{text}` as a number"));
                self.valid(element, number).unwrap_or(0.0)
            };
            row.into_iter().map(cell).collect()
        });
        rows.collect()
    }

    /// Rows of users, delay, ramp-up, hold, ramp-down. The last user of a row starts first.
    fn ultimate(&mut self, element: &Element) -> Option<Executor> {
        let mut spans = Vec::new();
        for row in self.table(element, "ultimatethreadgroupdata") {
            let [users, delay, up, hold, down, ..] = row[..] else {
                self.invalid(element, "a row of `ultimatethreadgroupdata` is incomplete");
                return None;
            };
            self.bounded(element, users + spans.len() as f64)?;
            for left in (1..=users as u32).rev() {
                let share = f64::from(left) / users;
                let start = delay + (up * 1e3 * share).floor() / 1e3;
                let end = delay + up + hold + (down * 1e3 * share).floor() / 1e3;
                spans.push(Span { start: seconds(start), end: seconds(end) });
            }
        }
        Some(Executor::Planned(Planned { spans, iterations: self.iterations(element) }))
    }

    fn bounded(&mut self, element: &Element, users: f64) -> Option<u32> {
        let is_valid = (0.0..=f64::from(MAX_USERS)).contains(&users);
        let message = format!("the Lab supports up to {MAX_USERS} threads, not {users}");
        self.valid(element, if is_valid { Ok(users as u32) } else { Err(message) })
    }

    fn stepping(&mut self, element: &Element) -> Option<Executor> {
        // Up to 30 years, so that no sum of times overflows.
        let mut number = |name| self.number(element, name, 0).clamp(0, 1_000_000_000);
        let users = number("ThreadGroup.num_threads");
        let delay = number("Threads initial delay");
        let or_all = |count: i64| if count == 0 { users.max(1) } else { count };
        let (step, burst) =
            (or_all(number("Start users count")), number("Start users count burst"));
        let (period, ramp) = (number("Start users period"), number("rampUp"));
        let (hold, out) = (number("flighttime"), or_all(number("Stop users count")));
        let out_period = number("Stop users period");
        let burst = if burst.min(users) <= 0 { step } else { burst.min(users) };
        self.bounded(element, users as f64)?;
        // Milliseconds, with the plugin's integer divisions.
        let turn = 1000 * (period + ramp);
        let turns = match users < burst {
            true => 1,
            false => (users - burst + step - 1) / step,
        };
        let last = match (users - burst) % step {
            0 => step,
            rest => rest,
        };
        let top = 1000 * delay + turns * turn + (1000 * ramp / step) * last + 1000 * hold;
        let span = |user: i64| {
            let (bucket, position, size) = match user < burst {
                true => (0, user, burst),
                false => (1 + (user - burst) / step, (user - burst) % step, step),
            };
            let start = 1000 * delay + bucket * turn + position * (1000 * ramp / size);
            Span { start: millis(start), end: millis(top + 1000 * out_period * (user / out)) }
        };
        let spans = (0..users).map(span).collect();
        Some(Executor::Planned(Planned { spans, iterations: self.iterations(element) }))
    }

    /// Target, ramp-up and hold in seconds, and the number of steps of the ramp-up.
    fn target(&mut self, element: &Element) -> Option<(f64, Duration, Duration, u32)> {
        let factor = if element.text("Unit") == "M" { 60.0 } else { 1.0 };
        let mut number = |name: &str, default: f64| {
            let text = self.fixed(element, name);
            match text.trim() {
                "" => Some(default),
                text => {
                    let number = text.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
                    let number = number.ok_or_else(|| format!("`{name}` is no number: `{text}`"));
                    self.valid(element, number)
                }
            }
        };
        let target = number("TargetLevel", 1.0)?;
        let up = number("RampUp", 0.0)? * factor;
        let hold = number("Hold", 1.0)? * factor;
        let steps = number("Steps", 0.0)?;
        Some((target, seconds(up.round()), seconds(hold.round()), steps.min(10_000.0) as u32))
    }

    fn concurrency(&mut self, element: &Element) -> Option<Executor> {
        let (target, up, hold, steps) = self.target(element)?;
        self.bounded(element, target)?;
        let limit = self.number(element, "Iterations", 0);
        let iterations = u64::try_from(limit).ok().filter(|limit| *limit > 0);
        Some(Executor::RampingVus { start: 0, stages: stages(target, up, hold, steps), iterations })
    }

    fn arrivals(&mut self, element: &Element) -> Option<Executor> {
        let (target, up, hold, steps) = self.target(element)?;
        let factor = if element.text("Unit") == "M" { 60.0 } else { 1.0 };
        let stages = stages(target / factor, up, hold, steps);
        self.arrival_rate(element, 0.0, stages)
    }

    fn free_form(&mut self, element: &Element) -> Option<Executor> {
        let factor = if element.text("Unit") == "M" { 60.0 } else { 1.0 };
        let mut all = Vec::new();
        for row in self.table(element, "Schedule") {
            let [from, to, length, ..] = row[..] else {
                self.invalid(element, "a row of `Schedule` is incomplete");
                return None;
            };
            all.push(Stage { duration: Duration::ZERO, target: from / factor });
            all.push(Stage { duration: seconds(length * factor), target: to / factor });
        }
        self.arrival_rate(element, 0.0, all)
    }

    fn arrival_rate(
        &mut self,
        element: &Element,
        start: f64,
        stages: Vec<Stage>,
    ) -> Option<Executor> {
        if self.number(element, "Iterations", 0) > 0 {
            self.unsupported(element, "the Lab does not support a limit of iterations here");
        }
        for stage in &stages {
            self.valid(element, valid_rate(stage.target))?;
        }
        let limit = self.number(element, "ConcurrencyLimit", 0);
        let limit = u32::try_from(limit).ok().filter(|limit| *limit > 0);
        Some(Executor::ArrivalRate(ArrivalRate {
            start,
            stages,
            quantum: QUANTUM,
            max_in_flight: limit.unwrap_or(MAX_IN_FLIGHT),
            // Arrivals beyond the limit are dropped.
            backlog: 0,
        }))
    }
}

/// A ramp to a target, evenly or in steps, and its hold.
fn stages(target: f64, up: Duration, hold: Duration, steps: u32) -> Vec<Stage> {
    let mut stages = Vec::new();
    if up > Duration::ZERO && steps > 0 {
        for step in 1..=steps {
            let target = target * f64::from(step) / f64::from(steps);
            stages.push(Stage { duration: Duration::ZERO, target });
            stages.push(Stage { duration: up / steps, target });
        }
    } else {
        stages.push(Stage { duration: up, target });
    }
    stages.push(Stage { duration: hold, target });
    stages
}

/// Seconds as a duration, up to the longest one; an invalid number is 0.
fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.min(MAX_STAGE_SECONDS)).unwrap_or_default()
}

fn millis(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}
