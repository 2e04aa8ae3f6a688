//! FastCGI 1.0 without I/O: what weir sends to an agent, and what it reads from one.
//!
//! Source: "FastCGI Specification", Mark R. Brown, Open Market, 29 April 1996 (section numbers in
//! this module are its). A connection carries one request at a time, with the id
//! [`REQUEST_ID`]; multiplexing (section 3.3) is not used.
//!
//! [`request`] writes records, [`Answer`] takes an agent's records apart, in whatever pieces they
//! come. [`RecordReader`] below both knows records only, of either side.

mod answer;
mod params;
mod record;
pub mod request;

pub use answer::{Answer, Decoded, End, Event, ProtocolStatus};
pub use params::{Params, ParamsWriter};
pub use record::{HEADER, Header, LONGEST, Part, RecordReader, Step};

/// The id of the only request of a connection.
pub const REQUEST_ID: u16 = 1;

/// Types of records (section 8). Others than these are skipped.
pub mod kind {
    /// Starts a request.
    pub const BEGIN_REQUEST: u8 = 1;
    /// Ends one before its time.
    pub const ABORT_REQUEST: u8 = 2;
    /// The agent has ended a request.
    pub const END_REQUEST: u8 = 3;
    /// A stream of name-value pairs.
    pub const PARAMS: u8 = 4;
    /// A stream: the request body.
    pub const STDIN: u8 = 5;
    /// A stream: head and body of the answer, as CGI writes them.
    pub const STDOUT: u8 = 6;
    /// A stream: what belongs in a log.
    pub const STDERR: u8 = 7;
    /// A second body, of filters only.
    pub const DATA: u8 = 8;
    /// Asks the agent about itself; belongs to no request.
    pub const GET_VALUES: u8 = 9;
    /// What it says.
    pub const GET_VALUES_RESULT: u8 = 10;
    /// It does not know a type that belongs to no request.
    pub const UNKNOWN_TYPE: u8 = 11;
}

/// Why what an agent sends cannot be understood. The connection cannot be used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FastCgiError {
    /// Another version than 1: no FastCGI at all, most likely.
    #[error("record of FastCGI version {0}, not 1")]
    Version(u8),
    /// A record of a request that was never made.
    #[error("record of request {0}, which was not made")]
    RequestId(u16),
    /// A record too short to hold what it must.
    #[error("a record is too short")]
    Short,
    /// A protocol status that does not exist.
    #[error("unknown protocol status {0}")]
    ProtocolStatus(u8),
    /// A length that goes beyond the end of the pairs.
    #[error("a name or value is longer than what there is")]
    Pair,
}

#[cfg(test)]
mod tests;
