//! Servers under test: one for each case, with its own port and data folder.

use super::affinity::Pinned;
use super::data_folder::DataFolder;
use super::placeholders::{
    Address, DATA, PORT, Placeholders, absolute, free_port, local, named_ports,
};
use super::prepare;
use super::process::Process;
use crate::engine::Control;
use crate::observe::{is_ready, listening_on};
use crate::program::{Origin, Program};
use crate::scenario::{Cell, Restart, Server, Start};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use weir_document::document::Document;
use weir_document::draft::Node;

/// Name of the port of weir's admin listener, if it has to be known before the start.
const ADMIN: &str = "admin";

/// Identity of a server: cells with the same key share a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// The contender that has the server.
    owner: Option<String>,
    server: Server,
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
        owner: cell.contender.as_ref().map(|contender| contender.owner.clone()),
        server: server.clone(),
        sets: all(&server.sets, &cell.sets),
        env: all(&server.env, &cell.env),
        args: cell.args.clone(),
        cell: (server.restart == Restart::Cell).then_some(index),
    }
}

/// A running server.
#[derive(Clone, Debug)]
pub(super) struct RunningServer {
    /// Ports by their names; of weir, the numbers of its listeners.
    pub(super) ports: Vec<(String, u16)>,
    /// Cores of its processes; all if empty.
    pub(super) cores: Vec<usize>,
    /// Its origin.
    pub(super) origin: Origin,
    /// Origins of weir's further listeners and of its admin listener: as configured, and in fact.
    others: Vec<(Origin, Origin)>,
    /// weir's admin listener.
    pub(super) admin: Option<SocketAddr>,
    /// Its processes, if on this machine.
    pub(super) pids: Vec<i32>,
    /// Its data folder.
    pub(super) data: Option<PathBuf>,
    /// Only the Lab sends requests to it.
    pub(super) is_own: bool,
    /// Time from its start until it was ready, if it is started for each round.
    pub(super) start: Option<Duration>,
}

impl RunningServer {
    /// A server that the Lab did not start.
    pub(super) fn existing_server(origin: Origin) -> Self {
        let pids = if origin.is_loopback() { listening_on(origin.port) } else { Vec::new() };
        let (ports, cores, others) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            ports,
            cores,
            origin,
            others,
            admin: None,
            pids,
            data: None,
            is_own: false,
            start: None,
        }
    }

    /// Sends the requests of a program to this server instead of `base`, and those to the other
    /// configured ports of weir to the ports in fact. Returns whether there is one of the latter.
    pub(super) fn retarget(&self, program: &mut Program, base: &Origin) -> bool {
        program.retarget(base, &self.origin);
        self.others.iter().map(|(from, to)| program.retarget(from, to)).sum::<usize>() > 0
    }

    /// Ports that it listens on, as far as they are known.
    pub(super) fn listening_ports(&self) -> Vec<u16> {
        let named = self.ports.iter().map(|(_, port)| *port);
        std::iter::once(self.origin.port).chain(named).collect()
    }

    /// The server with the port that a contender is loaded at.
    pub(super) fn at_port(mut self, name: Option<&str>) -> Result<Self, String> {
        let Some(name) = name else { return Ok(self) };
        let port = self.ports.iter().find(|(known, _)| known == name);
        self.origin.port = port.ok_or_else(|| format!("it has no port `{name}`"))?.1;
        Ok(self)
    }
}

/// Running servers.
#[derive(Debug)]
pub(super) struct Servers {
    weir: PathBuf,
    folder: PathBuf,
    /// Of all servers.
    shared: PathBuf,
    base: Origin,
    /// A data folder is deleted after its process has ended.
    running: Vec<(Key, Process, RunningServer, DataFolder)>,
    /// Number of started servers.
    started: usize,
}

impl Servers {
    /// No server yet. Started servers replace `base`.
    pub(super) fn new(weir: &Path, folder: &Path, shared: &Path, base: Origin) -> Self {
        let (weir, folder, shared) = (weir.to_owned(), folder.to_owned(), shared.to_owned());
        Self { weir, folder, shared, base, running: Vec::new(), started: 0 }
    }

