//! Why a request got no answer.

use crate::sample::ErrorKind;
use std::io;

/// A request that got no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) kind: ErrorKind,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Of an open connection.
    pub(super) fn of(error: &io::Error) -> Self {
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

    /// Of a connection that is being opened.
    pub(super) fn of_connect(error: &io::Error) -> Self {
        let fault = Self::of(error);
        match fault.kind {
            ErrorKind::Timeout => Self { kind: ErrorKind::ConnectTimeout, ..fault },
            _ => fault,
        }
    }

    pub(super) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the connection was closed before the answer was whole")
    }

    pub(super) fn late() -> Self {
        Self::new(ErrorKind::Timeout, "no whole answer in time")
    }

    pub(super) fn protocol(error: &impl std::fmt::Display) -> Self {
        Self::new(ErrorKind::Protocol, format!("what came is no HTTP: {error}"))
    }

    pub(super) fn request(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Request, message)
    }
}
