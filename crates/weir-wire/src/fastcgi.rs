//! FastCGI 1.0 without I/O: encoding requests to agents, decoding their responses.
//!
//! Source: "FastCGI Specification", Mark R. Brown, Open Market, 29 April 1996; section numbers in
//! this module refer to it. A connection carries one request at a time, with the id [`REQUEST_ID`].
//! Multiplexing (section 3.3) is not used.
//!
//! [`request`] encodes records, [`ResponseReader`] decodes an agent's records incrementally.
//! [`RecordReader`] decodes records of either side.

mod params;
mod record;
pub mod request;
mod response;

pub use params::{Params, ParamsWriter};
pub use record::{HEADER_BYTES, Header, MAX_CONTENT_BYTES, Part, RecordReader, Step};
pub use response::{Decoded, End, Event, ProtocolStatus, ResponseReader};

/// The id of the only request of a connection.
pub const REQUEST_ID: u16 = 1;

/// Types of records (section 8). Other types are skipped.
pub mod kind {
    /// Starts a request.
    pub const BEGIN_REQUEST: u8 = 1;
    /// Aborts a request.
    pub const ABORT_REQUEST: u8 = 2;
    /// Ends a request.
    pub const END_REQUEST: u8 = 3;
    /// A stream of name-value pairs.
    pub const PARAMS: u8 = 4;
    /// A stream: the request body.
    pub const STDIN: u8 = 5;
    /// A stream: head and body of the response, as in CGI.
    pub const STDOUT: u8 = 6;
    /// A stream: log output.
    pub const STDERR: u8 = 7;
    /// A second body, for filters only.
    pub const DATA: u8 = 8;
    /// Queries the agent's limits; belongs to no request.
    pub const GET_VALUES: u8 = 9;
    /// The result of `GET_VALUES`.
    pub const GET_VALUES_RESULT: u8 = 10;
    /// Reports an unknown type that belongs to no request.
    pub const UNKNOWN_TYPE: u8 = 11;
}

/// Why an agent's records are malformed. The connection cannot be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FastCgiError {
    /// A version other than 1: most likely not FastCGI.
    #[error("record of FastCGI version {0}, not 1")]
    Version(u8),
    /// A record of a request that was not sent.
    #[error("record of request {0}, which was not made")]
    RequestId(u16),
    /// A record shorter than its type requires.
    #[error("a record is too short")]
    Short,
    /// An undefined protocol status.
    #[error("unknown protocol status {0}")]
    ProtocolStatus(u8),
    /// A length that exceeds the data.
    #[error("a name or value is longer than what there is")]
    Pair,
}

#[cfg(test)]
mod tests;