    /// The running server with this key.
    pub(super) fn running(&self, key: &Key) -> Option<RunningServer> {
        let mut running = self.running.iter();
        running.find(|(known, ..)| known == key).map(|(_, _, live, _)| live.clone())
    }

    /// Stops all unneeded servers. Returns whether one was running.
    pub(super) fn stop_unneeded(&mut self, needed: &[Key]) -> bool {
        let before = self.running.len();
        self.running.retain(|(key, ..)| needed.contains(key));
        self.running.len() < before
    }

    /// Stops a server, if it is running.
    pub(super) fn stop_one(&mut self, key: &Key) {
        self.running.retain(|(known, ..)| known != key);
    }

    /// Stops the servers that have the port of a server which is about to start: all servers without a port of their
    /// own listen at that of the target, so that only one of them can run. Returns those that were stopped.
    pub(super) fn stop_at_port_of(
        &mut self,
        server: &Server,
        key: &Key,
    ) -> Vec<(Key, RunningServer)> {
        if has_own_port(server, key) {
            return Vec::new();
        }
        let port = self.base.port;
        let stopped = self.running.extract_if(.., |(_, _, live, _)| live.origin.port == port);
        stopped.map(|(key, _, live, _)| (key, live)).collect()
    }

    /// Stops all servers.
    pub(super) fn stop(&mut self) {
        self.running.clear();
    }

    /// Starts a server and waits until it is ready. `backend` is the address of the backend.
    pub(super) fn start(
        &mut self,
        server: &Server,
        key: Key,
        backend: Option<&Address>,
        control: &Control,
    ) -> Result<RunningServer, String> {
        let _pinned = Pinned::to(&server.cores)?;
        self.started += 1;
        let folder = DataFolder::create(&self.folder.join(format!("data-{}", self.started)))?;
        let data = folder.path();
        let log = self.folder.join(format!("server-{}.log", self.started));
        let (process, mut live) = match &server.start {
            Start::Weir(config) => {
                self.weir(server, config, &key, (backend, data, &log), control)?
            }
            Start::Command(command) => {
                self.command(server, command, &key, (backend, data, &log), control)?
            }
        };
        live.start = live.start.filter(|_| server.restart == Restart::Round);
        self.running.push((key, process, live.clone(), folder));
        Ok(live)
    }

    fn weir(
        &self,
        server: &Server,
        config: &Path,
        key: &Key,
        (backend, data, log): (Option<&Address>, &Path, &Path),
        control: &Control,
    ) -> Result<(Process, RunningServer), String> {
        let folder = absolute(&server.folder);
        let named = named_ports(&server.ports)?;
        let names = Placeholders {
            ports: &named,
            backend,
            data: Some(data),
            folder: Some(&folder),
            shared: Some(&self.shared),
            ..Placeholders::default()
        };
        names.write(&server.files)?;
        prepare::run(&server.prepare, &names, &folder, control)?;
        let config = &PathBuf::from(names.fill(&config.to_string_lossy()));
        let mut command = Command::new(server.program.as_ref().unwrap_or(&self.weir));
        let admin = named.iter().find(|(name, _)| name == ADMIN).map_or(0, |(_, port)| *port);
        command.args(["serve", "--json", "--admin", &local(admin).to_string(), "--data"]).arg(data);
        for (path, value) in &key.sets {
            command.args(["--set", &format!("{path}={}", names.fill(value))]);
        }
        let ports = ports(config);
        for at in 0..ports.len().max(1) {
            command.args(["--set", &format!("listen.{at}.addr=127.0.0.1:0")]);
        }
        command.arg(config);
        command.envs(key.env.iter().map(|(name, value)| (name, names.fill(value))));
        let started = Instant::now();
        let mut process = Process::start(&mut command, log, true)?;
        let ready = process.event("ready", server.ready_timeout, control)?;
        let address = |text: Option<&str>| text.and_then(|text| text.parse::<SocketAddr>().ok());
        let which = ports.iter().position(|port| *port == Some(self.base.port)).unwrap_or(0);
        let Some(listen) = address(ready["listen"][which].as_str()) else {
            return Err("it did not report its address".to_owned());
        };
        let listen_ports = ready["listen"].as_array().into_iter().flatten().enumerate();
        let listen_port = |(at, text): (usize, &serde_json::Value)| {
            Some((at.to_string(), address(text.as_str())?.port()))
        };
        let others = self.other_origins(&ports, which, config, &ready);
        let mut live = RunningServer {
            others,
            ports: listen_ports.filter_map(listen_port).collect(),
            cores: server.cores.clone(),
            origin: Origin {
                host: listen.ip().to_string(),
                port: listen.port(),
                ..self.base.clone()
            },
            admin: address(ready["admin"].as_str()),
            pids: vec![process.pid()],
            data: Some(data.to_owned()),
            is_own: true,
            start: None,
        };
        if let Some(path) = server.ready.as_deref() {
            let timeout = server.ready_timeout;
            process
                .until(timeout, control, |_| is_ready(&live.origin, Some(path)).then_some(()))?;
        }
        live.start = Some(started.elapsed());
        Ok((process, live))
    }

