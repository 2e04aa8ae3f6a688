//! Writes samples as rows of a results file during a run.

use super::{HEADER, Row};
use crate::program::Program;
use crate::record::{Clock, Sink};
use crate::sample::{ErrorKind, Outcome, Sample};
use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// Rows of a core are buffered up to this size.
const BUFFER_BYTES: usize = 64 * 1024;

/// A results file. Each core has its own [`Writer::sink`].
#[derive(Clone)]
pub struct Writer {
    shared: Arc<Shared>,
    names: Arc<Names>,
}

struct Shared {
    /// The output; `None` after a write error.
    target: Mutex<Result<Box<dyn Write + Send>, io::Error>>,
}

/// Names that samples refer to.
struct Names {
    labels: Vec<String>,
    groups: Vec<String>,
    clock: Clock,
}

impl Writer {
    /// Writes the first line.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(
        mut target: Box<dyn Write + Send>,
        program: &Program,
        clock: Clock,
    ) -> io::Result<Self> {
        target.write_all(HEADER.as_bytes())?;
        let names = Names {
            labels: program.labels.clone(),
            groups: program.groups.iter().map(|group| group.name.clone()).collect(),
            clock,
        };
        let shared = Shared { target: Mutex::new(Ok(target)) };
        Ok(Self { shared: Arc::new(shared), names: Arc::new(names) })
    }

    /// The sink of one core. Buffered rows are written when it is dropped.
    pub fn sink(&self) -> Sink {
        let mut core = Core {
            shared: self.shared.clone(),
            names: self.names.clone(),
            rows: Vec::with_capacity(BUFFER_BYTES),
            texts: Texts::default(),
        };
        Box::new(move |sample| core.add(sample))
    }

    /// Reports after the run whether all rows were written.
    ///
    /// # Errors
    /// The first write error, which ends writing.
    pub fn finish(&self) -> io::Result<()> {
        let mut target = self.shared.target.lock().unwrap_or_else(PoisonError::into_inner);
        let target = std::mem::replace(&mut *target, Ok(Box::new(io::sink())));
        target?.flush()
    }
}

impl Shared {
    fn write(&self, rows: &[u8]) {
        let mut target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(open) = &mut *target
            && let Err(error) = open.write_all(rows)
        {
            *target = Err(error);
        }
    }
}

/// Unwritten rows of one core.
struct Core {
    shared: Arc<Shared>,
    names: Arc<Names>,
    rows: Vec<u8>,
    texts: Texts,
}

/// Reused memory for the texts of a row.
#[derive(Default)]
struct Texts {
    thread: String,
    code: String,
    message: String,
}

impl Core {
    fn add(&mut self, sample: &Sample<'_>) {
        self.names.row(sample, &mut self.texts).write(&mut self.rows);
        if self.rows.len() >= BUFFER_BYTES - 4096 {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.shared.write(&self.rows);
        self.rows.clear();
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Names {
    fn row<'r>(&'r self, sample: &'r Sample<'_>, texts: &'r mut Texts) -> Row<'r> {
        let name = |names: &'r [String], at: u32| names.get(at as usize).map_or("", String::as_str);
        let group = name(&self.groups, sample.group);
        texts.thread.clear();
        texts.code.clear();
        texts.message.clear();
        // Writing to a string cannot fail.
        let _ = write!(texts.thread, "{group} {}-{}", sample.group + 1, sample.user + 1);
        let _ = match class(sample) {
            Some(class) => {
                let _ = write!(texts.message, "Non HTTP response message: {}", sample.message);
                write!(texts.code, "Non HTTP response code: {class}")
            }
            None if sample.status == 0 => Ok(()),
            None => write!(texts.code, "{}", sample.status),
        };
        let message = if texts.message.is_empty() { sample.message } else { &texts.message };
        let start = self.clock.epoch_millis(sample.start);
        let since = |moment: u64| self.clock.epoch_millis(moment).saturating_sub(start);
        Row {
            time_stamp: start,
            // A transaction without its pauses ends before its last sample.
            elapsed: since(sample.end),
            label: Cow::Borrowed(name(&self.labels, sample.label.0)),
            code: Cow::Borrowed(&texts.code),
            message: Cow::Borrowed(message),
            thread: Cow::Borrowed(&texts.thread),
            data_type: Cow::Borrowed(data_type(sample.content_type)),
            success: !matches!(sample.outcome, Outcome::Error(_)),
            failure: Cow::Borrowed(sample.check),
            bytes: sample.received,
            sent_bytes: sample.sent,
            group_threads: sample.group_users,
            all_threads: sample.all_users,
            url: Cow::Borrowed(sample.url),
            latency: since(sample.first_byte),
            idle: sample.idle / 1_000_000,
            connect: sample.connect / 1_000_000,
        }
    }
}

/// The corresponding Java exception of a sample without a response.
fn class(sample: &Sample<'_>) -> Option<&'static str> {
    let Outcome::Error(kind) = sample.outcome else { return None };
    if sample.status != 0 || sample.transaction {
        return None;
    }
    Some(match kind {
        ErrorKind::Refused => "org.apache.http.conn.HttpHostConnectException",
        ErrorKind::Reset => "java.net.SocketException",
        ErrorKind::Closed => "org.apache.http.NoHttpResponseException",
        ErrorKind::ConnectTimeout => "org.apache.http.conn.ConnectTimeoutException",
        ErrorKind::Timeout => "java.net.SocketTimeoutException",
        ErrorKind::Resolve => "java.net.UnknownHostException",
        ErrorKind::Tls => "javax.net.ssl.SSLException",
        ErrorKind::Request => "java.net.URISyntaxException",
        ErrorKind::Protocol => "org.apache.http.ProtocolException",
        _ => "java.io.IOException",
    })
}

/// `text` or `bin` as in JMeter; empty without a content type.
fn data_type(content_type: &str) -> &'static str {
    const BINARY: [&str; 5] =
        ["image/", "audio/", "video/", "application/octet-stream", "application/pdf"];
    match content_type {
        "" => "",
        known if BINARY.iter().any(|start| known.starts_with(start)) => "bin",
        _ => "text",
    }
}
