//! File descriptors: the number that a configuration may need, and a reserve, so that clients get
//! an error when none is left.
//!
//! A descriptor gets the lowest free number: a number in the reserve means that hardly any other is
//! left. Requests on such a connection are rejected with 503, and it is closed.

use crate::throttle::Throttle;
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, RawFd};
use std::time::{Duration, Instant};
use weir_config::{Config, Handler};
use weir_model::pool::AgentSource;

/// Size of the reserve, minimum and maximum; in between a sixteenth of the limit.
const RESERVE: (u64, u64) = (8, 64);
/// Descriptors of a worker for its runtime, standard streams and logs.
const BASE: u64 = 64;
/// Most files of a `files` route that a worker keeps open.
const FILES: u64 = 256;

/// Most descriptors that the limits of a configuration allow to be open at once: client connections,
/// connections to targets and agents, open files. A connection to a target counts in full, as one
/// worker may have all of them.
pub fn descriptors_needed(config: &Config) -> u64 {
    let targets = config.upstreams.iter().map(|u| u.targets.len() * u.connections);
    let agents = config.pools.iter().map(|pool| match pool.source {
        // The process, its log, and the connection to it.
        AgentSource::Start(_) => pool.agents.max * 3,
        AgentSource::Connect(_) => pool.agents.max,
    });
    let routes = config.apis.iter().flat_map(|api| &api.routes);
    let files = routes.filter(|route| matches!(route.handler, Handler::Files(_))).count();
    let sum: usize = targets.chain(agents).fold(config.limits.connections, usize::saturating_add);
    (sum as u64).saturating_add(files as u64 * FILES).saturating_add(BASE)
}

/// Whether the process, or the machine, has no descriptor or memory left.
pub fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// The limit of this process.
#[derive(Debug)]
pub struct Descriptors {
    /// The first number in the reserve.
    reserve: RawFd,
}

impl Descriptors {
    /// By the current limit.
    pub fn by_limit() -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let kept = (limit / 16).clamp(RESERVE.0, RESERVE.1);
        Self { reserve: RawFd::try_from(limit.saturating_sub(kept)).unwrap_or(RawFd::MAX) }
    }

    /// Whether a descriptor belongs to the reserve.
    pub fn is_reserve(&self, descriptor: &impl AsFd) -> bool {
        descriptor.as_fd().as_raw_fd() >= self.reserve
    }
}

/// Longest life of a connection in the reserve, so that silent clients do not use it up.
pub const RESERVE_LIFETIME: Duration = Duration::from_secs(2);

/// Spare descriptors of a listener. One is released when there is no other, so that a connection
/// can be accepted and gets an error. Another thread may take a number before [`Self::refill`];
/// therefore there is more than one.
#[derive(Debug)]
pub struct Spares(Vec<File>);

impl Spares {
    /// How many there are.
    const COUNT: usize = 2;

    /// With as many spare descriptors as are free.
    pub fn open() -> Self {
        let mut spares = Self(Vec::with_capacity(Self::COUNT));
        spares.refill();
        spares
    }

    /// Releases one; whether there was one.
    pub fn release_one(&mut self) -> bool {
        self.0.pop().is_some()
    }

    /// Opens released ones again, as far as descriptors are free.
    pub fn refill(&mut self) {
        while self.0.len() < Self::COUNT {
            let Ok(file) = File::open("/dev/null") else { return };
            self.0.push(file);
        }
    }
}

/// Reports exhausted descriptors, at a limited rate.
#[derive(Debug, Default)]
pub struct Complaint {
    counted: u64,
    throttle: Throttle<()>,
}

impl Complaint {
    /// The message, if one is due.
    pub fn due(&mut self, worker: usize, counted: u64, now: Instant) -> Option<String> {
        let more = counted - std::mem::replace(&mut self.counted, counted);
        self.throttle.add(more, ());
        let (more, ()) = self.throttle.due(now)?;
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        Some(format!(
            "weir: worker {worker}: {more} requests rejected: all {limit} file descriptors are in \
             use (raise the hard limit, or lower limits.connections)"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::throttle::PAUSE;

    #[test]
    fn a_line_is_due_when_more_was_counted_and_some_time_has_passed() {
        let (mut complaint, now) = (Complaint::default(), Instant::now());
        assert_eq!(complaint.due(1, 0, now), None);
        let line = complaint.due(1, 3, now).expect("a line");
        assert!(line.contains("worker 1") && line.contains("3 requests rejected"), "{line}");
        assert_eq!(complaint.due(1, 5, now), None);
        let line = complaint.due(1, 9, now + PAUSE).expect("a line");
        assert!(line.contains("6 requests rejected"), "{line}");
    }
}