    /// Origins of the listeners but that of the load, and of the admin listener.
    fn other_origins(
        &self,
        ports: &[Option<u16>],
        loaded: usize,
        config: &Path,
        ready: &serde_json::Value,
    ) -> Vec<(Origin, Origin)> {
        let origins = |tls: bool, from: Option<u16>, to: &serde_json::Value| {
            let to: SocketAddr = to.as_str()?.parse().ok()?;
            let known = Origin { tls, host: self.base.host.clone(), port: from? };
            Some((known, Origin { tls, host: to.ip().to_string(), port: to.port() }))
        };
        let listeners = ports.iter().enumerate().filter(|(at, _)| *at != loaded);
        let listeners = listeners.flat_map(|(at, port)| {
            [false, true].map(|tls| origins(tls, *port, &ready["listen"][at]))
        });
        let admin = origins(false, admin_port(config), &ready["admin"]);
        listeners.chain([admin]).flatten().collect()
    }

    fn command(
        &self,
        server: &Server,
        command: &[String],
        key: &Key,
        (backend, data, log): (Option<&Address>, &Path, &Path),
        control: &Control,
    ) -> Result<(Process, RunningServer), String> {
        let port = if has_own_port(server, key) { Some(free_port()?) } else { None };
        let ports = named_ports(&server.ports)?;
        let folder = absolute(&server.folder);
        let names = Placeholders {
            port,
            ports: &ports,
            data: Some(data),
            backend,
            folder: Some(&folder),
            shared: Some(&self.shared),
        };
        names.write(&server.files)?;
        prepare::run(&server.prepare, &names, &folder, control)?;
        let mut all = command.iter().chain(&key.args).map(|text| names.fill(text));
        let program = all.next().ok_or_else(|| "its command is empty".to_owned())?;
        let mut command = Command::new(program);
        command.args(all).current_dir(&folder);
        command.envs(key.env.iter().map(|(name, value)| (name, names.fill(value))));
        let mut origin = self.base.clone();
        origin.port = port.unwrap_or(origin.port);
        if is_ready(&origin, None) {
            return Err(format!("another process already listens on {}", origin.authority()));
        }
        let started = Instant::now();
        let mut process = Process::start(&mut command, log, false)?;
        let path = server.ready.as_deref();
        process.until(server.ready_timeout, control, |_| is_ready(&origin, path).then_some(()))?;
        let start = Some(started.elapsed());
        let mut pids = vec![process.pid()];
        pids.extend(listening_on(origin.port).into_iter().filter(|pid| *pid != process.pid()));
        let data = Some(data.to_owned());
        let cores = server.cores.clone();
        let (others, admin, is_own) = (Vec::new(), None, true);
        let live = RunningServer { ports, cores, origin, others, admin, pids, data, is_own, start };
        Ok((process, live))
    }
}

