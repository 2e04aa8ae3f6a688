//! The backend of the server under test: one at a time.

use super::placeholders::{PORT, Placeholders, free_port, local};
use super::process::Process;
use crate::engine::Control;
use crate::observe::is_ready;
use crate::program::Origin;
use crate::scenario::{Backend, Echo};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Time for a backend to become ready.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// The running backend, if any.
#[derive(Debug)]
pub(super) struct Backends {
    weir: PathBuf,
    folder: PathBuf,
    running: Option<(Backend, Process, Option<String>)>,
    /// The common port of all backends of a run with a free port: servers know this port.
    port: Option<u16>,
}

impl Backends {
    pub(super) fn new(weir: &Path, folder: &Path) -> Self {
        Self { weir: weir.to_owned(), folder: folder.to_owned(), running: None, port: None }
    }

    /// Whether a backend other than the running one is required.
    pub(super) fn must_start(&self, requested: Option<&Backend>) -> bool {
        requested.is_some() && self.running.as_ref().map(|(backend, ..)| backend) != requested
    }

    /// Process id of the running backend.
    pub(super) fn pid(&self) -> Option<i32> {
        self.running.as_ref().map(|(_, process, _)| process.pid())
    }

    /// Starts the requested backend unless it is running, and stops any other. Returns its address,
    /// if known.
    pub(super) fn ensure(
        &mut self,
        requested: Option<&Backend>,
        control: &Control,
    ) -> Result<Option<String>, String> {
        if let Some((running, _, address)) = &self.running
            && Some(running) == requested
        {
            return Ok(address.clone());
        }
        // The running backend may use the same port.
        self.running = None;
        let Some(requested) = requested else { return Ok(None) };
        let (process, address) = self
            .start(requested, control)
            .map_err(|why| format!("the backend did not start: {why}"))?;
        self.running = Some((requested.clone(), process, address.clone()));
        Ok(address)
    }

    fn start(
        &mut self,
        requested: &Backend,
        control: &Control,
    ) -> Result<(Process, Option<String>), String> {
        let log = self.folder.join("backend.log");
        match requested {
            Backend::Echo(Echo { port, delay }) => {
                let port = if *port == 0 { self.own_port()? } else { *port };
                let mut command = Command::new(&self.weir);
                command.args(["echo", "--json", "--listen", &local(port).to_string()]);
                command.args(["--delay", &format!("{}ms", delay.as_millis())]);
                let mut process = Process::start(&mut command, &log, true)?;
                process.event("ready", READY_TIMEOUT, control)?;
                Ok((process, Some(local(port).to_string())))
            }
            Backend::Command { command, ready } => {
                let takes = |text: &String| text.contains(PORT);
                let needs_port = command.iter().any(takes) || ready.iter().any(takes);
                let port = if needs_port { Some(self.own_port()?) } else { None };
                let names = Placeholders { port, ..Placeholders::default() };
                let (program, arguments) =
                    command.split_first().ok_or_else(|| "its command is empty".to_owned())?;
                let mut command = Command::new(names.fill(program));
                command.args(arguments.iter().map(|argument| names.fill(argument)));
                let mut process = Process::start(&mut command, &log, false)?;
                let ready_at = ready.as_ref().map(|url| names.fill(url));
                let ready_at = ready_at.and_then(|url| Origin::parse(&url).ok());
                if let Some((origin, target)) = &ready_at {
                    process.until(READY_TIMEOUT, control, |_| {
                        is_ready(origin, Some(target.as_str())).then_some(())
                    })?;
                }
                let address = ready_at.map(|(origin, _)| origin.authority());
                Ok((process, address.or_else(|| port.map(|port| local(port).to_string()))))
            }
        }
    }

    fn own_port(&mut self) -> Result<u16, String> {
        let port = self.port.map_or_else(free_port, Ok)?;
        Ok(*self.port.insert(port))
    }

    /// Stops the backend.
    pub(super) fn stop(&mut self) {
        self.running = None;
    }
}
