//! HTTP/1.x and FastCGI codecs without I/O.
//!
//! Bytes in, messages out, and back; used by the server, the upstream client, the echo backend
//! and the load lab alike. It is strict where leniency lets two parsers disagree about where one
//! message ends (RFC 9112 section 11.2): [`scan`] refuses bare CR and LF and folded lines,
//! [`request`] and [`response`] refuse every ambiguous framing, [`body`] every bad chunk.
//!
//! The way of a message: [`Scan`] finds the end of the head in whatever bytes have come so far,
//! [`RequestHead`] or [`ResponseHead`] takes it apart, its [`Framing`] starts a [`BodyDecoder`].

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

/// How the end of a body is found (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    #[default]
    None,
    /// So many bytes; 0 is possible.
    Length(u64),
    /// Chunks, then trailers.
    Chunked,
    /// Everything until the connection closes; responses only.
    UntilClose,
}

impl Framing {
    /// No byte of body can come.
    pub fn is_empty(self) -> bool {
        matches!(self, Self::None | Self::Length(0))
    }

    /// Bytes of body, if that is known.
    pub fn length(self) -> Option<u64> {
        match self {
            Self::None => Some(0),
            Self::Length(length) => Some(length),
            Self::Chunked | Self::UntilClose => None,
        }
    }
}
