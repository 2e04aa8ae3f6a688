//! Other processes that use the cores.

use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Processes that take every core, until dropped. These are no descendants of the test, whose process is the server:
/// what a server starts counts as its own.
pub(super) struct Busy(Vec<Pid>);

impl Busy {
    pub(super) fn start() -> Self {
        let cores = std::thread::available_parallelism().unwrap().get();
        let busy = || {
            let script = "while :; do :; done >/dev/null 2>&1 & echo $!";
            let shell = Command::new("sh").args(["-c", script]).process_group(0).output().unwrap();
            let pid = String::from_utf8(shell.stdout).unwrap().trim().parse().unwrap();
            Pid::from_raw(pid).unwrap()
        };
        Self((0..4 * cores).map(|_| busy()).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for pid in &self.0 {
            let _ = kill_process(*pid, Signal::KILL);
        }
    }
}