/// Whether a server listens at a free port, not at that of the target. Files of a server may have the port.
pub(super) fn has_own_port(server: &Server, key: &Key) -> bool {
    let Start::Command(command) = &server.start else { return true };
    let values = key.env.iter().map(|(_, value)| value);
    let mut texts = command.iter().chain(&key.args).chain(values);
    !server.files.is_empty() || texts.any(|text| text.contains(PORT))
}

/// Ports of the listeners in the main file of a configuration.
fn ports(config: &Path) -> Vec<Option<u16>> {
    let root = main_file(config);
    let listeners = root.as_ref().and_then(|root| root.get("listen")).and_then(Node::items);
    let port = |node: &Node| port_of(node.get("addr").unwrap_or(node));
    listeners.unwrap_or_default().iter().map(port).collect()
}

/// Port of the admin listener in the main file of a configuration.
fn admin_port(config: &Path) -> Option<u16> {
    port_of(main_file(config)?.get("admin")?.get("addr")?)
}

fn port_of(address: &Node) -> Option<u16> {
    address.text()?.rsplit_once(':')?.1.parse().ok()
}

fn main_file(config: &Path) -> Option<Node> {
    let file = if config.is_dir() { config.join("weir.yaml") } else { config.to_owned() };
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    Document::read(&file, &text).root
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Overrides, load_text};

    #[test]
    fn a_log_may_be_in_the_data_folder() {
        let (log, data) = (Path::new("/scenarios/${data}/logs/gc.log"), Path::new("/out/data-1"));
        assert_eq!(in_data_folder(log, Some(data)), Path::new("/out/data-1/logs/gc.log"));
        assert_eq!(in_data_folder(log, Some(Path::new(DATA))), Path::new("${data}/logs/gc.log"));
        let elsewhere = Path::new("/var/log/gc.log");
        assert_eq!(in_data_folder(elsewhere, Some(data)), elsewhere);
    }

    #[test]
    fn only_servers_at_the_same_port_stop() {
        let text = "lab: 1\ntarget: {base: \"http://127.0.0.1:7001\"}\nrequests: [{get: /}]\n\
            load: {executor: constant-vus, vus: 1, duration: 9s}\ncontenders:\n  \
            fixed: {server: {command: [sleep, \"60\"]}}\n  other: {server: {command: [sleep, \"61\"]}}\n  \
            free: {server: {command: [sleep, \"62\", \"${port}\"]}}\n";
        let (scenario, _) = load_text(Path::new("a.yaml"), text, &Overrides::default()).unwrap();
        let of = |at: usize| {
            let server = scenario.server_of(&scenario.cells[at]).unwrap();
            (server, key(server, at, &scenario.cells[at]))
        };
        let folder = tempfile::tempdir().unwrap();
        let (base, _) = Origin::parse("http://127.0.0.1:7001").unwrap();
        let shared = Path::new("shared");
        let mut servers = Servers::new(Path::new("weir"), folder.path(), shared, base.clone());
        for (at, port) in [(0, 7001), (2, 7002)] {
            let log = folder.path().join("log");
            let process = Process::start(Command::new("sleep").arg("60"), &log, false).unwrap();
            let live = RunningServer::existing_server(Origin { port, ..base.clone() });
            let data = DataFolder::create(&folder.path().join(port.to_string())).unwrap();
            servers.running.push((of(at).1, process, live, data));
        }
        let ((free, free_key), (other, other_key)) = (of(2), of(1));
        assert!(servers.stop_at_port_of(free, &free_key).is_empty());
        let stopped = servers.stop_at_port_of(other, &other_key);
        assert_eq!(stopped.iter().map(|(key, _)| key).collect::<Vec<_>>(), [&of(0).1]);
        assert!(servers.running(&free_key).is_some());
        assert!(!folder.path().join("7001").exists() && folder.path().join("7002").exists());
    }
}
