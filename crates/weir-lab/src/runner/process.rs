//! A child process in its own process group, so that Ctrl-C ends the load first, and grandchildren
//! end with it.

use crate::engine::Control;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::{Duration, Instant};

/// Time for a process to exit.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// Interval of checks.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Interval of checks of a process that has just started, so that its start is timed exactly.
const START_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Time of these checks.
const START_POLL_TIME: Duration = Duration::from_millis(500);
/// Largest output of another load generator.
const MAX_OUTPUT_BYTES: u64 = 4 << 20;
/// Bytes of the end of its output in messages about a failed start.
const LOG_TAIL_BYTES: u64 = 600;

/// A running process, which is stopped on drop.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    log: PathBuf,
    /// JSON lines of its standard output, if requested.
    events: Option<Receiver<Value>>,
}

impl Process {
    /// Starts a process. Its output goes to `log`. With `listen`, JSON lines of its standard output
    /// are also events.
    pub(super) fn start(command: &mut Command, log: &Path, listen: bool) -> Result<Self, String> {
        let program = command.get_program().to_string_lossy().into_owned();
        let wrong = |error: std::io::Error| format!("{program}: {error}");
        if let Some(folder) = log.parent() {
            std::fs::create_dir_all(folder).map_err(wrong)?;
        }
        let out = OpenOptions::new().create(true).append(true).open(log).map_err(wrong)?;
        command.stdin(Stdio::null()).process_group(0);
        command.stderr(out.try_clone().map_err(wrong)?);
        if listen {
            command.stdout(Stdio::piped());
        } else {
            command.stdout(out.try_clone().map_err(wrong)?);
        }
        let mut child = command.spawn().map_err(wrong)?;
        let events = child.stdout.take().map(|stdout| listen_to(stdout, out));
        Ok(Self { child, log: log.to_owned(), events })
    }

    /// Process id.
    pub(super) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(0)
    }

    /// Waits for the event with this name.
    pub(super) fn event(
        &mut self,
        name: &str,
        timeout: Duration,
        control: &Control,
    ) -> Result<Value, String> {
        self.until(timeout, control, |process| {
            match process.events.as_ref().map(Receiver::try_recv) {
                Some(Ok(event)) if event["event"] == name => Some(Ok(event)),
                // A process without output is about to exit, or unusable.
                Some(Err(TryRecvError::Disconnected)) => Some(Err("it closed its standard output")),
                _ => None,
            }
        })?
        .map_err(|why| self.with_log_tail(why))
    }

    /// Waits until `ready` returns a value, at most for `patience`.
    pub(super) fn until<T>(
        &mut self,
        timeout: Duration,
        control: &Control,
        mut ready: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, String> {
        let start = Instant::now();
        loop {
            if let Some(found) = ready(self) {
                return Ok(found);
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.with_log_tail(&format!("it exited with {status}")));
            }
            if control.is_stopped() {
                return Err("interrupted".to_owned());
            }
            let waited = start.elapsed();
            if waited >= timeout {
                let seconds = timeout.as_secs_f64();
                return Err(self.with_log_tail(&format!("it was not ready within {seconds} s")));
            }
            let is_new = waited < START_POLL_TIME;
            std::thread::sleep(if is_new { START_POLL_INTERVAL } else { POLL_INTERVAL });
        }
    }

    /// The error, with the end of the process output.
    fn with_log_tail(&self, why: &str) -> String {
        let tail = log_tail(&self.log);
        let log = self.log.display();
        if tail.is_empty() {
            format!("{why}; it printed nothing")
        } else {
            format!("{why}; {log} ends with: {tail}")
        }
    }

    /// Stops the process: SIGTERM, then SIGKILL.
    pub(super) fn stop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::TERM);
            let deadline = Instant::now() + STOP_TIMEOUT;
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        // Child processes may still run.
        self.signal(Signal::KILL);
        // A killed process exits at once.
        let _ = self.child.wait();
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = Pid::from_raw(self.pid()) {
            // The group may have exited.
            let _ = kill_process_group(group, signal);
        }
    }
}

