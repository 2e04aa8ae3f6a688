//! The process of the helper.

use super::frame::{self, Call, MAX_FRAME_BYTES, Outcome, Reply};
use crate::program::{ScriptId, Scripts};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};

/// The program of the helper.
const PROGRAM: &str = include_str!("helper.groovy");
/// Reads that program, so that it is not on the command line.
const LOADER: &str = "def d = new DataInputStream(new BufferedInputStream(System.in)); \
    def s = new byte[d.readInt()]; d.readFully(s); \
    def b = new Binding(); b.setVariable('frames', d); \
    new GroovyShell(getClass().classLoader, b).evaluate(new String(s, 'UTF-8'), 'helper.groovy')";
/// One context of the log for all class loaders.
const LOGGING: &str =
    "-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.BasicContextSelector";
/// Longest start of the helper.
const START_TIME: Duration = Duration::from_secs(120);
/// Longest run of a script.
const SCRIPT_TIME: Duration = Duration::from_secs(300);
/// Number of the user that evaluates functions before the run.
const NO_USER: u32 = u32::MAX;
/// Most scripts that run at the same time.
const MAX_CALLS: usize = 256;
/// Most bytes of what scripts log and print.
const MAX_LOG_BYTES: usize = 16 << 20;

/// A running helper. It ends with this value.
pub struct Helper {
    frames: Sender<Vec<u8>>,
    shared: Arc<Shared>,
    permits: Semaphore,
    next: AtomicU64,
    child: Mutex<Child>,
}

#[derive(Default)]
struct Shared {
    waiting: Mutex<HashMap<u64, oneshot::Sender<Vec<u8>>>>,
    /// Why the helper has ended.
    ended: OnceLock<String>,
    /// The last line of its log.
    last_line: Mutex<String>,
}

impl Helper {
    /// Process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        i32::try_from(child.id()).unwrap_or(0)
    }

    /// Starts a helper for a plan, and waits until it is ready.
    ///
    /// # Errors
    /// Java cannot be started, or the helper ends.
    pub(crate) fn start(
        scripts: &Scripts,
        properties: &[(String, String)],
    ) -> Result<Self, String> {
        let home = &scripts.installation.home;
        let java = java();
        let mut command = Command::new(&java);
        let jars = ["bin/ApacheJMeter.jar", "lib/*", "lib/ext/*"].map(|part| home.join(part));
        let jars = jars.iter().chain(&scripts.class_path);
        let jars: Vec<String> = jars.map(|part| part.to_string_lossy().into_owned()).collect();
        let jars = jars.join(":");
        command.args(["-Djava.awt.headless=true", "-XX:+UseSerialGC", LOGGING, "-cp", &jars]);
        command.args(["groovy.ui.GroovyMain", "-e", LOADER]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Relative files of scripts are beside the plan.
        if let Some(folder) = scripts.plan.parent().filter(|folder| folder.is_dir()) {
            command.current_dir(folder);
        }
        let failed = |error: &dyn std::fmt::Display| {
            format!("the helper JVM for scripts cannot be started by {}: {error}", java.display())
        };
        let mut child = command.spawn().map_err(|error| failed(&error))?;
        let (Some(input), Some(output), Some(errors)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(failed(&"it has no pipes"));
        };
        let shared = Arc::new(Shared::default());
        let (frames, queue) = channel();
        let log = scripts.log.as_deref().map(File::create).transpose();
        let log = log.map_err(|error| failed(&error))?;
        let thread = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
        };
        let (reading, logging) = (shared.clone(), shared.clone());
        thread("scripts-write", Box::new(move || write(&queue, input)))
            .and_then(|()| thread("scripts-read", Box::new(move || reading.read(output))))
            .and_then(|()| thread("scripts-log", Box::new(move || logging.log(errors, log))))
            .map_err(|error| failed(&error))?;
        let helper = Self {
            frames,
            shared,
            permits: Semaphore::new(MAX_CALLS),
            next: AtomicU64::new(1),
            child: Mutex::new(child),
        };
        helper.introduce(scripts, properties)?;
        Ok(helper)
    }

    /// Sends the program and the elements of the plan.
    fn introduce(&self, scripts: &Scripts, properties: &[(String, String)]) -> Result<(), String> {
        let (sender, mut ready) = oneshot::channel();
        self.shared.waiting().insert(0, sender);
        let mut program = (PROGRAM.len() as u32).to_be_bytes().to_vec();
        program.extend_from_slice(PROGRAM.as_bytes());
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let (home, plan) = (text(&scripts.installation.home), text(&scripts.plan));
        let mut frames = vec![program, frame::start(&home, &plan, properties)];
        let elements = (0..).zip(&scripts.elements);
        frames.extend(elements.map(|(number, element)| frame::define(number, element)));
        for frame in frames {
            // If the queue has ended, the reply is missing, too.
            let _ = self.frames.send(frame);
        }
        let start = std::time::Instant::now();
        while start.elapsed() < START_TIME {
            match ready.try_recv() {
                Ok(_) => return Ok(()),
                Err(oneshot::error::TryRecvError::Closed) => return Err(self.ended()),
                Err(oneshot::error::TryRecvError::Empty) => {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
        Err(format!("the helper JVM for scripts was not ready within {START_TIME:?}"))
    }

    /// Runs a script.
    ///
    /// # Errors
    /// The helper has ended or failed, or the script takes too long.
    pub(crate) async fn call(&self, call: &Call<'_>) -> Result<Reply, String> {
        let Ok(_permit) = self.permits.acquire().await else { return Err(self.ended()) };
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, reply) = oneshot::channel();
        {
            let mut waiting = self.shared.waiting();
            if self.shared.ended.get().is_some() {
                return Err(self.ended());
            }
            waiting.insert(id, sender);
        }
        if self.frames.send(call.encode(id)).is_err() {
            return Err(self.ended());
        }
        match tokio::time::timeout(SCRIPT_TIME, reply).await {
            Ok(Ok(frame)) => frame::reply(&frame)
                .map_err(|error| format!("the helper JVM for scripts failed: {error}")),
            Ok(Err(_)) => Err(self.ended()),
            Err(_) => Err(format!("a script has run for more than {SCRIPT_TIME:?}")),
        }
    }

    /// Evaluates a function before there are users, with these variables.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub(crate) fn function(
        &self,
        script: ScriptId,
        variables: &[(String, Option<String>)],
    ) -> Result<String, String> {
        let call = Call {
            user: NO_USER,
            script: script.0,
            sampler: None,
            is_fresh: false,
            describes: false,
            thread: ("StandardJMeterEngine", 0, ""),
            iteration: 0,
            variables,
            properties: &[],
            previous: None,
            parent: None,
        };
        // The thread of the caller may have a runtime.
        let reply = std::thread::scope(|scope| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
            let run = || runtime.map_err(|e| e.to_string())?.block_on(self.call(&call));
            scope.spawn(run).join().unwrap_or_else(|_| Err("a thread panicked".to_owned()))
        })?;
        match reply.outcome {
            Outcome::Text(text) => Ok(text),
            _ => Ok(String::new()),
        }
    }

    /// Forgets a user.
    pub(crate) fn forget(&self, user: u32) {
        let _ = self.frames.send(frame::forget(user));
    }

    fn ended(&self) -> String {
        let why = self.shared.ended.get().map_or("it has ended", String::as_str);
        let last = self.shared.last_line.lock().unwrap_or_else(PoisonError::into_inner);
        let last = if last.is_empty() { String::new() } else { format!("; its last line: {last}") };
        format!("the helper JVM for scripts ended during the run: {why}{last}")
    }
}

