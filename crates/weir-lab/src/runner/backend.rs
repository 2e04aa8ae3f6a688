//! The backend of the server under test: one at a time.

use super::affinity::Pinned;
use super::placeholders::{Address, PORT, Placeholders, absolute, free_port, local};
use super::process::Process;
use crate::engine::Control;
use crate::observe::is_ready;
use crate::program::Origin;
use crate::scenario::{Backend, BackendStart, Echo};
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
    /// Of all servers.
    shared: PathBuf,
    running: Option<(Backend, Process, Address)>,
    /// Number of started backends.
    started: usize,
    /// The common port of all backends of a run with a free port: servers know this port.
    port: Option<u16>,
    /// Further ports by their names, which are common as well.
    ports: Vec<(String, u16)>,
}

impl Backends {
    pub(super) fn new(weir: &Path, folder: &Path, shared: &Path) -> Self {
        Self {
            weir: weir.to_owned(),
            folder: folder.to_owned(),
            shared: shared.to_owned(),
            running: None,
            started: 0,
            port: None,
            ports: Vec::new(),
        }
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
    ) -> Result<Option<Address>, String> {
        if let Some((running, _, address)) = &self.running
            && Some(running) == requested
        {
            return Ok(Some(address.clone()));
        }
        // The running backend may use the same port.
        self.running = None;
        let Some(requested) = requested else { return Ok(None) };
        let (process, address) = self
            .start(requested, control)
            .map_err(|why| format!("the backend did not start: {why}"))?;
        self.running = Some((requested.clone(), process, address.clone()));
        Ok(Some(address))
    }

    fn start(
        &mut self,
        requested: &Backend,
        control: &Control,
    ) -> Result<(Process, Address), String> {
        let _pinned = Pinned::to(&requested.cores)?;
        let log = self.folder.join("backend.log");
        match &requested.start {
            BackendStart::Echo(Echo { port, delay }) => {
                let port = if *port == 0 { self.own_port()? } else { *port };
                let mut command = Command::new(&self.weir);
                command.args(["echo", "--json", "--listen", &local(port).to_string()]);
                command.args(["--delay", &format!("{}ms", delay.as_millis())]);
                let mut process = Process::start(&mut command, &log, true)?;
                process.event("ready", READY_TIMEOUT, control)?;
                Ok((
                    process,
                    Address { authority: Some(local(port).to_string()), ..Address::default() },
                ))
            }
            BackendStart::Command { command, ready } => {
                self.command(requested, command, ready.as_ref(), &log, control)
            }
        }
    }

    fn command(
        &mut self,
        requested: &Backend,
        command: &[String],
        ready: Option<&String>,
        log: &Path,
        control: &Control,
    ) -> Result<(Process, Address), String> {
        let needs_port = !requested.files.is_empty()
            || command.iter().chain(ready).any(|text| text.contains(PORT));
        let port = if needs_port { Some(self.own_port()?) } else { None };
        self.started += 1;
        let data = self.folder.join(format!("backend-data-{}", self.started));
        std::fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
        let data = std::path::absolute(&data).unwrap_or(data);
        let folder = absolute(&requested.folder);
        let ports = self.named_ports(&requested.ports)?;
        let names = Placeholders {
            port,
            ports: &ports,
            data: Some(&data),
            folder: Some(&folder),
            shared: Some(&self.shared),
            ..Placeholders::default()
        };
        names.write(&requested.files)?;
        let (program, arguments) =
            command.split_first().ok_or_else(|| "its command is empty".to_owned())?;
        let mut command = Command::new(names.fill(program));
        command.args(arguments.iter().map(|argument| names.fill(argument)));
        let mut process = Process::start(&mut command, log, false)?;
        let ready_at = ready.and_then(|url| Origin::parse(&names.fill(url)).ok());
        let origin = port.map(|port| Origin::parse(&format!("http://{}", local(port))));
        let open_port = origin.and_then(Result::ok).map(|(origin, _)| origin);
        process.until(READY_TIMEOUT, control, |_| {
            let is_up = match (&ready_at, &open_port) {
                (Some((origin, target)), _) => is_ready(origin, Some(target.as_str())),
                (None, Some(origin)) => is_ready(origin, None),
                (None, None) => true,
            };
            is_up.then_some(())
        })?;
        let ready_at = ready_at.map(|(origin, _)| origin.authority());
        let authority = ready_at.or_else(|| port.map(|port| local(port).to_string()));
        Ok((process, Address { authority, data: Some(data), ports }))
    }

    fn own_port(&mut self) -> Result<u16, String> {
        let port = self.port.map_or_else(free_port, Ok)?;
        Ok(*self.port.insert(port))
    }

    fn named_ports(&mut self, names: &[String]) -> Result<Vec<(String, u16)>, String> {
        for name in names {
            if !self.ports.iter().any(|(known, _)| known == name) {
                self.ports.push((name.clone(), free_port()?));
            }
        }
        Ok(self.ports.iter().filter(|(name, _)| names.contains(name)).cloned().collect())
    }

    /// Stops the backend.
    pub(super) fn stop(&mut self) {
        self.running = None;
    }
}
