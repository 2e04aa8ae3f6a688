//! `hist.hlog`: histograms in HdrHistogram's interval log format, as
//! `HistogramLogWriter` of the Java implementation writes it and other tools read it.
//!
//! A line is `Tag=TAG,start,length,max,BASE64`: seconds since the log's start, milliseconds, and a
//! histogram of nanoseconds (V2, deflated). A tag is `case/label/service` or
//! `case/label/response`; characters with a meaning in the format are percent-encoded.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

/// Largest log.
const MAX_LOG_BYTES: usize = 1 << 30;

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum HlogError {
    /// The log is too large.
    #[error("the log is larger than 1 GiB")]
    TooLarge,
    /// The log is not text.
    #[error("the log is not text")]
    NoText,
    /// A line is invalid.
    #[error("line {line}: {problem}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// The problem.
        problem: String,
    },
}

/// One line of a log.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Its tag; empty without one.
    pub tag: String,
    /// Start: since the start of the log, or since 1970 in a log without a start.
    pub start: Duration,
    /// Length.
    pub length: Duration,
    /// Nanoseconds.
    pub histogram: Histogram<u64>,
}

/// Writes the head of a log that starts at `start`.
///
/// # Errors
/// The output cannot be written.
pub fn head(out: &mut impl Write, start: SystemTime) -> io::Result<()> {
    let start = start.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    writeln!(out, "#[Histogram log format version 1.3]")?;
    writeln!(out, "#[weir lab: nanoseconds, the third column in milliseconds]")?;
    writeln!(out, "#[StartTime: {start:.3} (seconds since epoch)]")?;
    writeln!(out, "#[BaseTime: {start:.3} (seconds since epoch)]")
}

/// Appends a line.
///
/// # Errors
/// The output cannot be written.
pub fn line(out: &mut impl Write, interval: &Interval) -> io::Result<()> {
    let Interval { tag, start, length, histogram } = interval;
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .map_err(|error| io::Error::other(error.to_string()))?;
    if !tag.is_empty() {
        write!(out, "Tag={},", escape(tag))?;
    }
    let (start, length) = (start.as_secs_f64(), length.as_secs_f64());
    let max = histogram.max() as f64 / 1e6;
    writeln!(out, "{start:.3},{length:.3},{max:.3},{}", STANDARD.encode(bytes))
}

/// Start of a log, from its head.
#[must_use]
pub fn start(log: &[u8]) -> Option<SystemTime> {
    let text = String::from_utf8_lossy(&log[..log.len().min(4_096)]).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("#[BaseTime: "))?;
    let seconds: f64 = line.split(' ').next()?.parse().ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

/// Reads a log, line by line.
///
/// # Errors
/// Not a log, or a damaged line.
pub fn read(log: &[u8]) -> Result<Vec<Interval>, HlogError> {
    if log.len() > MAX_LOG_BYTES {
        return Err(HlogError::TooLarge);
    }
    let text = std::str::from_utf8(log).map_err(|_| HlogError::NoText)?;
    let mut intervals = Vec::new();
    for (at, line) in text.lines().enumerate() {
        // Java writes a line with the names of the columns.
        if !line.is_empty() && !line.starts_with(['#', '"']) {
            let wrong = |problem| HlogError::Line { line: at + 1, problem };
            intervals.push(parse(line).map_err(wrong)?);
        }
    }
    Ok(intervals)
}

fn parse(line: &str) -> Result<Interval, String> {
    let (tag, rest) = match line.strip_prefix("Tag=").map(|rest| rest.split_once(',')) {
        Some(Some((tag, rest))) => (unescape(tag), rest),
        Some(None) => return Err("only a tag".to_owned()),
        None => (String::new(), line),
    };
    let columns: Vec<&str> = rest.split(',').collect();
    let [start, length, _, histogram] = columns[..] else {
        return Err("not four columns".to_owned());
    };
    let seconds = |text: &str| {
        let seconds = text.trim().parse::<f64>().ok();
        let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        time.ok_or_else(|| format!("{text:?} is not a time"))
    };
    let bytes = STANDARD
        .decode(histogram.trim())
        .map_err(|error| format!("the histogram is not base64: {error}"))?;
    let histogram = Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| format!("the histogram is damaged: {error}"))?;
    Ok(Interval { tag, start: seconds(start)?, length: seconds(length)?, histogram })
}

/// Adds up histograms of the same tag over all intervals: of several generators, or of a run.
#[must_use]
pub fn by_tag(intervals: &[Interval]) -> BTreeMap<String, Histogram<u64>> {
    let mut sums: BTreeMap<String, Histogram<u64>> = BTreeMap::new();
    for interval in intervals {
        let like = || empty_like(&interval.histogram);
        add(sums.entry(interval.tag.clone()).or_insert_with(like), &interval.histogram);
    }
    sums
}

/// Merges several logs: intervals of the same tag with the same start second become one, ordered by
/// start.
#[must_use]
pub fn merge(logs: &[Vec<Interval>]) -> Vec<Interval> {
    let mut merged: BTreeMap<(u64, String), Interval> = BTreeMap::new();
    for interval in logs.iter().flatten() {
        let key = (interval.start.as_secs(), interval.tag.clone());
        let like = || Interval {
            tag: interval.tag.clone(),
            histogram: empty_like(&interval.histogram),
            ..*interval
        };
        let sum = merged.entry(key).or_insert_with(like);
        add(&mut sum.histogram, &interval.histogram);
        let end = (sum.start + sum.length).max(interval.start + interval.length);
        sum.start = sum.start.min(interval.start);
        sum.length = end.saturating_sub(sum.start);
    }
    merged.into_values().collect()
}

