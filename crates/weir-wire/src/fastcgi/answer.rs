//! What an agent sends back for one request.

use super::record::{Header, Part, RecordReader};
use super::{FastCgiError, REQUEST_ID, kind};
use std::ops::Range;

/// Reads one answer in whatever pieces it comes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer {
    records: RecordReader,
    /// The content of END_REQUEST, as far as it has come.
    end: [u8; 8],
    filled: usize,
    done: bool,
}

/// What one step gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of the input that are dealt with once `data` is.
    pub consumed: usize,
    /// Where the bytes of the event are among them.
    pub data: Range<usize>,
    /// What they are.
    pub event: Event,
}

/// What comes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// More bytes are needed, or some that mean nothing were skipped: to be called again with what
    /// is behind them, once there is any.
    Nothing,
    /// Bytes of head and body.
    Stdout,
    /// Bytes for a log.
    Stderr,
    /// The answer is whole; the connection is free.
    End(End),
}

/// How an agent ended a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The program's exit status, as it would be of a CGI program.
    pub application: u32,
    /// Whether it took the request at all.
    pub protocol: ProtocolStatus,
}

/// Whether an agent took a request (section 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolStatus {
    /// It did.
    Complete,
    /// It has another request on this connection.
    CannotMultiplex,
    /// It has no resources for it.
    Overloaded,
    /// It plays another role.
    UnknownRole,
}

impl Answer {
    /// Takes what it can from the start of `bytes`.
    ///
    /// # Errors
    /// What came cannot be an answer to the request. The connection cannot be used again.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Decoded, FastCgiError> {
        let nothing = |consumed| Decoded { consumed, data: 0..0, event: Event::Nothing };
        let mut consumed = 0;
        while !self.done {
            let Some(step) = self.records.step(&bytes[consumed..])? else { break };
            let data = consumed + step.data.start..consumed + step.data.end;
            consumed += step.consumed;
            match step.part {
                Part::Header(header) => begins(header)?,
                Part::Content(header) if is_end(header) => {
                    self.keep(&bytes[data]);
                }
                Part::Content(header) if !data.is_empty() => {
                    let event = match (header.request, header.kind) {
                        (REQUEST_ID, kind::STDOUT) => Event::Stdout,
                        (REQUEST_ID, kind::STDERR) => Event::Stderr,
                        // Answers to questions that were not asked, and types of later versions.
                        _ => continue,
                    };
                    return Ok(Decoded { consumed, data, event });
                }
                Part::Content(_) => {}
                Part::End(header) if is_end(header) => {
                    self.done = true;
                    let event = Event::End(self.ended()?);
                    return Ok(Decoded { consumed, data: 0..0, event });
                }
                Part::End(_) => {}
            }
        }
        Ok(nothing(consumed))
    }

    /// The answer is whole.
    pub fn is_done(&self) -> bool {
        self.done
    }

    fn keep(&mut self, content: &[u8]) {
        let room = &mut self.end[self.filled..];
        let count = content.len().min(room.len());
        room[..count].copy_from_slice(&content[..count]);
        self.filled += count;
    }

    fn ended(&self) -> Result<End, FastCgiError> {
        if self.filled < self.end.len() {
            return Err(FastCgiError::Short);
        }
        let [a, b, c, d, protocol, ..] = self.end;
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

/// Refuses records of other requests. Those that belong to none are skipped.
fn begins(header: Header) -> Result<(), FastCgiError> {
    match header.request {
        0 | REQUEST_ID => Ok(()),
        other => Err(FastCgiError::RequestId(other)),
    }
}