/// Runs a program to its end and returns its output.
pub(super) fn run_to_end(
    mut command: Command,
    timeout: Duration,
    control: &Control,
) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let wrong = |error: std::io::Error| format!("{program}: {error}");
    let output = tempfile().map_err(wrong)?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(wrong)?)
        .stderr(output.try_clone().map_err(wrong)?)
        .process_group(0)
        .spawn()
        .map_err(wrong)?;
    let deadline = Instant::now() + timeout;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(wrong)? {
            break status;
        }
        if control.is_stopped() || Instant::now() >= deadline {
            end_group(&mut child);
            let seconds = timeout.as_secs_f64();
            let why = format!("{program} did not end within {seconds} s");
            return Err(with_tail(&why, &tail(output).unwrap_or_default()));
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    if !status.success() {
        let why = format!("{program} ended with {status}");
        return Err(with_tail(&why, &tail(output).unwrap_or_default()));
    }
    let mut bytes = Vec::new();
    let mut output = output;
    output.seek(SeekFrom::Start(0)).map_err(wrong)?;
    output.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes).map_err(wrong)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Kills a program and the programs that it has started.
fn end_group(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // The program may have ended in the meantime.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

/// A message with the end of an output.
fn with_tail(why: &str, tail: &str) -> String {
    match tail {
        "" => format!("{why}; it printed nothing"),
        tail => format!("{why}; its output ends with: {tail}"),
    }
}

/// A file in memory.
fn tempfile() -> std::io::Result<File> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    Ok(File::from(rustix::fs::memfd_create("output", flags)?))
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Copies standard output into the log and returns its JSON lines.
fn listen_to(stdout: std::process::ChildStdout, mut log: File) -> Receiver<Value> {
    let (sender, events) = channel();
    // The thread ends with the process.
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            let _ = writeln!(log, "{line}");
            if let Ok(event @ Value::Object(_)) = serde_json::from_str(&line) {
                // The receiver is gone once the process is ready.
                let _ = sender.send(event);
            }
        }
    });
    events
}

/// The last lines of a log, joined.
fn log_tail(path: &Path) -> String {
    File::open(path).and_then(tail).unwrap_or_default()
}

/// The last lines of a file, joined.
fn tail(mut file: File) -> std::io::Result<String> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(LOG_TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.split('\n').map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.collect::<Vec<_>>().join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, log: &Path) -> Process {
        Process::start(Command::new("sh").args(["-c", script]), log, true).unwrap()
    }

    #[test]
    fn an_event_is_waited_for_and_everything_ends() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("deep/log");
        let script = r#"echo noise; echo '{"event":"other"}'; sleep 60 & echo "{\"event\":\"ready\",\"of\":$!}"; wait"#;
        let mut process = shell(script, &log);
        let timeout = Duration::from_secs(30);
        let event = process.event("ready", timeout, &Control::default()).unwrap();
        let started = event["of"].as_i64().and_then(|pid| i32::try_from(pid).ok()).unwrap();
        drop(process);
        // The end of the process may not have been collected yet.
        let runs = |pid| {
            let stat = procfs::process::Process::new(pid).and_then(|process| process.stat());
            stat.is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
        };
        let start = Instant::now();
        while runs(started) {
            assert!(start.elapsed() < timeout, "what it started still runs");
            std::thread::sleep(POLL_INTERVAL);
        }
        assert!(std::fs::read_to_string(&log).unwrap().starts_with("noise\n"));
    }

    #[test]
    fn a_command_that_fails_or_does_not_end_has_its_output_as_the_reason() {
        let run = |script: &str, timeout| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            run_to_end(command, timeout, &Control::default())
        };
        let long = Duration::from_secs(30);
        assert_eq!(run("echo well", long), Ok("well\n".to_owned()));
        let why = run("echo first; echo no such curve >&2; exit 3", long).unwrap_err();
        assert!(why.contains("exit status: 3") && why.contains("first | no such curve"), "{why}");
        let why = run("echo slow; sleep 60", Duration::from_millis(100)).unwrap_err();
        assert_eq!(why, "sh did not end within 0.1 s; its output ends with: slow");
        assert!(run("exit 1", long).unwrap_err().ends_with("it printed nothing"));
    }

    #[test]
    fn a_failed_start_has_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let (timeout, control) = (Duration::from_secs(30), Control::default());
        let why = shell("echo no such thing >&2; exit 7", &log).event("ready", timeout, &control);
        let why = why.unwrap_err();
        assert!(why.contains("no such thing"), "{why}");
        let quick = Duration::from_millis(50);
        let why = shell("exec sleep 60", &folder.path().join("2")).event("ready", quick, &control);
        assert_eq!(why.unwrap_err(), "it was not ready within 0.05 s; it printed nothing");
        let missing = Process::start(&mut Command::new("/no/such/program"), &log, false);
        assert!(missing.unwrap_err().contains("/no/such/program"));
    }
}
