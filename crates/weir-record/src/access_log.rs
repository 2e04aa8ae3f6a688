//! Access log: one line per request, written by a separate thread. Requests never wait for it.

use crate::transaction::Transaction;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir_config::{LogFormat, LogTarget};
use weir_http::problem::Problem;

/// Maximum number of lines in the queue; further lines are dropped and counted.
const WAITING: usize = 16 * 1024;
/// Mode of a new log file; an existing file keeps its mode.
const MODE: u32 = 0o640;
/// Maximum time that a line stays in the writer's buffer.
const PAUSE: Duration = Duration::from_millis(200);

/// Sender of log lines to the writer thread.
#[derive(Debug)]
pub struct AccessLog {
    lines: SyncSender<Vec<u8>>,
    target: Arc<Mutex<LogTarget>>,
    reopen: Arc<AtomicBool>,
}

/// Content of a log line.
pub struct Line<'a> {
    /// The transaction.
    pub transaction: &'a Transaction<'a>,
    /// Time from the end of the request head to the last byte of the response.
    pub duration: Duration,
    /// The response was not sent completely.
    pub aborted: bool,
}

impl AccessLog {
    /// Starts the writer.
    pub fn start(target: LogTarget) -> io::Result<Self> {
        let (lines, receiver) = sync_channel(WAITING);
        let target = Arc::new(Mutex::new(target));
        let reopen = Arc::new(AtomicBool::new(true));
        let writer = Writer {
            receiver,
            target: Arc::clone(&target),
            reopen: Arc::clone(&reopen),
            file: None,
            buffer: Vec::new(),
        };
        std::thread::Builder::new().name("access-log".to_owned()).spawn(move || writer.run())?;
        Ok(Self { lines, target, reopen })
    }

    /// Switches to another target, if `target` differs from the current one.
    pub fn set_target(&self, target: &LogTarget) {
        let mut current = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        if *current != *target {
            *current = target.clone();
            self.reopen.store(true, Relaxed);
        }
    }

    /// Reopens the file before the next line: the file may have been renamed.
    pub fn reopen(&self) {
        self.reopen.store(true, Relaxed);
    }

    /// Queues a line; `false` if the queue is full.
    pub fn write(&self, line: &Line<'_>, format: LogFormat) -> bool {
        self.lines.try_send(line.render(format)).is_ok()
    }
}

/// A log line of a script, as JSON.
#[derive(Serialize)]
struct ScriptLine<'a> {
    time: String,
    id: &'a str,
    script: &'a str,
    level: &'a str,
    message: &'a str,
}

impl AccessLog {
    /// Queues a line of a script; `false` if the queue is full.
    pub fn say(&self, id: &str, script: &str, level: &str, message: &str, json: bool) -> bool {
        let time = jiff::Timestamp::now().to_string();
        let mut line = if json {
            let line = ScriptLine { time, id, script, level, message };
            serde_json::to_vec(&line).unwrap_or_default()
        } else {
            // Always one line, whatever the message contains: no message can imitate another log
            // line.
            let message = message
                .trim_end()
                .escape_debug()
                .to_string()
                .replace("\\\"", "\"")
                .replace("\\'", "'");
            format!("{time} {level} {id} {script}: {message}").into_bytes()
        };
        line.push(b'\n');
        self.lines.try_send(line).is_ok()
    }
}

struct Writer {
    receiver: Receiver<Vec<u8>>,
    target: Arc<Mutex<LogTarget>>,
    reopen: Arc<AtomicBool>,
    /// `None`: standard error.
    file: Option<File>,
    buffer: Vec<u8>,
}

impl Writer {
    fn run(mut self) {
        loop {
            match self.receiver.recv_timeout(PAUSE) {
                Ok(line) => self.buffer.extend_from_slice(&line),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.flush(),
            }
            while self.buffer.len() < 64 * 1024
                && let Ok(line) = self.receiver.try_recv()
            {
                self.buffer.extend_from_slice(&line);
            }
            self.flush();
        }
    }

    /// Lines that cannot be written are lost: a failing log must not stop requests.
    fn flush(&mut self) {
        if self.reopen.swap(false, Relaxed) {
            self.open();
        }
        if !self.buffer.is_empty() {
            let _ = match &mut self.file {
                Some(file) => file.write_all(&self.buffer),
                None => io::stderr().write_all(&self.buffer),
            };
            self.buffer.clear();
        }
    }

    fn open(&mut self) {
        let target = self.target.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.file = match target {
            LogTarget::Stderr => None,
            LogTarget::File(path) => open(&path),
        };
    }
}

/// Opens a log for appending. If that fails, reports the error and falls back to standard error.
fn open(path: &PathBuf) -> Option<File> {
    // Client addresses and paths are readable for this user and group only, whatever the umask.
    match OpenOptions::new().create(true).append(true).mode(MODE).open(path) {
        Ok(file) => Some(file),
        Err(error) => {
            let _ = writeln!(io::stderr(), "access log {}: {error}", path.display());
            None
        }
    }
}

/// The members of a JSON line. Headers and queries are left out: they may contain credentials.
#[derive(Serialize)]
struct Fields<'a> {
    time: String,
    id: &'a str,
    client: String,
    method: &'a str,
    host: &'a str,
    path: &'a str,
    protocol: &'a str,
    status: u16,
    bytes: u64,
    duration_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    api: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    operation: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    consumer: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
    aborted: bool,
}

impl Line<'_> {
    fn render(&self, format: LogFormat) -> Vec<u8> {
        let fields = self.fields();
        let mut line = match format {
            LogFormat::Json => serde_json::to_vec(&fields).unwrap_or_default(),
            LogFormat::Text => fields.text().into_bytes(),
        };
        line.push(b'\n');
        line
    }

    fn fields(&self) -> Fields<'_> {
        let transaction = self.transaction;
        let request = &transaction.request;
        Fields {
            time: jiff::Timestamp::now().to_string(),
            id: transaction.id.as_str(),
            client: request.client.address.to_string(),
            method: request.head.method_name(),
            host: request.host,
            path: request.head.path(),
            protocol: transaction.version,
            status: transaction.response.status,
            bytes: transaction.sent,
            duration_ms: self.duration.as_secs_f64() * 1e3,
            api: request.api.map(|api| api.name.as_str()),
            operation: request.route.map(|route| route.operation.as_str()),
            consumer: request.consumer_name(),
            problem: transaction.problem.map(Problem::slug),
            aborted: self.aborted,
        }
    }
}

impl Fields<'_> {
    fn text(&self) -> String {
        let known = |text: &'_ str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        format!(
            "{} {} {} {} {} HTTP/{} {} {}B {:.3}ms {} {}{}",
            self.time,
            self.client,
            self.id,
            known(self.method),
            known(&format!("{}{}", self.host, self.path)),
            self.protocol,
            self.status,
            self.bytes,
            self.duration_ms,
            self.consumer.unwrap_or("-"),
            self.problem.unwrap_or("-"),
            if self.aborted { " aborted" } else { "" },
        )
    }
}
