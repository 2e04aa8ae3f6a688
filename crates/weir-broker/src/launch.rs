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
use weir_model::pool::{Program, ProgramLimits};

/// Search path of programs if weir itself has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// Default limit of open files.
const DEFAULT_OPEN_FILES: u64 = 1024;

/// Stack of a thread that starts a program, in bytes.
const SPAWN_STACK_BYTES: usize = 128 << 10;

/// Sets limits and executes the program: a process can always lower its own limits, whatever its
/// user, and they apply from the first instruction.
const SHELL: &str = "/bin/sh";

/// The command that starts a program, through a shell if limits are to be set.
///
/// All descriptors of weir are close-on-exec.
pub(crate) fn command(program: &Program, name: &str, arguments: &[String]) -> Command {
    let limits = limits(&program.limits);
    let path = path(program);
    let executable = find(name, &path);
    let mut command = if limits.is_empty() {
        Command::new(executable)
    } else {
        let mut shell = Command::new(SHELL);
        shell.args(["-c", &format!("{limits}exec \"$@\""), "sh"]).arg(executable);
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
        // This drops the supplementary groups of root as well.
        command.uid(user.uid).gid(user.gid);
    }
    command
}

/// The `PATH` of a program.
fn path(program: &Program) -> OsString {
    let configured =
        program.env.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.into());
    configured.or_else(|| std::env::var_os("PATH")).unwrap_or_else(|| DEFAULT_PATH.into())
}

/// The path of a program that is named without a folder. The system could search for it, but would
/// then copy weir's address space to start it, which takes longer the larger weir is.
fn find(name: &str, path: &OsStr) -> PathBuf {
    let runs = |file: &PathBuf| {
        file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    let folders = (!name.contains('/')).then(|| std::env::split_paths(path));
    let mut folders = folders.into_iter().flatten().filter(|folder| folder.is_absolute());
    folders.find_map(|folder| Some(folder.join(name)).filter(runs)).unwrap_or_else(|| name.into())
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
        // Debian's shell has another option than others.
        set(format!("ulimit -u {processes} 2>/dev/null || ulimit -p {processes}"));
    }
    if let Some(cpu) = limits.cpu {
        set(format!("ulimit -t {}", cpu.as_secs().max(1)));
    }
    commands
}

/// Starts a process.
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
/// A process inherits the flag from the thread that starts it, and a thread cannot reset it: a
/// thread is started for this alone.
fn spawn_bounded(command: &mut Command) -> io::Result<Child> {
    std::thread::scope(|scope| {
        let spawn = || {
            rustix::thread::set_no_new_privs(true)?;
            command.spawn()
        };
        let thread = std::thread::Builder::new().name("spawn".to_owned());
        let spawned = thread.stack_size(SPAWN_STACK_BYTES).spawn_scoped(scope, spawn)?.join();
        spawned.unwrap_or_else(|_| Err(io::Error::other("the thread that starts it panicked")))
    })
}

/// A running process and its process group, which is killed on drop.
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

    /// Lowers weir's limit, which is too high for programs that use `select`. The program may raise
    /// it again. If the system does not allow this for a process of another user, weir's limit
    /// stays.
    fn lower_files(&self) {
        let hard = rustix::process::getrlimit(Resource::Nofile).maximum;
        let limit = Rlimit { current: Some(DEFAULT_OPEN_FILES), maximum: hard };
        let _ = prlimit(self.group(), Resource::Nofile, limit);
    }

    /// Sends a signal to the process group.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(group) = self.group().filter(|_| !self.reaped) {
            // An empty group is no error.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Kills the rest of the process group and reaps the process, which must have exited or been
    /// killed.
    pub(crate) fn reap(&mut self) -> io::Result<ExitStatus> {
        // The id of the group cannot be reused before its first process is reaped.
        self.signal(Signal::KILL);
        let status = self.child.wait();
        self.reaped = true;
        status
    }

    /// Watches for the exit, without reaping the process.
    pub(crate) fn watch(&self) -> io::Result<ExitWatch> {
        let pid = self.group().ok_or(io::ErrorKind::NotFound)?;
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
        Ok(ExitWatch(Receiver::from_file_unchecked(pidfd.into())?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.reap();
        }
    }
}

/// The exit of a process: its pidfd becomes readable. It is no pipe and never read; the runtime has
/// no better type for it.
#[derive(Debug)]
pub(crate) struct ExitWatch(Receiver);

impl ExitWatch {
    /// Waits for the exit.
    pub(crate) async fn wait(&self) {
        if self.0.readable().await.is_err() {
            // The runtime shuts down.
            std::future::pending::<()>().await;
        }
    }
}

/// Terminates a process, and kills it after the timeout.
pub(crate) async fn stop(process: &mut Process, exit: &ExitWatch, timeout: Duration) {
    process.signal(Signal::TERM);
    if tokio::time::timeout(timeout, exit.wait()).await.is_err() {
        process.signal(Signal::KILL);
        exit.wait().await;
    }
}

/// Describes an exit; none if it was successful.
pub(crate) fn failure(status: io::Result<ExitStatus>) -> Option<String> {
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

/// A pipe for the log of a process: its ends for stdout and stderr, and the read end.
pub(crate) fn log_pipe() -> io::Result<(Stdio, Stdio, Receiver)> {
    let (ours, theirs) = io::pipe()?;
    let duplicate = theirs.as_fd().try_clone_to_owned()?;
    let ours = Receiver::from_owned_fd(ours.into())?;
    Ok((OwnedFd::from(theirs).into(), duplicate.into(), ours))
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
