//! HTTP/1.x and FastCGI codecs without I/O.
//!
//! Used by the server, the upstream client, the test backend and the load generator. Parsing is
//! strict where leniency would let two parsers disagree about the end of a message (RFC 9112
//! section 11.2): [`scan`] rejects bare CR and LF and folded lines, [`request`] and [`response`]
//! reject ambiguous framing, [`body`] malformed chunks.
//!
//! The path of a message: [`Scan`] finds the end of the head in the bytes received so far,
//! [`RequestHead`] or [`ResponseHead`] parses it, its [`Framing`] starts a [`BodyDecoder`].

pub mod body;
pub mod cgi;
pub mod encode;
pub mod fastcgi;
pub mod head;
pub mod request;
pub mod response;
pub mod scan;

pub use body::{BodyDecoder, BodyError};
pub use head::{Headers, Known};
pub use request::{Method, RequestHead};
pub use response::ResponseHead;
pub use scan::{HeadError, HeadLimits, Scan, find_either, has_token, is_token};

/// HTTP/1 minor version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
}

/// How the end of a body is determined (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    #[default]
    None,
    /// A number of bytes, possibly 0.
    Length(u64),
    /// Chunks, then trailers.
    Chunked,
    /// Everything until the connection closes; responses only.
    UntilClose,
}

impl Framing {
    /// Whether the body is empty.
    pub fn is_empty(self) -> bool {
        matches!(self, Self::None | Self::Length(0))
    }

    /// Length of the body, if known.
    pub fn length(self) -> Option<u64> {
        match self {
            Self::None => Some(0),
            Self::Length(length) => Some(length),
            Self::Chunked | Self::UntilClose => None,
        }
    }
}
