//! The real binary as a child process.

use super::Client;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::str::FromStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long anything may take that should happen at once. Generous: the machine may be busy, and
/// what weir does in idle time does not wait for that once it is a minute late.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Names a place where the binary under test, built with failpoints, ends as by kill -9; with
/// `:N` behind it after passing there N times.
pub(crate) const KILL_AT: &str = "WEIR_KILL_AT";

/// Names a place where a thread of it panics, once, likewise.
pub(crate) const PANIC_AT: &str = "WEIR_PANIC_AT";

/// How long tests under load last: `default`, or what `make soak` says.
pub(crate) fn load_time(default: Duration) -> Duration {
    Duration::from_secs(from_environment("WEIR_LOAD_SECONDS", default.as_secs()))
}

/// A number that `make soak` raises, or what it is otherwise.
pub(crate) fn from_environment<T: FromStr>(name: &str, otherwise: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Waits until something holds that should hold soon.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let began = Instant::now();
        if holds() {
            return;
        }
        assert!(Instant::now() < deadline, "in vain: {what}");
        // Reading all metrics takes longer, and would keep a debug build from what is waited for.
        let pause = began.elapsed().clamp(Duration::from_millis(5), Duration::from_millis(100));
        std::thread::sleep(pause);
    }
}

/// How often a test repeats something: `short`, or what `make soak` says.
pub(crate) fn repetitions(short: usize) -> usize {
    from_environment("WEIR_REPETITIONS", short)
}

/// How often tests that kill weir again and again do so; `make soak` says more.
pub(crate) fn kills() -> usize {
    from_environment("WEIR_KILLS", 10)
}

/// A command of the binary under test.
fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.env("NO_COLOR", "1");
    // Contexts of whoever runs the tests.
    command
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .env_remove("WEIR_ADMIN")
        .env_remove("WEIR_CONTEXT");
    command
}

/// Runs a command to its end in `dir`.
pub(crate) fn weir(dir: &Path, args: &[&str]) -> Output {
    command().current_dir(dir).args(args).output().expect("the binary runs")
}

/// Runs another program to its end with this input; it must succeed. Gives its output.
pub(crate) fn run(command: &mut Command, input: &[u8]) -> Vec<u8> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    // A program that does not read its input may be gone already.
    let _ = child.stdin.take().expect("its input is piped").write_all(input);
    let output = child.wait_with_output().expect("it can be waited for");
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output.stdout
}

/// Starts `weir echo` on a free port with more arguments.
pub(crate) fn echo(args: &[&str]) -> Server {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let mut command = command();
    command.args(["echo", "--json", "--workers", "1", "--listen", "127.0.0.1:0"]).args(args);
    Server::start(command, dir)
}

/// A `weir serve` to be started.
pub(crate) struct Weir {
    dir: TempDir,
    command: Command,
    admin: SocketAddr,
}

/// Any free port of this machine.
const FREE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

impl Weir {
    /// With this configuration as `weir.yaml` in a folder of its own. Listeners should have port
    /// 0; the admin listener is given one.
    pub(crate) fn new(config: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut command = command();
        command.args(["serve", "--json"]).arg("weir.yaml");
        if let Ok(io) = std::env::var("WEIR_TEST_IO") {
            command.args(["--set", &format!("io={io}")]);
        }
        command.current_dir(dir.path());
        Self { dir, command, admin: FREE }.file("weir.yaml", config)
    }

    /// With a folder that is there already, started from another folder by this path of its
    /// configuration.
    pub(crate) fn elsewhere(dir: TempDir, from: &Path, config: &str) -> Self {
        let mut command = command();
        command.args(["serve", "--json"]).arg(config);
        command.current_dir(from);
        Self { dir, command, admin: FREE }
    }

    /// With its admin listener at this address.
    pub(crate) fn admin(self, admin: SocketAddr) -> Self {
        Self { admin, ..self }
    }

