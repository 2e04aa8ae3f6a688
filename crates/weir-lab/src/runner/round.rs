//! One round: the load, and what is watched beside it.

use super::idle::gauges;
use super::server::{Live, in_data};
use super::{RunError, Runner, Step};
use crate::engine::{self, Control, Event, Summary};
use crate::measure::{Circumstances, SERVER, Turn, sized};
use crate::observe::{GcLog, Observer, Watch};
use crate::record::Clock;
use crate::results::EventKind;
use crate::scenario::Process;
use std::time::{Duration, Instant};

/// What is shown of every weir beside what the scenario asks for.
const SHOWN: [&str; 1] = ["weir_index_lag_records"];
/// Requests that weir has answered.
const COUNTED: &str = "http_server_request_duration_seconds_count";
/// How long weir may take to count what it has answered.
const COUNTING: Duration = Duration::from_secs(2);

impl Runner<'_> {
    /// Runs a round of a case on its server.
    pub(super) fn round(
        &mut self,
        turn: Turn,
        live: &Live,
        undrained: bool,
    ) -> Result<(), RunError> {
        let cell = &self.scenario.cells[turn.cell];
        let mut program = sized(&cell.program, turn.order.extent);
        program.retarget(&self.base, &live.origin);
        (self.watch)(&Step::Round(&format!("{} round {}", cell.name(), turn.order.number)));
        let before = self.counted(live);
        let observer = self.observer(live);
        let clock = Clock::start();
        let begun = clock.steady.duration_since(self.start).as_secs_f64();
        self.measurement.begin(turn, begun)?;
        let every = self.scenario.observe.every;
        let watch = Watch::start(observer, every, clock.steady).map_err(RunError::Watch)?;
        let options = engine::Options {
            loops: self.options.loops,
            seed: self.options.seed.wrapping_add(turn.order.number as u64),
            clock,
            ..engine::Options::default()
        };
        // A request may end its round; only a signal ends them all.
        let control = Control::default();
        let mut written = Ok(());
        let ended = {
            let (measurement, outer, tell) = (&mut self.measurement, self.control, &mut self.watch);
            engine::run(program, &options, &control, &mut |event| {
                control.follow(outer);
                let result = match event {
                    Event::Second(second) => {
                        measurement.second(second).and_then(|()| measurement.observe(watch.rows()))
                    }
                    Event::Hold(hold) => {
                        measurement.hold(hold, begun + clock.steady.elapsed().as_secs_f64())
                    }
                    Event::Groups(_) => Ok(()),
                };
                if written.is_ok() {
                    written = result;
                }
                tell(&Step::Load(event));
            })
        };
        written?;
        self.measurement.observe(watch.end())?;
        match ended {
            Ok(summary) => {
                let miscounted = before.and_then(|before| self.miscounted(live, before, &summary));
                self.measurement.end(Circumstances { undrained, miscounted })?;
                if summary.stopped && !self.control.is_stopped() {
                    self.ended = "a request failed, and `on_error: stop` ends the run then";
                    self.control.stop();
                }
            }
            Err(error) => {
                let why = error.to_string();
                self.event(turn.cell, EventKind::Error, why.clone())?;
                self.measurement.give_up(turn.cell, &why);
            }
        }
        Ok(())
    }

    /// What is watched in a round.
    fn observer(&self, live: &Live) -> Observer {
        let observe = &self.scenario.observe;
        let mut observer = Observer::new();
        if !live.pids.is_empty() {
            observer.add_processes(SERVER, &live.pids);
        }
        if let Some(pid) = self.backends.pid() {
            observer.add_processes("backend", &[pid]);
        }
        for process in &observe.processes {
            // Server and backend are watched in any case.
            if let Process::Pid(pid) = process {
                let id = i32::try_from(*pid).unwrap_or(0);
                observer.add_processes(&format!("process {pid}"), &[id]);
            }
        }
        let mut names = observe.gauges.clone();
        if live.admin.is_some() {
            names.extend(
                SHOWN.map(str::to_owned).into_iter().filter(|name| !observe.gauges.contains(name)),
            );
        }
        if let Some(gauges) = gauges(live, observe.metrics.as_deref(), names) {
            observer.set_gauges(gauges);
        }
        if let Some(log) = &observe.gc_log {
            // A JVM that writes none has no figure for it.
            if let Ok(log) = GcLog::follow(&in_data(log, live.data.as_deref())) {
                observer.set_pauses(log);
            }
        }
        observer
    }

    /// Requests that the server has counted, if it is a weir of the Lab's own.
    fn counted(&self, live: &Live) -> Option<u64> {
        let gauges = live.is_own.then(|| gauges(live, None, vec![COUNTED.to_owned()]))??;
        let found = gauges.scrape().ok()?;
        // Before the first request there is no row.
        Some(found.first().map_or(0, |(_, count)| *count as u64))
    }

    /// Requests sent and requests that the server counted meanwhile, if they differ. What failed may
    /// not have reached it: then nothing is compared.
    fn miscounted(&self, live: &Live, before: u64, summary: &Summary) -> Option<(u64, u64)> {
        let all = summary.total.all(&summary.transactions);
        if all.failed() > 0 || summary.interrupted > 0 {
            return None;
        }
        let sent = all.samples();
        let start = Instant::now();
        loop {
            let counted = self.counted(live)?.saturating_sub(before);
            if counted == sent {
                return None;
            }
            if start.elapsed() >= COUNTING {
                return Some((sent, counted));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
