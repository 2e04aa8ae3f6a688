//! Reads results of JMeter or weir: any subset of the columns in any order, separated by `,`, `;`,
//! `|` or a tab.

use super::Row;
use std::borrow::Cow;
use std::io::{self, BufRead};

/// Largest record, in bytes: a limit for files without line ends.
const MAX_RECORD_BYTES: usize = 1 << 20;

/// Why a results file is rejected.
#[derive(Debug, thiserror::Error)]
pub enum JtlError {
    /// The file cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// JMeter's XML format.
    #[error("this is XML: save results as CSV (`jmeter.save.saveservice.output_format=csv`)")]
    Xml,
    /// A required column is missing in the first line.
    #[error("no column `{0}` in the first line")]
    Column(&'static str),
    /// An invalid record.
    #[error("line {line}: {reason}")]
    Record {
        /// First line of the record, from 1.
        line: u64,
        /// The error.
        reason: String,
    },
}

/// Index of each column.
#[derive(Default)]
struct Columns {
    count: usize,
    time_stamp: usize,
    elapsed: usize,
    label: usize,
    others: [Option<usize>; OPTIONAL_COLUMNS.len()],
}

/// Optional columns.
const OPTIONAL_COLUMNS: [&str; 14] = [
    "responseCode",
    "responseMessage",
    "threadName",
    "dataType",
    "success",
    "failureMessage",
    "bytes",
    "sentBytes",
    "grpThreads",
    "allThreads",
    "URL",
    "Latency",
    "IdleTime",
    "Connect",
];

/// Reads a file record by record in constant memory. Returns the number of records.
///
/// # Errors
/// See [`JtlError`].
pub fn read(source: impl BufRead, mut visit: impl FnMut(&Row<'_>)) -> Result<u64, JtlError> {
    let mut records = Records { source, line: 0, first: 1, buffer: Vec::new() };
    if !records.next()? {
        return Err(JtlError::Column("timeStamp"));
    }
    let head = String::from_utf8_lossy(&records.buffer).into_owned();
    if head.trim_start_matches('\u{feff}').trim_start().starts_with('<') {
        return Err(JtlError::Xml);
    }
    let delimiter = [b',', b'\t', b';', b'|']
        .into_iter()
        .max_by_key(|delimiter| head.bytes().filter(|byte| byte == delimiter).count())
        .unwrap_or(b',');
    let columns = columns(&fields(head.trim_start_matches('\u{feff}').as_bytes(), delimiter))?;
    let mut count = 0;
    loop {
        if !records.next()? {
            return Ok(count);
        }
        let line = records.first;
        let values = fields(&records.buffer, delimiter);
        // An aborted run leaves an incomplete last line.
        if values.len() < columns.count && !records.ended_with_line() {
            return Ok(count);
        }
        let row = row(&values, &columns).map_err(|reason| JtlError::Record { line, reason })?;
        visit(&row);
        count += 1;
    }
}

fn columns(names: &[Cow<'_, str>]) -> Result<Columns, JtlError> {
    let at = |name: &str| names.iter().position(|n| n.trim() == name);
    let needed = |name: &'static str| at(name).ok_or(JtlError::Column(name));
    Ok(Columns {
        count: names.len(),
        time_stamp: needed("timeStamp")?,
        elapsed: needed("elapsed")?,
        label: needed("label")?,
        others: OPTIONAL_COLUMNS.map(at),
    })
}

fn row<'v>(values: &'v [Cow<'v, str>], columns: &Columns) -> Result<Row<'v>, String> {
    if values.len() != columns.count {
        return Err(format!("{} values for {} columns", values.len(), columns.count));
    }
    let text = |at: usize| Cow::Borrowed(&*values[at]);
    let other = |index: usize| columns.others[index].map_or("", |at| &*values[at]);
    let number = |name: &str, text: &str| {
        if text.is_empty() { Ok(0) } else { parse(name, text) }
    };
    let count = |name: &str, text: &str| {
        number(name, text).map(|value| u32::try_from(value).unwrap_or(u32::MAX))
    };
    Ok(Row {
        time_stamp: time_stamp(&values[columns.time_stamp])?,
        elapsed: parse("elapsed", &values[columns.elapsed])?,
        label: text(columns.label),
        code: Cow::Borrowed(other(0)),
        message: Cow::Borrowed(other(1)),
        thread: Cow::Borrowed(other(2)),
        data_type: Cow::Borrowed(other(3)),
        // Without this column all samples count as successful.
        success: columns.others[4].is_none_or(|at| values[at].eq_ignore_ascii_case("true")),
        failure: Cow::Borrowed(other(5)),
        bytes: number("bytes", other(6))?,
        sent_bytes: number("sentBytes", other(7))?,
        group_threads: count("grpThreads", other(8))?,
        all_threads: count("allThreads", other(9))?,
        url: Cow::Borrowed(other(10)),
        latency: number("Latency", other(11))?,
        idle: number("IdleTime", other(12))?,
        connect: number("Connect", other(13))?,
    })
}

fn parse(name: &str, text: &str) -> Result<u64, String> {
    text.trim().parse().map_err(|_| format!("`{name}` is not a number"))
}

/// Milliseconds since 1970, or a common format (`yyyy/MM/dd HH:mm:ss[.SSS]`), interpreted as UTC:
/// only differences matter.
fn time_stamp(text: &str) -> Result<u64, String> {
    if let Ok(millis) = text.parse() {
        return Ok(millis);
    }
    let dashed = text.replace('/', "-").replacen(' ', "T", 1);
    let time: jiff::civil::DateTime =
        dashed.parse().map_err(|_| "`timeStamp` is not a time".to_owned())?;
    let zoned = time.to_zoned(jiff::tz::TimeZone::UTC).map_err(|error| error.to_string())?;
    u64::try_from(zoned.timestamp().as_millisecond()).map_err(|error| error.to_string())
}

/// Records of a file: one line, or several within quotation marks.
struct Records<R> {
    source: R,
    /// Number of lines read.
    line: u64,
    /// First line of the record, from 1.
    first: u64,
    buffer: Vec<u8>,
}

impl<R: BufRead> Records<R> {
    /// Reads the next record that is not empty; false at the end.
    fn next(&mut self) -> Result<bool, JtlError> {
        self.buffer.clear();
        self.first = self.line + 1;
        loop {
            let room = (MAX_RECORD_BYTES - self.buffer.len()) as u64 + 1;
            let read =
                io::Read::take(&mut self.source, room).read_until(b'\n', &mut self.buffer)?;
            if self.buffer.len() > MAX_RECORD_BYTES {
                let reason = "longer than a megabyte".to_owned();
                return Err(JtlError::Record { line: self.first, reason });
            }
            self.line += 1;
            if read == 0 {
                return Ok(!self.buffer.is_empty());
            }
            if self.buffer.iter().all(u8::is_ascii_whitespace) {
                self.buffer.clear();
                self.first = self.line + 1;
                continue;
            }
            // Quotation marks within a value are doubled, so an odd number means an open value.
            if self.buffer.iter().filter(|byte| **byte == b'"').count() % 2 == 0 {
                return Ok(true);
            }
        }
    }

    fn ended_with_line(&self) -> bool {
        self.buffer.ends_with(b"\n")
    }
}

/// Splits a record.
fn fields(record: &[u8], delimiter: u8) -> Vec<Cow<'_, str>> {
    let record = record.strip_suffix(b"\n").unwrap_or(record);
    let record = record.strip_suffix(b"\r").unwrap_or(record);
    let mut values = Vec::with_capacity(17);
    let mut rest = record;
    loop {
        if let Some(quoted) = rest.strip_prefix(b"\"") {
            let (value, tail) = unquote(quoted);
            values.push(Cow::Owned(value));
            let end = tail.iter().position(|byte| *byte == delimiter);
            match end {
                Some(end) => rest = &tail[end + 1..],
                None => return values,
            }
        } else {
            match rest.iter().position(|byte| *byte == delimiter) {
                Some(end) => {
                    values.push(String::from_utf8_lossy(&rest[..end]));
                    rest = &rest[end + 1..];
                }
                None => {
                    values.push(String::from_utf8_lossy(rest));
                    return values;
                }
            }
        }
    }
}

/// Returns a quoted value without doubled marks, and the text after its closing mark.
fn unquote(text: &[u8]) -> (String, &[u8]) {
    let mut value = Vec::new();
    let mut rest = text;
    while let Some(mark) = rest.iter().position(|byte| *byte == b'"') {
        value.extend_from_slice(&rest[..mark]);
        rest = &rest[mark + 1..];
        match rest.strip_prefix(b"\"") {
            Some(tail) => {
                value.push(b'"');
                rest = tail;
            }
            None => return (String::from_utf8_lossy(&value).into_owned(), rest),
        }
    }
    value.extend_from_slice(rest);
    (String::from_utf8_lossy(&value).into_owned(), &[])
}
