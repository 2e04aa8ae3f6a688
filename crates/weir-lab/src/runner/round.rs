//! One round: load and observation.

use super::idle::gauges;
use super::server::{RunningServer, in_data_folder};
use super::{RunError, Runner, Step};
use crate::engine::{self, Control, Event, Summary};
use crate::measure::{NextRound, RoundConditions, SERVER, resized};
use crate::observe::{GcLog, Observer, Watch};
use crate::record::Clock;
use crate::results::EventKind;
use crate::scenario::Process;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Gauge of every weir, besides those of the scenario.
const DEFAULT_GAUGE: &str = "weir_index_lag_records";
/// Number of completed requests of weir.
const REQUEST_COUNT_METRIC: &str = "http_server_request_duration_seconds_count";
/// Time for weir to update this number.
const COUNT_TIMEOUT: Duration = Duration::from_secs(2);

impl Runner<'_> {
    /// Runs a round of a case on its server.
    pub(super) fn round(
        &mut self,
        next: NextRound,
        live: &RunningServer,
        undrained: bool,
    ) -> Result<(), RunError> {
        let cell = &self.scenario.cells[next.cell];
        let mut program = resized(&cell.program, next.round.size);
        program.retarget(&self.base, &live.origin);
        (self.watch)(&Step::Round(&format!("{} round {}", cell.name(), next.round.number)));
        let before = self.request_count(live);
        let observer = self.observer(live);
        let clock = Clock::start();
        let start = clock.steady.duration_since(self.start).as_secs_f64();
        self.measurement.start_round(next, start)?;
        let every = self.scenario.observe.every;
        let watch = Watch::start(observer, every, clock.steady).map_err(RunError::Watch)?;
        let options = engine::Options {
            loops: self.options.loops,
            io: self.options.io,
            seed: self.options.seed.wrapping_add(next.round.number as u64),
            clock,
            ..engine::Options::default()
        };
        // A request may end its round; only a signal ends all rounds.
        let control = Control::default();
        let mut written = Ok(());
        let ended = {
            let (measurement, run_control, notify) =
                (&mut self.measurement, self.control, &mut self.watch);
            engine::run(program, &options, &control, &mut |event| {
                control.follow(run_control);
                let result = match event {
                    Event::Second(second) => {
                        measurement.second(second).and_then(|()| measurement.observe(watch.rows()))
                    }
                    Event::RateStep(step) => {
                        measurement.rate_step(step, start + clock.steady.elapsed().as_secs_f64())
                    }
                    Event::Groups(_) => Ok(()),
                };
                if written.is_ok() {
                    written = result;
                }
                notify(&Step::Load(event));
            })
        };
        written?;
        self.measurement.observe(watch.end())?;
        match ended {
            Ok(summary) => {
                let count_mismatch =
                    before.and_then(|before| self.count_mismatch(live, before, &summary));
                self.measurement.end_round(RoundConditions { undrained, count_mismatch })?;
                if summary.stopped && !self.control.is_stopped() {
                    self.end_reason = "a request failed, and `on_error: stop` ends the run";
                    self.control.stop();
                }
            }
            Err(error) => {
                let why = error.to_string();
                self.event(next.cell, EventKind::Error, why.clone())?;
                self.measurement.fail_case(next.cell, &why);
            }
        }
        Ok(())
    }

    /// The observed subjects of a round.
    fn observer(&self, live: &RunningServer) -> Observer {
        let observe = &self.scenario.observe;
        let mut observer = Observer::new();
        if !live.pids.is_empty() {
            observer.add_processes(SERVER, &live.pids);
        }
        if let Some(pid) = self.backends.pid() {
            observer.add_processes("backend", &[pid]);
        }
        for process in &observe.processes {
            // Server and backend are always observed.
            if let Process::Pid(pid) = process {
                let id = i32::try_from(*pid).unwrap_or(0);
                observer.add_processes(&format!("process {pid}"), &[id]);
            }
        }
        let mut names = observe.gauges.clone();
        if live.admin.is_some() && !names.iter().any(|name| name == DEFAULT_GAUGE) {
            names.push(DEFAULT_GAUGE.to_owned());
        }
        observer.gauges = gauges(live, observe.metrics.as_deref(), names);
        // A JVM without a log has no figure.
        let log = |log: &PathBuf| GcLog::from_end(&in_data_folder(log, live.data.as_deref())).ok();
        observer.pauses = observe.gc_log.as_ref().and_then(log);
        observer
    }

    /// Requests counted by the server, if the Lab started it as weir.
    fn request_count(&self, live: &RunningServer) -> Option<u64> {
        let gauges =
            live.is_own.then(|| gauges(live, None, vec![REQUEST_COUNT_METRIC.to_owned()]))??;
        let found = gauges.scrape()?;
        // The row is missing before the first request.
        Some(found.first().map_or(0, |(_, count)| *count as u64))
    }

    /// Sent requests and requests counted by the server, if they differ. After failures nothing is
    /// compared: failed requests may not have reached the server.
    fn count_mismatch(
        &self,
        live: &RunningServer,
        before: u64,
        summary: &Summary,
    ) -> Option<(u64, u64)> {
        let all = summary.total.all(&summary.transactions);
        if all.failed() > 0 || summary.interrupted > 0 {
            return None;
        }
        let sent = all.samples();
        let start = Instant::now();
        loop {
            let counted = self.request_count(live)?.saturating_sub(before);
            if counted == sent {
                return None;
            }
            if start.elapsed() >= COUNT_TIMEOUT {
                return Some((sent, counted));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
