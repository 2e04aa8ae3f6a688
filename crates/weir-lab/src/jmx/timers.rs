//! Timers: waits before samplers.

use super::translate::Translation;
use super::tree::Element;
use crate::program::{Distribution, Pause, SharedTimer, Step, Text, ThroughputOf};

/// Modes of a Constant Throughput Timer in plans of JMeter 2, in its English editor.
const MODES: [&str; 5] = [
    "this thread only",
    "all active threads",
    "all active threads in current thread group",
    "all active threads (shared)",
    "all active threads in current thread group (shared)",
];

impl Translation<'_> {
    pub(super) fn timer(&mut self, element: &Element, steps: &mut Vec<Step>) {
        let distribution = match element.class.as_str() {
            "ConstantTimer" => Distribution::None,
            "UniformRandomTimer" => Distribution::Uniform,
            "GaussianRandomTimer" => Distribution::Normal,
            "PoissonRandomTimer" => Distribution::Poisson,
            "ConstantThroughputTimer" => return self.throughput_timer(element, steps),
            "SyncTimer" | "PreciseThroughputTimer" | "VariableThroughputTimer" => {
                return self.shared_timer(element, steps);
            }
            "JSR223Timer" | "BeanShellTimer" => return self.script_before(element, steps),
            class if class.ends_with("Timer") => {
                return self.unsupported(element, "the Lab does not support this timer");
            }
            _ => return,
        };
        let offset = self.property(element, "ConstantTimer.delay");
        let spread = match distribution {
            Distribution::None => Text::default(),
            _ => self.property(element, "RandomTimer.range"),
        };
        self.run_functions(steps);
        steps.push(Step::Pause(Pause { offset, distribution, spread }));
    }

    fn throughput_timer(&mut self, element: &Element, steps: &mut Vec<Step>) {
        let mode = match MODES.iter().position(|words| *words == element.text("calcMode")) {
            Some(mode) => mode as i64,
            None => self.number(element, "calcMode", 0),
        };
        let of = match mode {
            0 => ThroughputOf::User,
            1 => ThroughputOf::AllUsers,
            2 => ThroughputOf::Group,
            3 => ThroughputOf::AllUsersShared,
            4 => ThroughputOf::GroupShared,
            _ => return self.invalid(element, "`calcMode` is invalid"),
        };
        let per_minute = self.property(element, "throughput");
        self.run_functions(steps);
        steps.push(Step::Throughput { per_minute, of });
    }

    /// A timer that depends on other users. An element is one timer for all its samplers.
    fn shared_timer(&mut self, element: &Element, steps: &mut Vec<Step>) {
        if let Some(timer) = self.timers.get(&element.place()) {
            return steps.push(Step::Shared(*timer));
        }
        let timer = match element.class.as_str() {
            "SyncTimer" => SharedTimer::Rendezvous {
                users: self.property(element, "groupSize"),
                timeout: self.property(element, "timeoutInMs"),
            },
            "PreciseThroughputTimer" => SharedTimer::Precise {
                throughput: self.property(element, "throughput"),
                period: self.property(element, "throughputPeriod"),
                duration: self.property(element, "duration"),
                batch: self.property(element, "batchSize"),
            },
            _ => {
                let rows = self.table(element, "load_profile");
                let row = |row: &Vec<f64>| match row[..] {
                    [from, to, seconds, ..] => Some((from, to, seconds as u32)),
                    _ => None,
                };
                let rows: Option<Vec<(f64, f64, u32)>> = rows.iter().map(row).collect();
                let rows = rows.filter(|rows| !rows.is_empty());
                let rows = rows.ok_or("`load_profile` has no rows of two rates and seconds");
                SharedTimer::Shaped(self.valid(element, rows).unwrap_or_default())
            }
        };
        let timer = self.variables.program.add_timer(timer);
        self.timers.insert(element.place(), timer);
        steps.push(Step::Shared(timer));
    }
}
