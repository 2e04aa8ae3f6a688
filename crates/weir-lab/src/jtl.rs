//! JMeter results file (`.jtl`) as CSV: one row per sample, with the default columns of JMeter 5.6
//! (`jmeter.save.saveservice.*`).

mod reader;
mod writer;

pub use reader::{JtlError, read};
pub use writer::Writer;

use std::borrow::Cow;

/// The header line.
pub const HEADER: &str = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,\
                          dataType,success,failureMessage,bytes,sentBytes,grpThreads,allThreads,\
                          URL,Latency,IdleTime,Connect\n";

/// One sample. Times are integer milliseconds, as in JMeter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row<'r> {
    /// Start, in milliseconds since 1970.
    pub time_stamp: u64,
    /// Time to the last byte of the response.
    pub elapsed: u64,
    /// Name of the request.
    pub label: Cow<'r, str>,
    /// Status, or `Non HTTP response code: <class>`.
    pub code: Cow<'r, str>,
    /// Reason phrase, or the error.
    pub message: Cow<'r, str>,
    /// Thread group and virtual user: `Users 1-17`.
    pub thread: Cow<'r, str>,
    /// `text`, `bin` or empty.
    pub data_type: Cow<'r, str>,
    /// Status below 400 and all checks passed.
    pub success: bool,
    /// The first check that failed.
    pub failure: Cow<'r, str>,
    /// Bytes of the response, including the head.
    pub bytes: u64,
    /// Bytes of the request, including the head.
    pub sent_bytes: u64,
    /// Virtual users of the group.
    pub group_threads: u32,
    /// Virtual users of all groups.
    pub all_threads: u32,
    /// The URL.
    pub url: Cow<'r, str>,
    /// Time to the first byte of the response.
    pub latency: u64,
    /// Idle time within the sample.
    pub idle: u64,
    /// Time to open the connection; 0 for a reused one.
    pub connect: u64,
}

impl Row<'_> {
    /// Appends the row with its line end.
    pub fn write(&self, out: &mut Vec<u8>) {
        number(self.time_stamp, out);
        out.push(b',');
        number(self.elapsed, out);
        for text in [&self.label, &self.code, &self.message, &self.thread, &self.data_type] {
            out.push(b',');
            field(text, out);
        }
        out.extend_from_slice(if self.success { b",true," } else { b",false," });
        field(&self.failure, out);
        let numbers = [
            self.bytes,
            self.sent_bytes,
            u64::from(self.group_threads),
            u64::from(self.all_threads),
        ];
        for value in numbers {
            out.push(b',');
            number(value, out);
        }
        out.push(b',');
        field(&self.url, out);
        for value in [self.latency, self.idle, self.connect] {
            out.push(b',');
            number(value, out);
        }
        out.push(b'\n');
    }
}

/// Appends a text, quoted if necessary.
fn field(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    if !bytes.iter().any(|byte| matches!(byte, b',' | b'"' | b'\r' | b'\n')) {
        out.extend_from_slice(bytes);
        return;
    }
    out.push(b'"');
    for byte in bytes {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// Decimal digits.
fn number(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

#[cfg(test)]
mod tests;
