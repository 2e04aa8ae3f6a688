//! What precedes the first round of a case: a verified response, and a warm-up.

use super::Step::Activity;
use super::affinity::Pinned;
use super::background::without_failures;
use super::server::RunningServer;
use super::{DRAIN_TIMEOUT, Runner, idle};
use crate::engine;
use crate::measure::resized;
use crate::program::{Executor, Phase, Program, Step, StreamKind};
use crate::protocol::RoundSize;
use crate::record::{Clock, FailureGroup};
use crate::results::Failure;
use crate::scenario::{Cell, set_rate};
use std::sync::Arc;
use std::time::Duration;

impl Runner<'_> {
    /// Sends each request once, and compares the responses with the checks of requests and scenario;
    /// then the probes, with their own checks.
    pub(super) fn verify(&self, cell: &Cell, live: &RunningServer) -> Result<(), String> {
        let mut program = cell.program.clone();
        for group in program.groups.iter_mut().filter(|group| group.phase == Phase::Main) {
            add_checks(&mut group.steps, cell);
            shorten_streams(&mut group.steps);
        }
        self.verify_once(program, cell, live)?;
        cell.probes.clone().map_or(Ok(()), |probes| self.verify_once(probes, cell, live))
    }

    /// Sends each request of a program once.
    fn verify_once(
        &self,
        mut program: Program,
        cell: &Cell,
        live: &RunningServer,
    ) -> Result<(), String> {
        live.retarget(&mut program, &self.base);
        for group in program.groups.iter_mut().filter(|group| group.phase == Phase::Main) {
            group.executor = Executor::SharedIterations { vus: 1, iterations: 1, limit: None };
            group.delay = Duration::ZERO;
            // Think times may be as long as the load.
            group.steps.retain(|step| !matches!(step, Step::Pause(_) | Step::Pacing(_)));
        }
        let summary = self.load(program, cell, 1)?;
        let all = summary.total.all(&summary.transactions);
        match summary.total.failures.groups().first() {
            Some(failed) => Err(format!("its response is not as it should be: {}", reason(failed))),
            None if all.samples() == 0 && !self.control.is_stopped() => {
                Err("it sent no response to a first request".to_owned())
            }
            None => Ok(()),
        }
    }

    /// Loads a server for a time; nothing of it is reported.
    pub(super) fn warm_up(
        &self,
        index: usize,
        time: Duration,
        live: &RunningServer,
    ) -> Result<(), String> {
        if time.is_zero() {
            return Ok(());
        }
        let cell = &self.scenario.cells[index];
        let mut program = resized(&cell.program, RoundSize::Seconds(time.as_secs_f64()));
        if let Some(rate) = self.measured_rate(cell)? {
            set_rate(&mut program, rate, cell.has_default_backlog());
        }
        live.retarget(&mut program, &self.base);
        self.load(program, cell, self.options.loops).map(|_| ())
    }

    /// Runs the `setup` load of a started server, and waits until the server is idle.
    pub(super) fn set_up(&mut self, cell: &Cell, live: &RunningServer) -> Result<(), String> {
        let Some(mut program) = cell.setup.clone() else { return Ok(()) };
        (self.watch)(&Activity("setting up the server"));
        live.retarget(&mut program, &self.base);
        let summary = self.load(program, cell, self.options.loops)?;
        without_failures(&summary).map_err(|why| format!("the setup load: {why}"))?;
        let metrics = self.scenario.observe.metrics.as_deref();
        let wait = idle::Wait::new(&self.scenario.idle, live, metrics);
        match wait.until_idle(DRAIN_TIMEOUT, self.control) {
            None if !self.control.is_stopped() => {
                let seconds = DRAIN_TIMEOUT.as_secs();
                Err(format!("after its setup it was not idle within {seconds} s"))
            }
            _ => Ok(()),
        }
    }

    /// Runs a program that is not measured.
    fn load(&self, program: Program, cell: &Cell, loops: u32) -> Result<engine::Summary, String> {
        let options = engine::Options {
            loops,
            io: self.options.io,
            seed: self.options.seed,
            clock: Clock::start(),
            ..engine::Options::default()
        };
        let _pinned = Pinned::to(&cell.generator_cores)?;
        let ended = engine::run(program, &options, self.control, &mut |_| {});
        ended.map_err(|error| error.to_string())
    }
}

/// Exchanges the messages of WebSockets and calls once, and waits for a single event of endless streams.
fn shorten_streams(steps: &mut [Step]) {
    for step in steps {
        if let Step::Request(request) = step
            && request.stream.is_some()
            && let Some(stream) = &mut Arc::make_mut(request).stream
        {
            match &mut Arc::make_mut(stream).kind {
                StreamKind::WebSocket { repeat, .. } => *repeat = 1,
                StreamKind::Events(end) => {
                    if end.count.is_none() && end.time.is_none() {
                        end.count = Some(1);
                    }
                }
                StreamKind::Grpc(call) => call.repeat = 1,
            }
        }
        step.branches_mut().iter_mut().for_each(|steps| shorten_streams(steps));
    }
}

/// Adds the checks of the scenario to every request.
fn add_checks(steps: &mut [Step], cell: &Cell) {
    for step in steps {
        if let Step::Request(request) = step {
            Arc::make_mut(request).checks.extend(cell.verify.iter().cloned());
        }
        step.branches_mut().iter_mut().for_each(|steps| add_checks(steps, cell));
    }
}

/// Why a response is not as it should be, and the beginning of its body; without secrets, as the reason is part
/// of results and reports.
fn reason(failed: &FailureGroup) -> String {
    let Failure { url, message, status, response, .. } = Failure::new(failed, &[]);
    let body = match response.split_once("\n\n") {
        Some((_, body)) => format!("; the body begins with {:?}", excerpt(body)),
        None => String::new(),
    };
    format!("{url}: {message} (status {status}){body}")
}

/// The beginning of a body.
fn excerpt(body: &str) -> String {
    body.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Label;
    use crate::record::Example;
    use crate::sample::ErrorKind;

    #[test]
    fn a_reason_has_no_secrets_even_where_its_body_is_cut_off() {
        let body = format!("{{{}\"token\": \"t0psecret\"}}", " ".repeat(185));
        let failed = FailureGroup {
            label: Label(0),
            kind: ErrorKind::Check,
            message: "expected /b?token=t0psecret".to_owned(),
            count: 1,
            first: 0,
            last: 0,
            example: Example {
                status: 200,
                url: "http://a/b?x=1&token=t0psecret".to_owned(),
                request: String::new(),
                response: format!("HTTP/1.1 200 OK\n\n{body}"),
            },
        };
        let reason = reason(&failed);
        assert!(reason.starts_with("http://a/b?x=1&token=***: expected /b?token=***"), "{reason}");
        assert!(!reason.contains("t0p") && reason.contains("the body begins with"), "{reason}");
    }
}
