//! Who ends agents when weir cannot: a shell that is told of each of them, and ends those that are
//! left when nobody tells it anything any more.
//!
//! The system ends a process with its parent only if it has asked for that before it became another
//! program, which takes code between the two that Rust does not let be safe.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Keeps the groups it is told of by `+`, forgets those it is told of by `-`.
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

/// The shell, and what it knows.
#[derive(Debug)]
pub(crate) struct Guard(Mutex<Watchdog>);

#[derive(Debug)]
struct Watchdog {
    child: Child,
    words: Option<ChildStdin>,
    /// What another one has to be told.
    groups: BTreeSet<u32>,
}

impl Guard {
    pub(crate) fn start() -> io::Result<Self> {
        let (child, words) = shell()?;
        Ok(Self(Mutex::new(Watchdog { child, words, groups: BTreeSet::new() })))
    }

    /// From now on ends this group with weir.
    pub(crate) fn watch(&self, group: u32) {
        let mut watchdog = self.lock();
        watchdog.groups.insert(group);
        watchdog.say('+', group);
    }

    /// This group is no more.
    pub(crate) fn forget(&self, group: u32) {
        let mut watchdog = self.lock();
        watchdog.groups.remove(&group);
        watchdog.say('-', group);
    }

    /// Puts another shell in place of one that has ended, and says how that did.
    pub(crate) fn tend(&self) -> Option<String> {
        let mut watchdog = self.lock();
        // Reaped here, it is no zombie.
        let status = watchdog.child.try_wait().ok().flatten()?;
        let again = shell().map(|(child, words)| {
            (watchdog.child, watchdog.words) = (child, words);
            let groups: Vec<u32> = watchdog.groups.iter().copied().collect();
            groups.into_iter().for_each(|group| watchdog.say('+', group));
        });
        Some(match again {
            Ok(()) => format!("the watchdog of agents has ended ({status}) and was started again"),
            Err(error) => format!("the watchdog of agents has ended ({status}): {error}"),
        })
    }

    /// Its process.
    #[cfg(test)]
    fn pid(&self) -> u32 {
        self.lock().child.id()
    }

    fn lock(&self) -> MutexGuard<'_, Watchdog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shell() -> io::Result<(Child, Option<ChildStdin>)> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", SCRIPT]).env_clear().env("PATH", "/usr/bin:/bin").process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let words = child.stdin.take();
    Ok((child, words))
}

impl Watchdog {
    fn say(&mut self, what: char, group: u32) {
        if let Some(words) = self.words.as_mut() {
            // Somebody has ended it: another one is told of all groups.
            let _ = writeln!(words, "{what} {group}");
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.words = None;
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
        let guard = Guard::start().unwrap();
        sleepers.iter().for_each(|sleeper| guard.watch(sleeper.id()));
        guard.forget(sleepers[1].id());
        assert_eq!(guard.tend(), None);
        let first = guard.pid();
        let pid = rustix::process::Pid::from_raw(first as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let line = loop {
            if let Some(line) = guard.tend() {
                break line;
            }
            std::thread::yield_now();
        };
        assert!(line.contains("signal: 9"), "{line}");
        assert_ne!(guard.pid(), first);
        drop(guard);
        assert_eq!(sleepers[0].wait().unwrap().signal(), Some(9));
        assert!(sleepers[1].try_wait().unwrap().is_none());
        sleepers[1].kill().unwrap();
        sleepers[1].wait().unwrap();
    }

    #[test]
    fn what_is_left_is_ended_and_what_was_forgotten_is_not() {
        let sleeper = || Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let mut sleepers = [sleeper(), sleeper(), sleeper()];
        let guard = Guard::start().unwrap();
        sleepers.iter().for_each(|sleeper| guard.watch(sleeper.id()));
        guard.forget(sleepers[1].id());
        drop(guard);
        for at in [0, 2] {
            assert_eq!(sleepers[at].wait().unwrap().signal(), Some(9));
        }
        assert!(sleepers[1].try_wait().unwrap().is_none());
        sleepers[1].kill().unwrap();
        sleepers[1].wait().unwrap();
    }
}