/// An empty histogram with the same digits, which grows automatically.
fn empty_like(histogram: &Histogram<u64>) -> Histogram<u64> {
    let mut empty = Histogram::new_from(histogram);
    empty.auto(true);
    empty
}

/// Adds to a histogram that grows automatically. Values out of range are left out, which is only
/// possible for histograms of other tools with other digits.
fn add(to: &mut Histogram<u64>, from: &Histogram<u64>) {
    if to.add(from).is_err() {
        for value in from.iter_recorded() {
            let _ = to.record_n(value.value_iterated_to(), value.count_since_last_iteration());
        }
    }
}

/// The tag of a label's times in a case.
#[must_use]
pub fn tag(cell: &str, label: &str, response: bool) -> String {
    format!("{cell}/{label}/{}", if response { "response" } else { "service" })
}

/// Escapes commas and white space in a tag.
fn escape(tag: &str) -> String {
    let special = |c: char| matches!(c, ',' | '%' | '"') || c.is_whitespace() || c.is_control();
    let mut out = String::with_capacity(tag.len());
    for character in tag.chars() {
        if special(character) {
            let mut bytes = [0; 4];
            let text = character.encode_utf8(&mut bytes);
            out.extend(utf8_percent_encode(text, NON_ALPHANUMERIC));
        } else {
            out.push(character);
        }
    }
    out
}

fn unescape(tag: &str) -> String {
    percent_decode_str(tag).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::histogram;

    fn interval(tag: &str, start: u64, value: u64, count: u64) -> Interval {
        let mut histogram = histogram();
        histogram.record_n(value, count).expect("in range");
        let (start, length) = (Duration::from_secs(start), Duration::from_secs(10));
        Interval { tag: tag.to_owned(), start, length, histogram }
    }

    fn written(intervals: &[Interval]) -> Vec<u8> {
        let mut log = Vec::new();
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        head(&mut log, start).expect("memory");
        for interval in intervals {
            line(&mut log, interval).expect("memory");
        }
        log
    }

    #[test]
    fn a_written_log_can_be_read() {
        let tag = "users=100, x/echo 100 %/service";
        let log = written(&[interval(tag, 0, 1_234_567, 1000), interval("", 10, 5, 1)]);
        let text = String::from_utf8(log.clone()).expect("text");
        assert!(text.starts_with("#[Histogram log format version 1.3]\n"), "{text}");
        assert!(text.contains("#[BaseTime: 1700000000.000 (seconds since epoch)]\n"), "{text}");
        let first = text.lines().find(|line| line.starts_with("Tag=")).expect("a tag");
        assert!(
            first.starts_with("Tag=users=100%2C%20x/echo%20100%20%25/service,0.000,10.000,1.23")
        );
        assert!(first.contains(",HISTFAA"), "V2, deflated: {first}");
        let since = start(&log).and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        assert_eq!(since, Some(Duration::from_secs(1_700_000_000)));
        let read = read(&log).expect("a log");
        assert_eq!((read[0].tag.as_str(), read[1].tag.as_str()), (tag, ""));
        assert_eq!(read[0].histogram.len(), 1000);
        assert_eq!(read[1].start, Duration::from_secs(10));
    }

    #[test]
    fn logs_of_several_generators_add_up() {
        let one = vec![interval("a", 0, 1_000, 10), interval("a", 10, 1_000, 10)];
        let two = vec![interval("a", 0, 9_000_000_000, 5), interval("b", 0, 7, 1)];
        let merged = merge(&[one, two]);
        let counts: Vec<(String, u64)> =
            merged.iter().map(|i| (i.tag.clone(), i.histogram.len())).collect();
        assert_eq!(counts, [("a".to_owned(), 15), ("b".to_owned(), 1), ("a".to_owned(), 10)]);
        let sums = by_tag(&merged);
        assert_eq!((sums["a"].len(), sums["b"].len()), (25, 1));
        assert!(sums["a"].max() > 8_990_000_000);
    }

    #[test]
    fn a_damaged_line_is_named() {
        let mut log = written(&[interval("a", 0, 1_000, 10)]);
        log.extend_from_slice(b"Tag=a,0.0,1.0,2.0,HISTFAAAAnothing\n");
        let error = read(&log).expect_err("damaged").to_string();
        assert!(error.starts_with("line 6: the histogram is"), "{error}");
        assert!(read(b"a,b\n").is_err());
        assert!(read(&[0xff, 0xfe]).is_err());
        assert_eq!(read(b"").expect("empty").len(), 0);
    }

    #[test]
    fn logs_of_the_java_implementation_can_be_read() {
        // The line of column names, and a histogram as V2 without a tag.
        let mut log = b"\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n".to_vec();
        log.extend_from_slice(&written(&[interval("", 1, 1_000, 10)]));
        assert_eq!(read(&log).expect("a log").len(), 1);
    }
}
