//! A load during a round that is not reported.

use super::Runner;
use super::server::RunningServer;
use crate::engine::{self, Control, Summary};
use crate::record::Clock;
use crate::scenario::Cell;
use std::thread::JoinHandle;

/// A running load.
#[derive(Debug)]
pub(super) struct Background {
    control: Control,
    thread: JoinHandle<Result<Summary, String>>,
}

impl Runner<'_> {
    /// Starts the background load of a cell, if it has one. Its threads run on the cores of the calling
    /// thread.
    pub(super) fn background(
        &self,
        cell: &Cell,
        live: &RunningServer,
    ) -> Result<Option<Background>, String> {
        let Some(mut program) = cell.background.clone() else { return Ok(None) };
        live.retarget(&mut program, &self.base);
        let control = Control::default();
        let (stop, loops, io, seed) =
            (control.clone(), self.options.loops, self.options.io, self.options.seed);
        let run = move || {
            let clock = Clock::start();
            let options = engine::Options { loops, io, seed, clock, ..Default::default() };
            engine::run(program, &options, &stop, &mut |_| {}).map_err(|error| error.to_string())
        };
        let thread = std::thread::Builder::new().name("lab-background".to_owned()).spawn(run);
        let thread = thread.map_err(|error| format!("the background load: {error}"))?;
        Ok(Some(Background { control, thread }))
    }
}

impl Background {
    /// Ends the load. Failed requests are an error.
    pub(super) fn end(self) -> Result<(), String> {
        self.control.stop();
        let ended = self.thread.join().map_err(|_| "it panicked".to_owned()).flatten();
        ended
            .and_then(|summary| without_failures(&summary))
            .map_err(|why| format!("the background load: {why}"))
    }
}

/// Failed requests of a load that is not reported, as an error.
pub(super) fn without_failures(summary: &Summary) -> Result<(), String> {
    let Some(group) = summary.total.failures.groups().first() else { return Ok(()) };
    let example = &group.example;
    Err(format!("{}: {} (status {})", example.url, group.message, example.status))
}
