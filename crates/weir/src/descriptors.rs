//! File descriptors: limit, and inherited ones.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one. Many systems have a soft limit of 1024 for programs with
/// `select`; it would limit a server to a thousand connections.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, the limit stays.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Warning if the descriptor limit is lower than the limits of the configuration need.
pub(crate) fn shortage(needed: u64) -> Option<String> {
    let limit = getrlimit(Resource::Nofile).current?;
    (limit < needed).then(|| {
        format!(
            "warning: the configured limits need {needed} file descriptors, but only {limit} may \
             be open; raise the hard limit (`ulimit -Hn`, LimitNOFILE=), or lower \
             limits.connections and \
             `connections` of upstreams: otherwise clients get 503 descriptors-exhausted"
        )
    })
}

/// Bit in `/proc/self/fdinfo` of descriptors with close-on-exec.
const CLOSED_ON_EXEC: u32 = 0o2_000_000;

/// Closes inherited descriptors, so that child processes do not get them. To be called before
/// anything is opened; descriptors opened by weir are not inherited.
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