    /// With another file beside it.
    pub(crate) fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.dir.path().join(name), content).expect("a file in the folder");
        self
    }

    /// With more arguments.
    pub(crate) fn args(mut self, args: &[&str]) -> Self {
        self.command.args(args);
        self
    }

    /// With an environment variable.
    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// With at most so many descriptors open in each of its tables.
    pub(crate) fn descriptors(self, most: u32) -> Self {
        self.under(&["/bin/sh", "-c", &format!("ulimit -n {most}; exec \"$0\" \"$@\"")])
    }

    /// As the last arguments of another program, which executes it.
    pub(crate) fn under(mut self, program: &[&str]) -> Self {
        let mut command = Command::new(program[0]);
        command.args(&program[1..]);
        command.arg(self.command.get_program()).args(self.command.get_args());
        command.env("NO_COLOR", "1").current_dir(self.dir.path());
        self.command = command;
        self
    }

    /// Its folder.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Starts it and waits until every socket is bound.
    pub(crate) fn start(mut self) -> Server {
        self.command.args(["--admin", &self.admin.to_string()]);
        Server::start(self.command, self.dir)
    }

    /// Runs it to its end: for configurations that must be refused.
    pub(crate) fn refused(mut self) -> Output {
        self.command.args(["--admin", &self.admin.to_string()]);
        self.command.output().expect("the binary runs")
    }
}

/// A running process that prints events; it is killed when dropped.
pub(crate) struct Server {
    child: Child,
    /// Where it serves, in the order of the configuration.
    pub(crate) listen: Vec<SocketAddr>,
    /// Its admin listener.
    pub(crate) admin: Option<SocketAddr>,
    /// What it has said when it was ready.
    pub(crate) ready: Value,
    /// Behind a lock so that several threads may talk to one server.
    events: Mutex<Receiver<Value>>,
    command: Command,
    dir: TempDir,
}

impl AsRef<Server> for Server {
    fn as_ref(&self) -> &Server {
        self
    }
}

impl Server {
    fn start(mut command: Command, dir: TempDir) -> Self {
        let (child, events) = Self::spawn(&mut command, &dir);
        let (listen, ready) = (Vec::new(), Value::Null);
        let mut server = Self { child, listen, admin: None, ready, events, command, dir };
        server.wait_until_ready();
        server
    }