impl std::fmt::Debug for Helper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Helper").finish_non_exhaustive()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        // It may have ended.
        let _ = child.kill();
        let _ = child.wait();
    }
}

impl Shared {
    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<u64, oneshot::Sender<Vec<u8>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands replies to those who wait for them. At the end, nobody waits any more.
    fn read(&self, output: impl Read) {
        let mut output = BufReader::with_capacity(64 * 1024, output);
        let why = loop {
            let mut length = [0; 4];
            if output.read_exact(&mut length).is_err() {
                break "it has closed its output";
            }
            let length = u32::from_be_bytes(length) as usize;
            if length > MAX_FRAME_BYTES {
                break "a reply is too large";
            }
            let mut frame = vec![0; length];
            if output.read_exact(&mut frame).is_err() {
                break "a reply is incomplete";
            }
            let waits = frame::call_of(&frame).and_then(|call| self.waiting().remove(&call));
            if let Some(waits) = waits {
                // A user that was aborted does not wait.
                let _ = waits.send(frame);
            }
        };
        let mut waiting = self.waiting();
        let _ = self.ended.set(why.to_owned());
        waiting.clear();
    }

    /// Keeps what scripts log and print, up to a limit.
    fn log(&self, errors: impl Read, mut file: Option<File>) {
        let (mut left, mut line) = (MAX_LOG_BYTES, Vec::new());
        let mut errors = BufReader::new(errors).take(u64::MAX);
        loop {
            line.clear();
            errors.set_limit(64 * 1024);
            if !errors.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                return;
            }
            let text = String::from_utf8_lossy(&line).trim_end().to_owned();
            *self.last_line.lock().unwrap_or_else(PoisonError::into_inner) = text;
            if line.len() > left {
                left = 0;
            }
            left = left.saturating_sub(line.len());
            if left > 0 {
                // A log that cannot be written does not end the run.
                let _ = match &mut file {
                    Some(file) => file.write_all(&line),
                    None => std::io::stderr().write_all(&line),
                };
            }
        }
    }
}

/// Writes all frames that wait at once.
fn write(queue: &Receiver<Vec<u8>>, mut input: impl Write) {
    while let Ok(mut frames) = queue.recv() {
        while let Ok(more) = queue.try_recv() {
            frames.extend_from_slice(&more);
        }
        if input.write_all(&frames).and_then(|()| input.flush()).is_err() {
            return;
        }
    }
}

/// Java of `JAVA_HOME`, or of the path.
fn java() -> PathBuf {
    let of_home = std::env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin/java"));
    of_home.filter(|java| java.exists()).unwrap_or_else(|| PathBuf::from("java"))
}
