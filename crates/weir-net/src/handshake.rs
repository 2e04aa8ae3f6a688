//! Failed TLS handshakes of clients: messages for the operator at a limited rate, with the last
//! reason.

use crate::throttle::Throttle;
use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Failed handshakes of one worker, or of the admin listener, since the last message.
#[derive(Debug, Default)]
pub struct Failures(Mutex<Throttle<Failure>>);

#[derive(Debug)]
struct Failure {
    listener: usize,
    peer: SocketAddr,
    reason: Reason,
}

#[derive(Debug)]
enum Reason {
    Error(rustls::Error),
    /// It exceeded this timeout.
    Timeout(Duration),
}

impl Failures {
    fn state(&self) -> MutexGuard<'_, Throttle<Failure>> {
        // No operation under the lock is left incomplete by a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accounts for a handshake with the listener of this index that ended with this error. A client
    /// that closes its connection is no failure to report: port scans and health checks do.
    pub fn add(&self, listener: usize, peer: SocketAddr, error: &io::Error) {
        let error = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
        if let Some(error) = error {
            self.put(Failure { listener, peer, reason: Reason::Error(error.clone()) });
        }
    }

    /// Counts a handshake that exceeded this timeout.
    pub fn add_timeout(&self, listener: usize, peer: SocketAddr, after: Duration) {
        self.put(Failure { listener, peer, reason: Reason::Timeout(after) });
    }

    fn put(&self, failure: Failure) {
        self.state().add(1, failure);
    }

    /// The message that is due, if handshakes have failed since the one before. `server` is the
    /// reporter (`worker 1`), `address` returns the address of a listener by its index.
    pub fn due(
        &self,
        server: &str,
        address: impl FnOnce(usize) -> Option<SocketAddr>,
        now: Instant,
    ) -> Option<String> {
        let (count, failure) = self.state().due(now)?;
        let Failure { listener, peer, reason } = failure;
        let listener = address(listener).map(|address| address.to_string()).unwrap_or_default();
        let reason = match reason {
            Reason::Error(error) => error.to_string(),
            Reason::Timeout(after) => format!("timed out after {} s", after.as_secs_f64()),
        };
        let peer = peer.ip().to_canonical();
        Some(format!(
            "weir: {server}: TLS handshakes with clients failed: {count}; last: {peer} at listener \
             {listener}: {}",
            // Parts of it may come from the client.
            reason.escape_debug()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throttle::PAUSE;
    use rustls::{AlertDescription, Error};

    #[test]
    fn a_line_is_due_after_a_pause_and_names_the_last_reason() {
        let (failures, now) = (Failures::default(), Instant::now());
        let at = |index| (index == 0).then(|| "127.0.0.1:8443".parse().expect("an address"));
        let due = |now| failures.due("worker 1", at, now);
        let peer = "[::ffff:192.0.2.7]:4711".parse().expect("an address");
        failures.add(0, peer, &io::ErrorKind::UnexpectedEof.into());
        assert_eq!(due(now), None, "a closed connection is not reported");
        let error = Error::AlertReceived(AlertDescription::UnknownCA);
        let error = io::Error::new(io::ErrorKind::InvalidData, error);
        failures.add(0, peer, &error);
        failures.add(0, peer, &error);
        let line = due(now).expect("a line");
        assert!(line.starts_with("weir: worker 1: TLS"), "{line}");
        assert!(line.contains("failed: 2; last: 192.0.2.7 at listener 127.0.0.1:8443"), "{line}");
        assert!(line.contains("UnknownCA"), "{line}");
        failures.add_timeout(0, peer, Duration::from_secs(10));
        assert_eq!(due(now), None);
        let line = due(now + PAUSE).expect("a line");
        assert!(line.contains("failed: 1;") && line.ends_with("timed out after 10 s"), "{line}");
    }
}
