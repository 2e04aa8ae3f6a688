//! How workers wait for connections: by io_uring or by epoll.

use std::io;
use weir_config::IoBackend;

/// What workers of this process use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Io {
    /// A ring of io_uring for each worker.
    Ring,
    /// epoll; with the reason why it is not io_uring, unless that is configured.
    Epoll(Option<String>),
}

impl Io {
    /// What is configured, or possible.
    ///
    /// # Errors
    ///
    /// `io: ring` is configured, and not possible.
    pub(crate) fn choose(configured: IoBackend) -> io::Result<Self> {
        if configured == IoBackend::Epoll {
            return Ok(Self::Epoll(None));
        }
        match weir_ring::probe() {
            Ok(()) => Ok(Self::Ring),
            Err(error) if configured == IoBackend::Auto => Ok(Self::Epoll(Some(error.to_string()))),
            Err(error) => Err(error),
        }
    }

    /// Whether workers use io_uring.
    pub fn is_ring(&self) -> bool {
        *self == Self::Ring
    }
}
