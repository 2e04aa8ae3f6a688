//! Decoding the response to one request.

use super::record::{Header, Part, RecordReader};
use super::{FastCgiError, REQUEST_ID, kind};
use std::ops::Range;

/// Decodes one response incrementally.
#[derive(Clone, Copy, Debug, Default)]
pub struct ResponseReader {
    records: RecordReader,
    /// The content of END_REQUEST received so far.
    end_content: [u8; 8],
    filled: usize,
    done: bool,
}

/// Result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of the input that were processed, including `data`.
    pub consumed: usize,
    /// Range of the event's bytes in the input.
    pub data: Range<usize>,
    /// The event.
    pub event: Event,
}

/// A part of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// More bytes are needed, or insignificant ones were skipped: continue with the bytes after
    /// them.
    Pending,
    /// Bytes of head and body.
    Stdout,
    /// Bytes for a log.
    Stderr,
    /// The response is complete; the connection is idle.
    End(End),
}

/// How an agent ended a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The exit status of the program, as in CGI.
    pub application: u32,
    /// Whether the agent accepted the request.
    pub protocol: ProtocolStatus,
}

/// Whether an agent accepted a request (section 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolStatus {
    /// Accepted.
    Complete,
    /// Rejected: the agent has another request on this connection.
    CannotMultiplex,
    /// Rejected: the agent has no resources.
    Overloaded,
    /// Rejected: the agent has another role.
    UnknownRole,
}

impl ResponseReader {
    /// Decodes the next part at the start of `bytes`.
    ///
    /// # Errors
    /// The bytes are not a response to the request. The connection cannot be reused.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Decoded, FastCgiError> {
        let pending = |consumed| Decoded { consumed, data: 0..0, event: Event::Pending };
        let mut consumed = 0;
        while !self.done {
            let Some(step) = self.records.step(&bytes[consumed..])? else { break };
            let data = consumed + step.data.start..consumed + step.data.end;
            consumed += step.consumed;
            match step.part {
                Part::Header(header) => check_request(header)?,
                Part::Content(header) if is_end(header) => {
                    self.keep(&bytes[data]);
                }
                Part::Content(header) if !data.is_empty() => {
                    let event = match (header.request, header.kind) {
                        (REQUEST_ID, kind::STDOUT) => Event::Stdout,
                        (REQUEST_ID, kind::STDERR) => Event::Stderr,
                        // Results of queries, and types of later versions.
                        _ => continue,
                    };
                    return Ok(Decoded { consumed, data, event });
                }
                Part::Content(_) => {}
                Part::End(header) if is_end(header) => {
                    self.done = true;
                    let event = Event::End(self.end()?);
                    return Ok(Decoded { consumed, data: 0..0, event });
                }
                Part::End(_) => {}
            }
        }
        Ok(pending(consumed))
    }

    /// Whether the response is complete.
    pub fn is_done(&self) -> bool {
        self.done
    }

    fn keep(&mut self, content: &[u8]) {
        let space = &mut self.end_content[self.filled..];
        let count = content.len().min(space.len());
        space[..count].copy_from_slice(&content[..count]);
        self.filled += count;
    }

    fn end(&self) -> Result<End, FastCgiError> {
        if self.filled < self.end_content.len() {
            return Err(FastCgiError::Short);
        }
        let [a, b, c, d, protocol, ..] = self.end_content;
        Ok(End {
            application: u32::from_be_bytes([a, b, c, d]),
            protocol: match protocol {
                0 => ProtocolStatus::Complete,
                1 => ProtocolStatus::CannotMultiplex,
                2 => ProtocolStatus::Overloaded,
                3 => ProtocolStatus::UnknownRole,
                other => return Err(FastCgiError::ProtocolStatus(other)),
            },
        })
    }
}

fn is_end(header: Header) -> bool {
    header.request == REQUEST_ID && header.kind == kind::END_REQUEST
}

/// Rejects records of other requests. Records without a request are skipped.
fn check_request(header: Header) -> Result<(), FastCgiError> {
    match header.request {
        0 | REQUEST_ID => Ok(()),
        other => Err(FastCgiError::RequestId(other)),
    }
}
