//! Reading results, of JMeter or of ours: any subset of the columns in any order, with `,`, `;`,
//! `|` or a tab between them.

use super::Row;
use std::borrow::Cow;
use std::io::{self, BufRead};

/// Longest record, in bytes: messages can be long, a file without line ends is none.
const RECORD_BYTES: usize = 1 << 20;

/// Why a file is no results.
#[derive(Debug, thiserror::Error)]
pub enum JtlError {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is JMeter's XML.
    #[error("it is XML: save results as CSV (`jmeter.save.saveservice.output_format=csv`)")]
    Xml,
    /// The first line names none of the columns that are needed.
    #[error("its first line names no column `{0}`")]
    Column(&'static str),
    /// A record is odd.
    #[error("line {line}: {reason}")]
    Record {
        /// Its first line, from 1.
        line: u64,
        /// What is wrong.
        reason: String,
    },
}

/// Where each column stands.
#[derive(Default)]
struct Columns {
    count: usize,
    time_stamp: usize,
    elapsed: usize,
    label: usize,
    others: [Option<usize>; OTHERS.len()],
}

/// Columns that may be missing.
const OTHERS: [&str; 14] = [
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

/// Reads a file, record by record, in constant memory. Returns how many there were.
///
/// # Errors
/// See [`JtlError`].
pub fn read(source: impl BufRead, mut seen: impl FnMut(&Row<'_>)) -> Result<u64, JtlError> {
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
        // A run that was ended leaves half a line behind.
        if values.len() < columns.count && !records.ended_with_line() {
            return Ok(count);
        }
        let row = row(&values, &columns).map_err(|reason| JtlError::Record { line, reason })?;
        seen(&row);
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
        others: OTHERS.map(at),
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
        // Without the column nothing is known to have failed.
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
    text.trim().parse().map_err(|_| format!("`{name}` is no number"))
}

/// Milliseconds since 1970, or one of the formats users choose (`yyyy/MM/dd HH:mm:ss[.SSS]`), which
/// is taken as UTC: only differences count.
fn time_stamp(text: &str) -> Result<u64, String> {
    if let Ok(millis) = text.parse() {
        return Ok(millis);
    }
    let dashed = text.replace('/', "-").replacen(' ', "T", 1);
    let time: jiff::civil::DateTime =
        dashed.parse().map_err(|_| "`timeStamp` is no time".to_owned())?;
    let zoned = time.to_zoned(jiff::tz::TimeZone::UTC).map_err(|error| error.to_string())?;
    u64::try_from(zoned.timestamp().as_millisecond()).map_err(|error| error.to_string())
}

/// Records of a file: a line, or more of them where a quotation mark is open.
struct Records<R> {
    source: R,
    /// Lines read so far.
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
            let room = (RECORD_BYTES - self.buffer.len()) as u64 + 1;
            let read =
                io::Read::take(&mut self.source, room).read_until(b'\n', &mut self.buffer)?;
            if self.buffer.len() > RECORD_BYTES {
                let reason = "it is longer than a megabyte".to_owned();
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
            // Each mark within a value is doubled, so an odd number means that a value is open.
            if self.buffer.iter().filter(|byte| **byte == b'"').count() % 2 == 0 {
                return Ok(true);
            }
        }
    }

    fn ended_with_line(&self) -> bool {
        self.buffer.ends_with(b"\n")
    }
}

/// Takes a record apart.
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

/// A quoted value, doubled marks single, and what follows its closing mark.
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
