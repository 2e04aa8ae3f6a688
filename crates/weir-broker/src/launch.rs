//! Starting a process: clean environment, own process group, limits, another user.

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process_group, prlimit};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tokio::net::unix::pipe::Receiver;
use weir_config::{Program, ProgramLimits};

/// Where programs are looked for if weir itself has no `PATH`.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Open files of a program of which nothing is said.
const FILES: u64 = 1024;

/// Stack of a thread that starts a program, in bytes.
const SPAWN_STACK: usize = 128 << 10;

/// Sets limits and becomes the program: a process can always lower its own limits, whoever it runs
/// as, and they hold from its first instruction.
const SHELL: &str = "/bin/sh";

/// A program that is about to be started, by way of a shell if there are limits to be set.
///
/// Descriptors of weir's own are closed in it by the system: all of them are marked so.
pub(crate) fn command(program: &Program, name: &str, arguments: &[String]) -> Command {
    let limits = limits(&program.limits);
    let path = path(program);
    let place = find(name, &path);
    let mut command = if limits.is_empty() {
        Command::new(place)
    } else {
        let mut shell = Command::new(SHELL);
        shell.args(["-c", &format!("{limits}exec \"$@\""), "sh"]).arg(place);
        shell
    };
    command.args(arguments).env_clear().current_dir(&program.folder).process_group(0);
    command.env("PATH", path);
    if let Some(language) = std::env::var_os("LANG") {
        command.env("LANG", language);
    }
    command.envs(program.env.iter().map(|(name, value)| (name, value)));
    if let Some(user) = &program.user
        && rustix::process::geteuid().as_raw() != user.uid
    {
        // Supplementary groups of root's go with it.
        command.uid(user.uid).gid(user.gid);
    }
    command
}

/// The `PATH` of a program.
fn path(program: &Program) -> OsString {
    let said = program.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.into());
    said.or_else(|| std::env::var_os("PATH")).unwrap_or_else(|| PATH.into())
}

/// Where a program is that is named without a folder. The system could look for it, but would start it
/// by a copy of weir's own memory then, which costs weir more the more it has.
fn find(name: &str, path: &OsStr) -> PathBuf {
    let runs = |file: &PathBuf| {
        file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    let places = (!name.contains('/')).then(|| std::env::split_paths(path));
    let mut places = places.into_iter().flatten().filter(|folder| folder.is_absolute());
    places.find_map(|folder| Some(folder.join(name)).filter(runs)).unwrap_or_else(|| name.into())
}

/// Commands of a shell that set limits.
fn limits(limits: &ProgramLimits) -> String {
    let mut commands = String::new();
    let mut set = |text: String| {
        commands.push_str(&text);
        commands.push_str(" || exit 126; ");
    };
    if let Some(memory) = limits.memory {
        set(format!("ulimit -v {}", memory.div_ceil(1024)));
    }
    if let Some(files) = limits.files {
        set(format!("ulimit -n {files}"));
    }
    if let Some(processes) = limits.processes {
        // The option has another name in Debian's shell than in others.
        set(format!("ulimit -u {processes} 2>/dev/null || ulimit -p {processes}"));
    }
    if let Some(cpu) = limits.cpu {
        set(format!("ulimit -t {}", cpu.as_secs().max(1)));
    }
    commands
}

/// Starts it.
///
/// # Errors
/// It cannot be started.
pub(crate) fn start(command: &mut Command, program: &Program) -> io::Result<Process> {
    let child = if program.no_new_privileges { spawn_bounded(command) } else { command.spawn() };
    let process = Process { child: child?, reaped: false };
    if program.limits.files.is_none() {
        process.lower_files();
    }
    Ok(process)
}

/// Starts a program that gains no privileges, whatever it executes (`PR_SET_NO_NEW_PRIVS`).
///
/// A process has that from the thread that starts it, and a thread cannot lose it any more: so
/// one is started for this alone.
fn spawn_bounded(command: &mut Command) -> io::Result<Child> {
    std::thread::scope(|scope| {
        let spawn = || {
            rustix::thread::set_no_new_privs(true)?;
            command.spawn()
        };
        let thread = std::thread::Builder::new().name("spawn".to_owned());
        let spawned = thread.stack_size(SPAWN_STACK).spawn_scoped(scope, spawn)?.join();
        spawned.unwrap_or_else(|_| Err(io::Error::other("the thread that starts it panicked")))
    })
}

/// A running process and its group. Dropped, the group is killed.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) child: Child,
    reaped: bool,
}

