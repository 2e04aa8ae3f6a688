//! Writes samples as rows of a results file during a run.

use super::{HEADER, Row};
use crate::program::{Labels, Program};
use crate::record::{Clock, Sink};
use crate::sample::{ErrorKind, Outcome, Sample};
use std::borrow::Cow;
use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows of a core are buffered up to this size.
const BUFFER_BYTES: usize = 64 * 1024;

/// A results file. Each core has its own [`Writer::sink`].
#[derive(Clone)]
pub struct Writer(Arc<Shared>);

struct Shared {
    /// The output, or the first write error.
    target: Mutex<io::Result<Box<dyn Write + Send>>>,
    /// Names that samples refer to.
    labels: Labels,
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
        Ok(Self(Arc::new(Shared {
            target: Mutex::new(Ok(target)),
            labels: program.labels.clone(),
            groups: program.groups.iter().map(|group| group.name.clone()).collect(),
            clock,
        })))
    }

    /// The sink of one core. Buffered rows are written when it is dropped.
    pub fn sink(&self) -> Sink {
        let mut core = Core { shared: self.0.clone(), rows: rows() };
        Box::new(move |sample| core.add(sample))
    }

    /// Reports after the run whether all rows were written.
    ///
    /// # Errors
    /// The first write error, which ends writing.
    pub fn finish(&self) -> io::Result<()> {
        let mut target = self.0.target.lock().unwrap_or_else(PoisonError::into_inner);
        let target = mem::replace(&mut *target, Ok(Box::new(io::sink())));
        target?.flush()
    }
}

/// Unwritten rows of one core.
struct Core {
    shared: Arc<Shared>,
    rows: csv::Writer<Vec<u8>>,
}

/// An empty buffer of rows.
pub(super) fn rows() -> csv::Writer<Vec<u8>> {
    csv::WriterBuilder::new().has_headers(false).from_writer(Vec::with_capacity(BUFFER_BYTES))
}

impl Core {
    fn add(&mut self, sample: &Sample<'_>) {
        // Writing to memory cannot fail.
        let _ = self.rows.serialize(self.shared.row(sample));
        if self.rows.get_ref().len() >= BUFFER_BYTES - 16 * 1024 {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let Ok(rows) = mem::replace(&mut self.rows, rows()).into_inner() else { return };
        self.shared.write(&rows);
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.flush();
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

    fn row<'r>(&'r self, sample: &'r Sample<'_>) -> Row<'r> {
        let name = |names: &'r [String], at: u32| names.get(at as usize).map_or("", String::as_str);
        let group = name(&self.groups, sample.group);
        let (code, message) = match class(sample) {
            Some(class) => (
                format!("Non HTTP response code: {class}"),
                format!("Non HTTP response message: {}", sample.message).into(),
            ),
            None if sample.status == 0 => (String::new(), Cow::Borrowed(sample.message)),
            None => (sample.status.to_string(), Cow::Borrowed(sample.message)),
        };
        let start = self.clock.epoch_millis(sample.start);
        let since = |moment: u64| self.clock.epoch_millis(moment).saturating_sub(start);
        Row {
            time_stamp: start,
            // A transaction without its pauses ends before its last sample.
            elapsed: since(sample.end),
            label: match self.labels.known(sample.label) {
                Some(known) => Cow::Borrowed(known),
                None => Cow::Owned(self.labels.name(sample.label, str::to_owned)),
            },
            code: code.into(),
            message,
            thread: format!("{group} {}-{}", sample.group + 1, sample.user + 1).into(),
            data_type: Cow::Borrowed(data_type(sample.content_type)),
            success: !matches!(sample.outcome, Outcome::Error(_)),
            failure: Cow::Borrowed(sample.check),
            bytes: sample.received,
            sent_bytes: sample.sent,
            group_threads: sample.group_users.into(),
            all_threads: sample.all_users.into(),
            // JMeter writes the missing URL of a transaction so.
            url: Cow::Borrowed(if sample.transaction { "null" } else { sample.url }),
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
