//! A load during a round that is not reported.

use super::Runner;
use super::server::RunningServer;
use crate::engine::{self, Control, Summary};
use crate::record::Clock;
use crate::results::Failure;
use crate::scenario::Cell;
use std::thread::JoinHandle;

/// A running load, which is stopped on drop.
#[derive(Debug)]
pub(super) struct Background {
    control: Control,
    /// `None` once it has ended.
    thread: Option<JoinHandle<Result<Summary, String>>>,
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
        Ok(Some(Background { control, thread: Some(thread) }))
    }
}

impl Background {
    /// Ends the load. Failed requests are an error.
    pub(super) fn end(mut self) -> Result<(), String> {
        self.join()
            .map_or(Ok(()), |summary| without_failures(&summary?))
            .map_err(|why| format!("the background load: {why}"))
    }

    /// Stops the load and waits for its end. `None` if it has ended already.
    fn join(&mut self) -> Option<Result<Summary, String>> {
        let thread = self.thread.take()?;
        self.control.stop();
        Some(thread.join().map_err(|_| "it panicked".to_owned()).flatten())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // The round has failed for another reason.
        let _ = self.join();
    }
}

/// Failed requests of a load that is not reported, as an error.
pub(super) fn without_failures(summary: &Summary) -> Result<(), String> {
    let Some(group) = summary.total.failures.groups().first() else { return Ok(()) };
    // The reason is part of results and reports.
    let Failure { url, message, status, .. } = Failure::new(group, &[]);
    Err(format!("{url}: {message} (status {status})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_background_load_ends_when_its_round_fails() {
        let control = Control::default();
        let (stop, (sender, ended)) = (control.clone(), std::sync::mpsc::channel());
        let thread = std::thread::spawn(move || {
            while !stop.is_stopped() {
                std::thread::sleep(Duration::from_millis(1));
            }
            sender.send(()).unwrap();
            Err("stopped".to_owned())
        });
        drop(Background { control, thread: Some(thread) });
        assert_eq!(ended.try_recv(), Ok(()), "it is not left running");
    }
}
