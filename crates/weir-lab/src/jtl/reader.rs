//! Reads results of JMeter or weir: any subset of the columns in any order, separated by `,`, `;`,
//! `|` or a tab.

use super::Row;
use csv_core::ReadRecordResult;
use std::borrow::Cow;
use std::io::{self, BufRead};
use std::mem;

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

/// Columns that every file has.
const REQUIRED_COLUMNS: [&str; 3] = ["timeStamp", "elapsed", "label"];

/// Reads a file record by record in constant memory. Returns the number of records.
///
/// # Errors
/// See [`JtlError`].
pub fn read(source: impl BufRead, mut visit: impl FnMut(&Row<'_>)) -> Result<u64, JtlError> {
    let mut records = Records { source, line: 0, first: 1, buffer: Vec::new() };
    records.next()?;
    let head = String::from_utf8_lossy(&records.buffer);
    if head.trim_start_matches('\u{feff}').trim_start().starts_with('<') {
        return Err(JtlError::Xml);
    }
    let delimiter = [b',', b'\t', b';', b'|']
        .into_iter()
        .max_by_key(|delimiter| head.bytes().filter(|byte| byte == delimiter).count())
        .unwrap_or(b',');
    let mut splitter = Splitter::new(delimiter);
    let columns = splitter.split(&records.buffer);
    let columns: Vec<String> = columns.iter().map(|name| name.trim().to_owned()).collect();
    if let Some(missing) = REQUIRED_COLUMNS.into_iter().find(|name| !has(&columns, name)) {
        return Err(JtlError::Column(missing));
    }
    let mut count = 0;
    while records.next()? {
        let line = records.first;
        let values = splitter.split(&records.buffer);
        // An aborted run leaves an incomplete last line.
        if values.len() < columns.len() && !records.buffer.ends_with(b"\n") {
            break;
        }
        let row = row(&columns, &values).map_err(|reason| JtlError::Record { line, reason })?;
        visit(&row);
        count += 1;
    }
    Ok(count)
}

fn has(columns: &[String], name: &str) -> bool {
    columns.iter().any(|column| column == name)
}

fn row<'v>(columns: &[String], values: &'v [Cow<'v, str>]) -> Result<Row<'v>, String> {
    if values.len() != columns.len() {
        return Err(format!("{} values for {} columns", values.len(), columns.len()));
    }
    let value = |name: &str| {
        let at = columns.iter().position(|column| column == name)?;
        values.get(at).map(|value| &**value)
    };
    let text = |name: &str| Cow::Borrowed(value(name).unwrap_or_default());
    let number = |name: &str| match value(name) {
        None | Some("") => Ok(0),
        Some(text) => parse(name, text),
    };
    Ok(Row {
        time_stamp: time_stamp(&text("timeStamp"))?,
        elapsed: parse("elapsed", &text("elapsed"))?,
        label: text("label"),
        code: text("responseCode"),
        message: text("responseMessage"),
        thread: text("threadName"),
        data_type: text("dataType"),
        // Without this column all samples count as successful.
        success: value("success").is_none_or(|text| text.eq_ignore_ascii_case("true")),
        failure: text("failureMessage"),
        bytes: number("bytes")?,
        sent_bytes: number("sentBytes")?,
        group_threads: number("grpThreads")?,
        all_threads: number("allThreads")?,
        url: text("URL"),
        latency: number("Latency")?,
        // JMeter's is negative if the times of samples are longer than that of their transaction.
        idle: match text("IdleTime").strip_prefix('-') {
            Some(below) => parse("IdleTime", below).map(|_| 0)?,
            None => number("IdleTime")?,
        },
        connect: number("Connect")?,
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
}

/// Splits records into values.
struct Splitter {
    parser: csv_core::Reader,
    /// The values of a record, one after the other, and the end of each.
    text: Vec<u8>,
    ends: Vec<usize>,
}

impl Splitter {
    fn new(delimiter: u8) -> Self {
        let parser = csv_core::ReaderBuilder::new().delimiter(delimiter).build();
        Self { parser, text: Vec::new(), ends: Vec::new() }
    }

    fn split(&mut self, record: &[u8]) -> Vec<Cow<'_, str>> {
        self.text.resize(record.len(), 0);
        self.ends.resize(record.len() + 1, 0);
        let Self { parser, text, ends } = self;
        let (found, _, written, mut count) = parser.read_record(record, text, ends);
        if found == ReadRecordResult::InputEmpty {
            // The last line may have no end.
            count += parser.read_record(&[], &mut text[written..], &mut ends[count..]).3;
        }
        let value = |start: &mut usize, end: &usize| {
            Some(String::from_utf8_lossy(&text[mem::replace(start, *end)..*end]))
        };
        ends[..count].iter().scan(0, value).collect()
    }
}
