//! Descriptors: how many there may be, and which are ours.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one. The soft one is 1024 on many systems, for the sake of
/// programs that use `select`; it would end a server's growth at a thousand connections.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Refused, it stays what it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// What to say if fewer descriptors may be open than the limits of the configuration need.
pub(crate) fn shortage(needed: u64) -> Option<String> {
    let most = getrlimit(Resource::Nofile).current?;
    (most < needed).then(|| {
        format!(
            "warning: the configured limits need {needed} file descriptors, but only {most} may \
             be open; raise the hard limit (`ulimit -Hn`, LimitNOFILE=), or lower \
             limits.connections and \
             `connections` of upstreams: otherwise clients get 503 descriptors-exhausted"
        )
    })
}

/// Bit of `/proc/self/fdinfo` that says that a descriptor is closed in programs that are started.
const CLOSED_ON_EXEC: u32 = 0o2_000_000;

/// Closes what whoever started weir has left open, so that programs that weir starts do not get it.
/// To be called before anything is opened; whatever weir itself opens is not passed on.
pub(crate) fn close_inherited() {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}"));
        let flags = info.ok().and_then(|info| {
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
            u32::from_str_radix(flags.trim(), 8).ok()
        });
        if flags.is_some_and(|flags| flags & CLOSED_ON_EXEC == 0) {
            let _ = nix::unistd::close(number);
        }
    }
}
