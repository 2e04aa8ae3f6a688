//! The end of a response body: trailers, or an error.

use crate::deadline::Expired;
use crate::problem::Problem;
use crate::rejection::Rejection;
use http::HeaderMap;
use weir_wire::BodyError;
use weir_wire::fastcgi::FastCgiError;

/// The end of a complete body.
#[derive(Default)]
pub struct BodyEnd {
    /// Trailer fields, if there are any.
    pub trailers: Option<HeaderMap>,
    /// Status code of a gRPC call.
    pub grpc_status: Option<usize>,
}

/// Why a response was aborted.
#[derive(Debug, thiserror::Error)]
pub enum ResponseError {
    /// The upstream closed or reset the connection.
    #[error("the upstream closed the connection early")]
    UpstreamClosed,
    /// The framing of the upstream is malformed.
    #[error("the upstream's response is malformed: {0}")]
    UpstreamProtocolError(#[from] BodyError),
    /// The bytes of an agent are not FastCGI.
    #[error("the agent's response is malformed: {0}")]
    AgentProtocolError(FastCgiError),
    /// No byte arrived in time.
    #[error("the upstream did not respond in time")]
    TimedOut(Expired),
    /// A file cannot be read, or has changed.
    #[error("the file cannot be read, or has changed")]
    File,
    /// The encoder failed.
    #[error("the response cannot be compressed")]
    Compression,
    /// The response exceeds the limit.
    #[error("the response is too large")]
    TooLarge,
    /// The response is complete, but its record is not durable.
    #[error("the record cannot be written to disk")]
    NotRecorded,
}

impl ResponseError {
    /// The problem, if the client can still get one.
    pub fn problem(&self) -> Problem {
        match self {
            Self::UpstreamClosed => Problem::UpstreamClosed,
            Self::UpstreamProtocolError(_) | Self::AgentProtocolError(_) => {
                Problem::UpstreamProtocolError
            }
            Self::TimedOut(expired) => Rejection::from(*expired).problem,
            Self::File => Problem::FileUnreadable,
            Self::Compression => Problem::Internal,
            Self::TooLarge => Problem::ResponseTooLarge,
            Self::NotRecorded => Problem::JournalFull,
        }
    }
}

impl From<ResponseError> for Rejection {
    fn from(error: ResponseError) -> Self {
        let rejection = Self::new(error.problem());
        match error {
            ResponseError::UpstreamProtocolError(why) => rejection.detail(why.to_string()),
            ResponseError::AgentProtocolError(why) => rejection.detail(why.to_string()),
            ResponseError::TimedOut(expired) => expired.into(),
            _ => rejection,
        }
    }
}
