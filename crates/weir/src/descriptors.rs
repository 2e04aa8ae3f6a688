//! The limit on open descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one. The soft one is 1024 on many systems, for the sake of
/// programs that use `select`; it would end a server's growth at a thousand connections.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Refused, it stays what it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