    fn spawn(command: &mut Command, dir: &TempDir) -> (Child, Mutex<Receiver<Value>>) {
        let path = dir.path().join("stderr.txt");
        let stderr = std::fs::File::options().create(true).append(true).open(path);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr.expect("a file"))
            .spawn()
            .expect("the binary starts");
        let stdout = BufReader::new(child.stdout.take().expect("its output is piped"));
        let (sender, events) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line).unwrap_or(Value::String(line));
                if sender.send(event).is_err() {
                    break;
                }
            }
        });
        (child, Mutex::new(events))
    }

    fn wait_until_ready(&mut self) {
        let ready = self.event("ready");
        let addr = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
        self.listen = ready["listen"].as_array().into_iter().flatten().filter_map(addr).collect();
        self.admin = addr(&ready["admin"]);
        assert!(!self.listen.is_empty(), "no address in {ready}");
        self.ready = ready;
    }

    /// Ends it at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        // It may have ended by itself, which is what some tests wait for.
        let _ = self.child.kill();
        self.wait();
    }

    /// Starts it again in the same folder after it has ended, with this in its environment.
    pub(crate) fn restart(&mut self, environment: &[(&str, &str)]) {
        self.wait();
        self.command.env_remove(KILL_AT).envs(environment.iter().copied());
        (self.child, self.events) = Self::spawn(&mut self.command, &self.dir);
        self.wait_until_ready();
    }

    /// Starts it again after it has ended, until it is ready or has ended again: how, then.
    pub(crate) fn try_restart(&mut self) -> Option<ExitStatus> {
        self.wait();
        self.command.env_remove(KILL_AT);
        (self.child, self.events) = Self::spawn(&mut self.command, &self.dir);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("it can be asked") {
                return Some(status);
            }
            let events = self.events.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if events.recv_timeout(Duration::from_millis(20)).is_ok() {
                return None;
            }
        }
        panic!("it neither starts nor ends");
    }

    /// Starts it again as [`Server::restart`] does, to end by itself, maybe before it is ready.
    pub(crate) fn restart_to_end(&mut self, environment: &[(&str, &str)]) {
        self.wait();
        self.command.env_remove(KILL_AT).envs(environment.iter().copied());
        (self.child, self.events) = Self::spawn(&mut self.command, &self.dir);
        self.wait();
    }

    /// The next event, which must be of this kind.
    pub(crate) fn event(&mut self, kind: &str) -> Value {
        self.event_after(&[], kind)
    }

    /// The next event of a kind, after events of other kinds in any order: those of a successor are
    /// on the same pipe.
    pub(crate) fn event_after(&mut self, before: &[&str], kind: &str) -> Value {
        match self.events().recv_timeout(PATIENCE) {
            Ok(event) if event["event"] == kind => event,
            Ok(other) if before.iter().any(|one| other["event"] == *one) => {
                self.event_after(before, kind)
            }
            Ok(other) => panic!("expected {kind}, got {other}\n{}", self.stderr()),
            Err(RecvTimeoutError::Timeout) => panic!("no {kind} came\n{}", self.stderr()),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait();
                panic!("ended ({status:?}) instead of {kind}\n{}", self.stderr())
            }
        }
    }

    fn events(&mut self) -> &mut Receiver<Value> {
        self.events.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the events that have come and nobody asked for; none may be of this kind.
    pub(crate) fn no_more(&mut self, kind: &str) {
        for event in self.events().try_iter() {
            assert_ne!(event["event"], kind, "{event}");
        }
    }

    /// Closes our end of its standard output.
    pub(crate) fn stop_reading(&mut self) {
        // The thread that reads ends with the next line, and its end of the pipe with it.
        *self.events() = channel().1;
    }

    /// A connection to its first listener.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.listen[0])
    }

    /// `http://…` and this path, at the first listener.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.listen[0])
    }

    /// What it wrote to standard error so far.
    pub(crate) fn stderr(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("stderr.txt")).unwrap_or_default()
    }

    /// A connection to its admin listener.
    pub(crate) fn connect_admin(&self) -> Client {
        Client::connect(self.admin.expect("an admin listener"))
    }

    /// The sum of the samples of a metric whose labels contain all of these.
    pub(crate) fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let text = self.connect_admin().get("/metrics").text();
        let is_it = |line: &&str| {
            let rest = line.strip_prefix(name).unwrap_or("-");
            rest.starts_with(['{', ' ']) && labels.iter().all(|label| rest.contains(label))
        };
        let value = |line: &str| line.rsplit(' ').next().and_then(|number| number.parse().ok());
        let samples: Vec<f64> = text.lines().filter(is_it).filter_map(value).collect();
        let family = name.strip_suffix("_count").unwrap_or(name);
        assert!(!samples.is_empty() || text.contains(&format!("# TYPE {family} ")), "no {name}");
        samples.iter().sum()
    }

    /// Replaces its configuration, as editors do it, and waits until it is taken.
    pub(crate) fn reload(&mut self, config: &str) {
        self.replace("weir.yaml", config);
        self.event("reloaded");
    }

    /// Replaces a file in its folder in one step.
    pub(crate) fn replace(&self, name: &str, content: impl AsRef<[u8]>) {
        let new = self.dir().join(format!("{name}.new"));
        std::fs::write(&new, content).expect("the folder is writable");
        std::fs::rename(new, self.dir().join(name)).expect("the folder is writable");
    }

    /// The folder with its configuration.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Its data folder.
    pub(crate) fn data(&self) -> PathBuf {
        let said = self.command.get_args().skip_while(|arg| *arg != "--data").nth(1);
        self.dir().join(said.unwrap_or("data".as_ref()))
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Most memory it ever had resident, in KiB.
    pub(crate) fn peak_memory(&self) -> u64 {
        self.memory("VmHWM:")
    }

    /// A line of the system's account of its memory, in KiB.
    pub(super) fn memory(&self, line: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("it runs");
        let line = status.lines().find_map(|text| text.strip_prefix(line));
        let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        number.expect("a number of KiB")
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, signal).expect("it runs");
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                return status;
            }
            assert!(Instant::now() < deadline, "it does not end\n{}", self.stderr());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- standard error of the process under test\n{}", self.stderr());
        }
    }
}
