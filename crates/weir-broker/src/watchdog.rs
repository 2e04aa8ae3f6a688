//! Kills agents if weir is killed: a shell that knows the process groups of all agents, and kills
//! those that are left when its standard input ends.
//!
//! The system ends a process with its parent only if the process requests that between fork and
//! exec, which safe Rust cannot do.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Adds groups with `+` and removes them with `-`.
const SCRIPT: &str = r#"
groups=" "
while read -r what group; do
  case $what in
    +) groups="$groups$group " ;;
    -) groups="${groups%% $group *} ${groups#* $group }" ;;
  esac
done
for group in $groups; do kill -9 -"$group" 2>/dev/null; done
"#;

/// The shell and its state.
#[derive(Debug)]
pub(crate) struct Watchdog(Mutex<Shell>);

#[derive(Debug)]
struct Shell {
    child: Child,
    stdin: Option<ChildStdin>,
    /// The groups, for a new shell.
    groups: BTreeSet<u32>,
}

impl Watchdog {
    pub(crate) fn start() -> io::Result<Self> {
        let (child, stdin) = start_shell()?;
        Ok(Self(Mutex::new(Shell { child, stdin, groups: BTreeSet::new() })))
    }

    /// Kills this group if weir ends.
    pub(crate) fn add(&self, group: u32) {
        let mut shell = self.lock();
        shell.groups.insert(group);
        shell.write('+', group);
    }

    /// Removes a group that has ended.
    pub(crate) fn remove(&self, group: u32) {
        let mut shell = self.lock();
        shell.groups.remove(&group);
        shell.write('-', group);
    }

    /// Starts another shell if the current one has ended; returns a log line then.
    pub(crate) fn restart_if_ended(&self) -> Option<String> {
        let mut shell = self.lock();
        // Reaps the old shell.
        let status = shell.child.try_wait().ok().flatten()?;
        let restarted = start_shell().map(|(child, stdin)| {
            (shell.child, shell.stdin) = (child, stdin);
            let groups: Vec<u32> = shell.groups.iter().copied().collect();
            groups.into_iter().for_each(|group| shell.write('+', group));
        });
        Some(match restarted {
            Ok(()) => format!("the watchdog of agents has ended ({status}) and was started again"),
            Err(error) => format!("the watchdog of agents has ended ({status}): {error}"),
        })
    }

    /// Process id of the shell.
    #[cfg(test)]
    fn pid(&self) -> u32 {
        self.lock().child.id()
    }

    fn lock(&self) -> MutexGuard<'_, Shell> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start_shell() -> io::Result<(Child, Option<ChildStdin>)> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", SCRIPT]).env_clear().env("PATH", "/usr/bin:/bin").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let stdin = child.stdin.take();
    Ok((child, stdin))
}

impl Shell {
    fn write(&mut self, command: char, group: u32) {
        if let Some(stdin) = self.stdin.as_mut() {
            // If the shell was killed, the next one gets all groups.
            let _ = writeln!(stdin, "{command} {group}");
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    #[test]
    fn another_one_takes_the_place_of_one_that_was_killed_and_knows_what_it_knew() {
        let sleeper = || Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let mut sleepers = [sleeper(), sleeper()];
        let watchdog = Watchdog::start().unwrap();
        sleepers.iter().for_each(|sleeper| watchdog.add(sleeper.id()));
        watchdog.remove(sleepers[1].id());
        assert_eq!(watchdog.restart_if_ended(), None);
        let first = watchdog.pid();
        let pid = rustix::process::Pid::from_raw(first as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let line = loop {
            if let Some(line) = watchdog.restart_if_ended() {
                break line;
            }
            std::thread::yield_now();
        };
        assert!(line.contains("signal: 9"), "{line}");
        assert_ne!(watchdog.pid(), first);
        drop(watchdog);
        assert_eq!(sleepers[0].wait().unwrap().signal(), Some(9));
        assert!(sleepers[1].try_wait().unwrap().is_none());
        sleepers[1].kill().unwrap();
        sleepers[1].wait().unwrap();
    }

    #[test]
    fn what_is_left_is_ended_and_what_was_forgotten_is_not() {
        let sleeper = || Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let mut sleepers = [sleeper(), sleeper(), sleeper()];
        let watchdog = Watchdog::start().unwrap();
        sleepers.iter().for_each(|sleeper| watchdog.add(sleeper.id()));
        watchdog.remove(sleepers[1].id());
        drop(watchdog);
        for at in [0, 2] {
            assert_eq!(sleepers[at].wait().unwrap().signal(), Some(9));
        }
        assert!(sleepers[1].try_wait().unwrap().is_none());
        sleepers[1].kill().unwrap();
        sleepers[1].wait().unwrap();
    }
}
