//! Servers under test: one for each case, with its own port and data folder.

use super::placeholders::{DATA, PORT, Placeholders, free_port};
use super::process::Process;
use crate::engine::Control;
use crate::observe::{is_ready, listening_on};
use crate::program::Origin;
use crate::scenario::{Cell, Restart, Server, Start};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use weir_document::document::Document;
use weir_document::draft::Node;

/// Identity of a server: cells with the same key share a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    sets: Vec<(String, String)>,
    env: Vec<(String, String)>,
    args: Vec<String>,
    /// The cell, if each has its own server.
    cell: Option<usize>,
}

/// The key of a cell's server.
pub(super) fn key(server: &Server, index: usize, cell: &Cell) -> Key {
    let all = |one: &[(String, String)], more: &[(String, String)]| [one, more].concat();
    Key {
        sets: all(&server.sets, &cell.sets),
        env: all(&server.env, &cell.env),
        args: cell.args.clone(),
        cell: (server.restart == Restart::Cell).then_some(index),
    }
}

/// A running server.
#[derive(Clone, Debug)]
pub(super) struct RunningServer {
    /// Its origin.
    pub(super) origin: Origin,
    /// weir's admin listener.
    pub(super) admin: Option<SocketAddr>,
    /// Its processes, if on this machine.
    pub(super) pids: Vec<i32>,
    /// Its data folder.
    pub(super) data: Option<PathBuf>,
    /// Only the Lab sends requests to it.
    pub(super) is_own: bool,
}

impl RunningServer {
    /// A server that the Lab did not start.
    pub(super) fn existing_server(origin: Origin) -> Self {
        let pids = if origin.is_loopback() { listening_on(origin.port) } else { Vec::new() };
        Self { origin, admin: None, pids, data: None, is_own: false }
    }
}

/// Running servers.
#[derive(Debug)]
pub(super) struct Servers {
    weir: PathBuf,
    folder: PathBuf,
    base: Origin,
    running: Vec<(Key, Process, RunningServer)>,
    /// Number of started servers.
    started: usize,
}

impl Servers {
    /// No server yet. Started servers replace `base`.
    pub(super) fn new(weir: &Path, folder: &Path, base: Origin) -> Self {
        let (weir, folder) = (weir.to_owned(), folder.to_owned());
        Self { weir, folder, base, running: Vec::new(), started: 0 }
    }

    /// The running server with this key.
    pub(super) fn running(&self, key: &Key) -> Option<RunningServer> {
        let mut running = self.running.iter();
        running.find(|(known, ..)| known == key).map(|(_, _, live)| live.clone())
    }

    /// Stops all unneeded servers. Returns whether one was running.
    pub(super) fn stop_unneeded(&mut self, needed: &[Key]) -> bool {
        let before = self.running.len();
        self.running.extract_if(.., |(key, ..)| !needed.contains(key)).for_each(end);
        self.running.len() < before
    }

    /// Stops all servers.
    pub(super) fn stop(&mut self) {
        std::mem::take(&mut self.running).into_iter().for_each(end);
    }

    /// Starts a server and waits until it is ready. `backend` is the address of the backend.
    pub(super) fn start(
        &mut self,
        server: &Server,
        key: Key,
        backend: Option<&str>,
        control: &Control,
    ) -> Result<RunningServer, String> {
        self.started += 1;
        let data = self.folder.join(format!("data-{}", self.started));
        std::fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
        let data = std::path::absolute(&data).unwrap_or(data);
        let log = self.folder.join(format!("server-{}.log", self.started));
        let (process, live) = match &server.start {
            Start::Weir(config) => {
                self.weir(server, config, &key, (backend, &data, &log), control)?
            }
            Start::Command(command) => {
                self.command(server, command, &key, (backend, &data, &log), control)?
            }
        };
        self.running.push((key, process, live.clone()));
        Ok(live)
    }