impl Process {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    fn group(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// weir's own limit is far above what programs that use `select` can live with. The program may
    /// raise it again. Where the system does not let weir do this to another user's process, it
    /// keeps weir's.
    fn lower_files(&self) {
        let hard = rustix::process::getrlimit(Resource::Nofile).maximum;
        let limit = Rlimit { current: Some(FILES), maximum: hard };
        let _ = prlimit(self.group(), Resource::Nofile, limit);
    }

    /// Sends a signal to it and to whatever it has started.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(group) = self.group().filter(|_| !self.reaped) {
            // Nobody is left: that is what was wanted.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Ends what is left of its group. It must have ended itself, or be about to.
    pub(crate) fn reap(&mut self) -> io::Result<ExitStatus> {
        // The number of the group cannot be another's as long as its first process is not reaped.
        self.signal(Signal::KILL);
        let status = self.child.wait();
        self.reaped = true;
        status
    }

    /// Waits for its end, without reaping it.
    pub(crate) fn watch(&self) -> io::Result<Ending> {
        let pid = self.group().ok_or(io::ErrorKind::NotFound)?;
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
        Ok(Ending(Receiver::from_file_unchecked(pidfd.into())?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.reap();
        }
    }
}

/// The end of a process: its descriptor becomes readable then. It is no pipe and never read, but of
/// what the runtime can wait for this comes nearest.
#[derive(Debug)]
pub(crate) struct Ending(Receiver);

impl Ending {
    /// Waits for it.
    pub(crate) async fn come(&self) {
        if self.0.readable().await.is_err() {
            // The runtime is ending.
            std::future::pending::<()>().await;
        }
    }
}

/// Asks a process to end, and ends it when it does not.
pub(crate) async fn stop(process: &mut Process, ending: &Ending, patience: Duration) {
    process.signal(Signal::TERM);
    if tokio::time::timeout(patience, ending.come()).await.is_err() {
        process.signal(Signal::KILL);
        ending.come().await;
    }
}

/// How a process ended, in words; nothing if it did so in order.
pub(crate) fn trouble(status: io::Result<ExitStatus>) -> Option<String> {
    match status {
        Ok(status) if status.success() => None,
        Ok(status) => Some(match (status.code(), status.signal()) {
            (Some(127), _) => "exit status 127: the program was not found".to_owned(),
            (Some(126), _) => {
                "exit status 126: it cannot be executed, or its limits not be set".to_owned()
            }
            (Some(code), _) => format!("exit status {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "for an unknown reason".to_owned(),
        }),
        Err(error) => Some(error.to_string()),
    }
}

/// A pipe for what a process writes to be logged: its end for the process, and ours.
pub(crate) fn log_pipe() -> io::Result<(Stdio, Stdio, Receiver)> {
    let (ours, theirs) = io::pipe()?;
    let twice = theirs.as_fd().try_clone_to_owned()?;
    let ours = Receiver::from_owned_fd(ours.into())?;
    Ok((OwnedFd::from(theirs).into(), twice.into(), ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_as_the_system_would() {
        let dir = tempfile::tempdir().unwrap();
        for (folder, mode) in [("a", 0o644), ("b", 0o755), ("c", 0o755)] {
            let folder = dir.path().join(folder);
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("x"), "").unwrap();
            std::fs::set_permissions(folder.join("x"), std::fs::Permissions::from_mode(mode))
                .unwrap();
        }
        let folders = ["a", "b", "c"].map(|name| dir.path().join(name));
        let path = std::env::join_paths(&folders).unwrap();
        assert_eq!(find("x", &path), folders[1].join("x"));
        assert_eq!(find("y", &path), PathBuf::from("y"));
        assert_eq!(find("./x", &path), PathBuf::from("./x"));
    }
}
