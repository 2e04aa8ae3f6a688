//! The backend of the server under test: one at a time.

use super::affinity::Pinned;
use super::data_folder::DataFolder;
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
    running: Option<(Backend, Running)>,
    /// Number of started backends.
    started: usize,
    /// The common port of all backends of a run with a free port: servers know this port.
    port: Option<u16>,
    /// Further ports by their names, which are common as well.
    ports: Vec<(String, u16)>,
}

/// A running backend. Its data folder, if it has one, is deleted after its process has ended.
#[derive(Debug)]
struct Running {
    process: Process,
    address: Address,
    _data: Option<DataFolder>,
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
        self.running.as_ref().map(|(_, running)| running.process.pid())
    }

    /// Ports that the running backend listens on, as far as they are known.
    pub(super) fn listening_ports(&self) -> Vec<u16> {
        let Some((_, running)) = &self.running else { return Vec::new() };
        let Address { authority, ports, .. } = &running.address;
        let port = |authority: &str| authority.rsplit_once(':')?.1.parse::<u16>().ok();
        let named = ports.iter().map(|(_, port)| *port);
        authority.as_deref().and_then(port).into_iter().chain(named).collect()
    }

    /// Starts the requested backend unless it is running, and stops any other. Returns its address,
    /// if known.
    pub(super) fn ensure(
        &mut self,
        requested: Option<&Backend>,
        control: &Control,
    ) -> Result<Option<Address>, String> {
        if let Some((backend, running)) = &self.running
            && Some(backend) == requested
        {
            return Ok(Some(running.address.clone()));
        }
        // The running backend may use the same port.
        self.running = None;
        let Some(requested) = requested else { return Ok(None) };
        let running = self
            .start(requested, control)
            .map_err(|why| format!("the backend did not start: {why}"))?;
        let address = running.address.clone();
        self.running = Some((requested.clone(), running));
        Ok(Some(address))
    }

    fn start(&mut self, requested: &Backend, control: &Control) -> Result<Running, String> {
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
                let authority = Some(local(port).to_string());
                let address = Address { authority, ..Address::default() };
                Ok(Running { process, address, _data: None })
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
    ) -> Result<Running, String> {
        let needs_port = !requested.files.is_empty()
            || command.iter().chain(ready).any(|text| text.contains(PORT));
        let port = if needs_port { Some(self.own_port()?) } else { None };
        self.started += 1;
        let data = DataFolder::create(&self.folder.join(format!("backend-data-{}", self.started)))?;
        let folder = absolute(&requested.folder);
        let ports = self.named_ports(&requested.ports)?;
        let names = Placeholders {
            port,
            ports: &ports,
            data: Some(data.path()),
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
        let address = Address { authority, data: Some(data.path().to_owned()), ports };
        Ok(Running { process, address, _data: Some(data) })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_deleted_with_its_backend_and_after_a_failed_start() {
        let folder = tempfile::tempdir().unwrap();
        let mut backends = Backends::new(Path::new("weir"), folder.path(), Path::new("shared"));
        let control = Control::default();
        let backend = |script: &str| Backend {
            start: BackendStart::Command {
                command: ["sh", "-c", script].map(str::to_owned).to_vec(),
                ready: None,
            },
            folder: folder.path().to_owned(),
            files: Vec::new(),
            ports: Vec::new(),
            cores: Vec::new(),
        };
        let address = backends.ensure(Some(&backend("sleep 60")), &control).unwrap().unwrap();
        let data = address.data.unwrap();
        assert!(data.is_dir());
        backends.ensure(None, &control).unwrap();
        assert!(!data.exists());
        let missing = BackendStart::Command { command: vec!["/no/such".to_owned()], ready: None };
        let missing = Backend { start: missing, ..backend("") };
        backends.ensure(Some(&missing), &control).unwrap_err();
        assert!(!folder.path().join("backend-data-2").exists());
    }
}
