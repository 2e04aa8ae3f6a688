//! JMeter results file (`.jtl`) as CSV: one row per sample, with the default columns of JMeter 5.6
//! (`jmeter.save.saveservice.*`).

mod reader;
mod writer;

pub use reader::{JtlError, read};
pub use writer::Writer;

use serde::Serialize;
use std::borrow::Cow;

/// The header line.
pub const HEADER: &str = "timeStamp,elapsed,label,responseCode,responseMessage,threadName,\
                          dataType,success,failureMessage,bytes,sentBytes,grpThreads,allThreads,\
                          URL,Latency,IdleTime,Connect\n";

/// One sample, in the order of [`HEADER`]. Times are integer milliseconds, as in JMeter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
    pub group_threads: u64,
    /// Virtual users of all groups.
    pub all_threads: u64,
    /// The URL.
    pub url: Cow<'r, str>,
    /// Time to the first byte of the response.
    pub latency: u64,
    /// Idle time within the sample.
    pub idle: u64,
    /// Time to open the connection; 0 for a reused one.
    pub connect: u64,
}

#[cfg(test)]
mod tests;
