//! The folder of agents' sockets. From it the next start of weir finds agents that are left over.
//!
//! `DATA/agents/PID` has mode 0700. For each agent it contains the socket, and a file with the
//! agent's process id and start time, which distinguishes it from a later process with the same id.
//! A folder without a running weir is found by the next start, which kills the agents in it that
//! still run.

use crate::watchdog::Watchdog;
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Longest path of a unix socket (`sun_path` without its terminator).
const MAX_SOCKET_PATH_BYTES: usize = 107;
/// Longest file name in the folder.
const MAX_NAME_BYTES: usize = 32;
/// The file that identifies the process of the folder.
const OWNER_FILE: &str = "weir.pid";

/// The folder of this process; removed on drop.
#[derive(Debug)]
pub(crate) struct RuntimeFolder {
    path: PathBuf,
    /// Folder of the sockets, if `path` is too long for them.
    sockets: Option<PathBuf>,
    watchdog: Watchdog,
}

impl RuntimeFolder {
    /// Creates the folder, and kills agents of earlier processes.
    pub(crate) fn open(data: &Path) -> io::Result<Self> {
        let all = std::path::absolute(data)?.join("agents");
        private().recursive(true).create(&all)?;
        remove_orphans(&all);
        let own = std::process::id();
        let path = all.join(own.to_string());
        // A leftover of an earlier process with this id.
        let _ = fs::remove_dir_all(&path);
        private().create(&path)?;
        fs::write(path.join(OWNER_FILE), identity(own))?;
        let sockets = if path.as_os_str().as_bytes().len() + 1 + MAX_NAME_BYTES
            > MAX_SOCKET_PATH_BYTES
        {
            let short = std::env::temp_dir().join(format!("weir-{own}-{:08x}", fastrand::u32(..)));
            private().create(&short)?;
            Some(short)
        } else {
            None
        };
        Ok(Self { path, sockets, watchdog: Watchdog::start()? })
    }

    /// Path of an agent's socket.
    pub(crate) fn socket(&self, agent: u64) -> PathBuf {
        self.sockets.as_ref().unwrap_or(&self.path).join(format!("{agent}.sock"))
    }

    /// Registers an agent.
    pub(crate) fn register(&self, agent: u64, pid: u32) -> io::Result<()> {
        self.watchdog.add(pid);
        fs::write(self.file(agent), identity(pid))
    }

    /// Restarts the watchdog if it has ended; returns a log line then.
    pub(crate) fn restart_watchdog(&self) -> Option<String> {
        self.watchdog.restart_if_ended()
    }

    /// Unregisters the process of an agent.
    pub(crate) fn unregister(&self, pid: u32) {
        self.watchdog.remove(pid);
    }

    /// Removes the files of an agent.
    pub(crate) fn remove(&self, agent: u64) {
        let _ = fs::remove_file(self.socket(agent));
        let _ = fs::remove_file(self.file(agent));
    }

    fn file(&self, agent: u64) -> PathBuf {
        self.path.join(format!("{agent}.pid"))
    }
}

impl Drop for RuntimeFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
        if let Some(sockets) = &self.sockets {
            let _ = fs::remove_dir_all(sockets);
        }
    }
}

fn private() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

/// A process id and the start time of that process.
fn identity(pid: u32) -> String {
    format!("{pid} {}", started(pid).unwrap_or_default())
}

/// Start time of a process in ticks since boot: field 22 of `/proc/PID/stat`, counted after the
/// name, which may contain blanks and parentheses.
fn started(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let behind = stat.rsplit_once(')')?.1;
    behind.split_whitespace().nth(19).map(str::to_owned)
}

/// The process that a file names, if it still runs.
fn running(file: &Path) -> Option<u32> {
    let text = fs::read_to_string(file).ok()?;
    let pid = text.split_whitespace().next()?.parse().ok()?;
    (!text.ends_with(' ') && text == identity(pid)).then_some(pid)
}

fn remove_orphans(all: &Path) {
    for folder in fs::read_dir(all).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if running(&folder.join(OWNER_FILE)).is_some() {
            continue;
        }
        for file in fs::read_dir(&folder).into_iter().flatten().flatten().map(|e| e.path()) {
            if file.extension().is_some_and(|extension| extension == "pid")
                && let Some(pid) = running(&file)
                && let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw)
            {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
        let _ = fs::remove_dir_all(&folder);
    }
}

/// Resident memory of a process in bytes (`VmRSS`).
pub(crate) fn resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
    use std::process::Command;

    #[test]
    fn the_folder_is_nobody_elses_and_goes_with_its_owner() {
        let data = tempfile::tempdir().unwrap();
        let folder = RuntimeFolder::open(data.path()).unwrap();
        let path = folder.path.clone();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(folder.socket(u64::MAX).as_os_str().len() <= MAX_SOCKET_PATH_BYTES);
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn a_path_that_is_too_long_is_not_where_sockets_are() {
        let data = tempfile::tempdir().unwrap();
        let folder = RuntimeFolder::open(&data.path().join("x".repeat(150))).unwrap();
        let socket = folder.socket(1);
        assert!(socket.as_os_str().len() <= MAX_SOCKET_PATH_BYTES);
        let mode = fs::metadata(socket.parent().unwrap()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(folder);
        assert!(!socket.parent().unwrap().exists());
    }

    #[test]
    fn what_an_earlier_weir_has_left_is_ended_and_nothing_else() {
        let data = tempfile::tempdir().unwrap();
        let sleeper = || Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let (mut left, mut other) = (sleeper(), sleeper());
        let old = data.path().join("agents/1000000000");
        fs::create_dir_all(&old).unwrap();
        fs::write(old.join(OWNER_FILE), "1000000000 5").unwrap();
        fs::write(old.join("1.pid"), identity(left.id())).unwrap();
        // The id belongs to another process now.
        fs::write(old.join("2.pid"), format!("{} 5", other.id())).unwrap();
        let folder = RuntimeFolder::open(data.path()).unwrap();
        assert_eq!(left.wait().unwrap().signal(), Some(9));
        assert!(other.try_wait().unwrap().is_none());
        assert!(!old.exists());
        remove_orphans(&data.path().join("agents"));
        assert!(folder.path.exists(), "one that is in use stays");
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