    fn weir(
        &self,
        server: &Server,
        config: &Path,
        key: &Key,
        (backend, data, log): (Option<&str>, &Path, &Path),
        control: &Control,
    ) -> Result<(Process, RunningServer), String> {
        let names = Placeholders { backend, data: Some(data), port: None };
        let mut command = Command::new(&self.weir);
        command.args(["serve", "--json", "--admin", "127.0.0.1:0", "--data"]).arg(data);
        for (path, value) in &key.sets {
            command.args(["--set", &format!("{path}={}", names.fill(value))]);
        }
        let ports = ports(config);
        for at in 0..ports.len().max(1) {
            command.args(["--set", &format!("listen.{at}.addr=127.0.0.1:0")]);
        }
        command.arg(config).envs(key.env.iter().cloned());
        let mut process = Process::start(&mut command, log, true)?;
        let ready = process.event("ready", server.ready_timeout, control)?;
        let address = |text: Option<&str>| text.and_then(|text| text.parse::<SocketAddr>().ok());
        let which = ports.iter().position(|port| *port == Some(self.base.port)).unwrap_or(0);
        let Some(listen) = address(ready["listen"][which].as_str()) else {
            return Err("it did not report its address".to_owned());
        };
        let live = RunningServer {
            origin: Origin {
                host: listen.ip().to_string(),
                port: listen.port(),
                ..self.base.clone()
            },
            admin: address(ready["admin"].as_str()),
            pids: vec![process.pid()],
            data: Some(data.to_owned()),
            is_own: true,
        };
        Ok((process, live))
    }

    fn command(
        &mut self,
        server: &Server,
        command: &[String],
        key: &Key,
        (backend, data, log): (Option<&str>, &Path, &Path),
        control: &Control,
    ) -> Result<(Process, RunningServer), String> {
        let texts =
            || command.iter().chain(&key.args).chain(key.env.iter().map(|(_, value)| value));
        let port = if texts().any(|text| text.contains(PORT)) {
            Some(free_port()?)
        } else {
            // All servers use the same port, so that only one can run.
            self.stop();
            None
        };
        let names = Placeholders { backend, data: Some(data), port };
        let mut all = command.iter().chain(&key.args).map(|text| names.fill(text));
        let program = all.next().ok_or_else(|| "its command is empty".to_owned())?;
        let mut command = Command::new(program);
        command.args(all).current_dir(or_current(&server.folder));
        command.envs(key.env.iter().map(|(name, value)| (name, names.fill(value))));
        let mut origin = self.base.clone();
        origin.port = port.unwrap_or(origin.port);
        if is_ready(&origin, None) {
            return Err(format!("another process already listens on {}", origin.authority()));
        }
        let mut process = Process::start(&mut command, log, false)?;
        let path = server.ready.as_deref();
        process.until(server.ready_timeout, control, |_| is_ready(&origin, path).then_some(()))?;
        let mut pids = vec![process.pid()];
        pids.extend(listening_on(origin.port).into_iter().filter(|pid| *pid != process.pid()));
        let data = Some(data.to_owned());
        Ok((process, RunningServer { origin, admin: None, pids, data, is_own: true }))
    }
}

/// The folder; the current one if empty.
fn or_current(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

/// Stops a server and deletes its data; its output stays.
fn end((_, process, live): (Key, Process, RunningServer)) {
    drop(process);
    if let Some(data) = live.data {
        // Remaining files are deleted together with the results.
        let _ = std::fs::remove_dir_all(data);
    }
}

/// Ports of the listeners in the main file of a configuration.
fn ports(config: &Path) -> Vec<Option<u16>> {
    let file = if config.is_dir() { config.join("weir.yaml") } else { config.to_owned() };
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let root = Document::read(&file, &text).root;
    let listeners = root.as_ref().and_then(|root| root.get("listen")).and_then(Node::items);
    let port = |node: &Node| {
        let address = node.get("addr").unwrap_or(node).text()?;
        address.rsplit_once(':')?.1.parse().ok()
    };
    listeners.unwrap_or_default().iter().map(port).collect()
}

/// Resolves `${data}` in the path of a server's log.
pub(super) fn in_data_folder(path: &Path, data: Option<&Path>) -> PathBuf {
    let text = path.to_string_lossy();
    match (text.find(DATA), data) {
        (Some(at), Some(data)) => {
            Placeholders { data: Some(data), ..Placeholders::default() }.fill(&text[at..]).into()
        }
        _ => path.to_owned(),
    }
}
