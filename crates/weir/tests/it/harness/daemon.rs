//! Databases and other servers as child processes that tests kill and start again.

use super::process::{PATIENCE, eventually};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The user and the group `nobody`, for servers that refuse to run as root.
const NOBODY: u32 = 65534;

/// Below the ports that the kernel chooses: nobody else gets the port of a server that is down.
const PORTS: std::ops::Range<u16> = 15_000..32_000;

/// A server and the processes it has started; they end when it is dropped.
pub(super) struct Daemon {
    child: Child,
    command: Command,
    /// Standard output and standard error.
    log: PathBuf,
    /// Ends it at once, without leaving anything behind.
    stop_signal: Signal,
}

impl Daemon {
    /// Starts a server on a port that `prepare` is given, with a log in `dir`, and waits until it
    /// `is_up`. Another process may take the port first: then it tries the next one.
    pub(super) fn start(
        dir: &Path,
        stop_signal: Signal,
        mut prepare: impl FnMut(SocketAddr) -> Command,
        is_up: impl Fn(SocketAddr) -> bool,
    ) -> (Self, SocketAddr) {
        let log = dir.join("log.txt");
        for _ in 0..5 {
            let addr = free_address();
            let mut command = prepare(addr);
            let child = spawn(&mut command, &log);
            let mut daemon = Self { child, command, log: log.clone(), stop_signal };
            if daemon.comes_up(|| is_up(addr)) {
                return (daemon, addr);
            }
        }
        panic!("it does not start:\n{}", fs::read_to_string(log).unwrap_or_default());
    }

    /// Starts it again as it was, after its end.
    pub(super) fn restart(&mut self, is_up: impl Fn() -> bool) {
        assert!(self.has_ended(), "it still runs");
        self.child = spawn(&mut self.command, &self.log);
        assert!(self.comes_up(is_up), "it does not start again:\n{}", self.log());
    }

    /// Ends all its processes at once, as a crash of the machine does, and waits for their end.
    pub(super) fn kill_9(&mut self) {
        let family = self.pause();
        for process in &family {
            process.signal(Signal::KILL);
        }
        let _ = self.child.wait();
        eventually("all its processes end", || !family.iter().any(Process::runs));
    }

    /// Ends it by its signal, or by force if that takes long; it may have ended already.
    pub(super) fn stop(&mut self) {
        let ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        if ended(&mut self.child) {
            return;
        }
        // It may end just now.
        let _ = kill_process(self.pid(), self.stop_signal);
        let end = Instant::now() + Duration::from_secs(10);
        while !ended(&mut self.child) {
            if Instant::now() > end {
                return self.kill_9();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops all its processes in the middle of what they do, until [`Daemon::resume`].
    pub(super) fn pause(&self) -> Vec<Process> {
        // The first process first, so that it starts no others meanwhile.
        let Some(first) = Process::of(self.pid()) else { return Vec::new() };
        let stop = |process: &Process| {
            process.signal(Signal::STOP);
            eventually("a process stops", || !process.runs() || process.is_stopped());
        };
        stop(&first);
        let mut family = vec![first];
        let mut next = 0;
        while let Some(parent) = family.get(next) {
            let children = Process::children(parent.pid);
            children.iter().for_each(stop);
            family.extend(children);
            next += 1;
        }
        family
    }

    /// Continues processes that [`Daemon::pause`] has stopped.
    pub(super) fn resume(&self, family: &[Process]) {
        family.iter().for_each(|process| process.signal(Signal::CONT));
    }

    /// What it has written so far.
    pub(super) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its first process.
    fn pid(&self) -> Pid {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process")
    }

    fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("it can be waited for").is_some()
    }

    /// Waits until it is up; `false` if it ends before.
    fn comes_up(&mut self, is_up: impl Fn() -> bool) -> bool {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if self.has_ended() {
                return false;
            }
            // Not another server that took the port first.
            if is_up() {
                return !self.has_ended();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it is not up after {PATIENCE:?}:\n{}", self.log());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            let log = self.log();
            let start = log.len().saturating_sub(4_000);
            eprintln!("--- end of {}\n{}", self.log.display(), log.get(start..).unwrap_or(&log));
        }
    }
}

fn spawn(command: &mut Command, log: &Path) -> Child {
    let output = || File::options().create(true).append(true).open(log).expect("a log");
    let child = command.stdin(Stdio::null()).stdout(output()).stderr(output()).spawn();
    child.unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// One process, told from a later one with the same number by the time at which it started.
#[derive(PartialEq, Eq)]
pub(super) struct Process {
    pid: Pid,
    started: u64,
}

impl Process {
    fn of(pid: Pid) -> Option<Self> {
        let fields = stat(pid)?;
        Some(Self { pid, started: fields.get(19)?.parse().ok()? })
    }

    /// The processes that this one has started.
    fn children(parent: Pid) -> Vec<Self> {
        let parent = parent.as_raw_nonzero().to_string();
        let entries = fs::read_dir("/proc").expect("the processes").flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter_map(Pid::from_raw)
            .filter(|pid| stat(*pid).is_some_and(|fields| fields.get(1) == Some(&parent)))
            .filter_map(Self::of)
            .collect()
    }

    /// Whether it has not ended. A process that only waits to be reaped has.
    fn runs(&self) -> bool {
        let ended = stat(self.pid).is_none_or(|fields| matches!(fields[0].as_str(), "Z" | "X"));
        !ended && Self::of(self.pid).as_ref() == Some(self)
    }

    fn is_stopped(&self) -> bool {
        stat(self.pid).is_some_and(|fields| fields[0] == "T")
    }

    fn signal(&self, signal: Signal) {
        if self.runs() {
            // It may end just now.
            let _ = kill_process(self.pid, signal);
        }
    }
}

/// Fields of `/proc/PID/stat` (proc(5)) behind the name: state, parent, …; the start is number 19.
fn stat(pid: Pid) -> Option<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

/// An address on which nothing listens and which the kernel gives to nobody.
pub(crate) fn free_address() -> SocketAddr {
    let mut candidates =
        (0..1_000).map(|_| SocketAddr::from(([127, 0, 0, 1], fastrand::u16(PORTS))));
    candidates.find(|addr| TcpListener::bind(addr).is_ok()).expect("a free port")
}

/// Whether something accepts connections there.
pub(super) fn accepts(addr: SocketAddr) -> bool {
    TcpStream::connect(addr).is_ok()
}

/// A command of an unprivileged user: of this one, or of `nobody` if the tests run as root.
pub(super) fn unprivileged(program: &Path) -> Command {
    if !geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={NOBODY}")).arg(format!("--regid={NOBODY}"));
    command.args(["--clear-groups", "--"]).arg(program);
    command
}

/// A temporary folder of the user of [`unprivileged`].
pub(super) fn unprivileged_folder() -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary folder");
    give_away(dir.path());
    dir
}

/// Writes a file that only the user of [`unprivileged`] can read and write.
pub(super) fn unprivileged_file(path: &Path, content: &str) {
    fs::write(path, content).expect("a file");
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(path, private).expect("it is ours");
    give_away(path);
}

fn give_away(path: &Path) {
    if geteuid().is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).expect("root may do that");
    }
}
