//! Who ends agents when weir cannot: a shell that is told of each of them, and ends those that are
//! left when nobody tells it anything any more.
//!
//! The system ends a process with its parent only if it has asked for that before it became another
//! program, which takes code between the two that Rust does not let be safe.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

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

/// The shell.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
    words: Mutex<Option<ChildStdin>>,
}

impl Guard {
    pub(crate) fn start() -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT]).env_clear().env("PATH", "/usr/bin:/bin").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn()?;
        let words = Mutex::new(child.stdin.take());
        Ok(Self { child, words })
    }

    /// From now on ends this group with weir.
    pub(crate) fn watch(&self, group: u32) {
        self.say('+', group);
    }

    /// This group is no more.
    pub(crate) fn forget(&self, group: u32) {
        self.say('-', group);
    }

    fn say(&self, what: char, group: u32) {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(words) = words.as_mut() {
            // Somebody has ended it: agents are then found by the next start.
            let _ = writeln!(words, "{what} {group}");
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        *self.words.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

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
