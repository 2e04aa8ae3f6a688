//! File descriptors: how many a configuration may need, and what is kept in reserve so that clients
//! are told when there are no more.
//!
//! A descriptor has the lowest number that is free: a connection with a number in the reserve is one
//! for which hardly any other is left. Each of its requests is answered with 503, and it is closed.

use crate::throttle::Throttle;
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, RawFd};
use std::time::{Duration, Instant};
use weir_config::{AgentSource, Config, Handler};

/// Descriptors kept for telling clients, at least and at most; otherwise a sixteenth of the limit.
const RESERVE: (u64, u64) = (8, 64);
/// What a worker needs whatever it serves: its runtime, standard streams, logs.
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

/// Whether an error says that this process, or the machine, has no descriptor or memory left.
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
    /// By the limit in force now.
    pub fn by_limit() -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let kept = (limit / 16).clamp(RESERVE.0, RESERVE.1);
        Self { reserve: RawFd::try_from(limit.saturating_sub(kept)).unwrap_or(RawFd::MAX) }
    }

    /// Whether this one is of the reserve.
    pub fn is_reserve(&self, descriptor: &impl AsFd) -> bool {
        descriptor.as_fd().as_raw_fd() >= self.reserve
    }
}

/// How long a connection in the reserve lives at most, so that silent clients do not use it up.
pub const RESERVE_LIFETIME: Duration = Duration::from_secs(2);

/// Descriptors of a listener, one of which is given up when there is no other, so that a connection
/// can be accepted and told. Another thread may take a number between that and [`Self::refill`];
/// with more than one, clients are told all the same.
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

    /// Gives one up; whether there was one.
    pub fn give_up(&mut self) -> bool {
        self.0.pop().is_some()
    }

    /// Takes those again that were given up, as far as some are free.
    pub fn refill(&mut self) {
        while self.0.len() < Self::COUNT {
            let Ok(file) = File::open("/dev/null") else { return };
            self.0.push(file);
        }
    }
}

/// Says now and then that there were no descriptors.
#[derive(Debug, Default)]
pub struct Complaint {
    counted: u64,
    throttle: Throttle<()>,
}

impl Complaint {
    /// The line that is due, if more has been counted.
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
