//! Errors of requests without a response.

use crate::sample::ErrorKind;
use std::io;

/// Why a request has no response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestError {
    pub(super) kind: ErrorKind,
    pub(super) message: String,
    /// The URL, if the request has no other one.
    pub(super) url: Option<String>,
    /// The server has certainly not processed the request.
    pub(super) is_unprocessed: bool,
}

impl RequestError {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), url: None, is_unprocessed: false }
    }

    /// The error with its URL.
    pub(super) fn of(self, url: &str) -> Self {
        Self { url: Some(url.to_owned()), ..self }
    }

    /// An error of an open connection.
    pub(super) fn from_io(error: &io::Error) -> Self {
        use io::ErrorKind as Io;
        let kind = match error.kind() {
            Io::ConnectionRefused => ErrorKind::Refused,
            Io::ConnectionReset | Io::ConnectionAborted | Io::BrokenPipe => ErrorKind::Reset,
            Io::UnexpectedEof => ErrorKind::Closed,
            Io::TimedOut => ErrorKind::Timeout,
            Io::InvalidData => ErrorKind::Tls,
            _ => ErrorKind::Network,
        };
        Self::new(kind, error.to_string())
    }

    /// An error while a connection is opened.
    pub(super) fn from_connect(error: &io::Error) -> Self {
        let fault = Self::from_io(error);
        match fault.kind {
            ErrorKind::Timeout => Self { kind: ErrorKind::ConnectTimeout, ..fault },
            _ => fault,
        }
    }

    pub(super) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the connection was closed before the response was complete")
    }

    pub(super) fn timed_out() -> Self {
        Self::new(ErrorKind::Timeout, "no complete response within the timeout")
    }

    pub(super) fn protocol(error: &impl std::fmt::Display) -> Self {
        Self::new(ErrorKind::Protocol, format!("the response is not HTTP: {error}"))
    }

    pub(super) fn request(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Request, message)
    }
}
