//! Processes with their descendants: a server and the processes that it starts.

use nix::sys::time::TimeValLike;
use nix::time::{clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use procfs::process::{Process, Stat, all_processes};
use std::time::Duration;

/// Ids of these processes, of their descendants, and of the members of their process groups: a
/// daemon's parent is another process. A Lab that one of them has started is not part of them.
pub(super) fn family(roots: &[i32]) -> Vec<i32> {
    if roots.is_empty() {
        return Vec::new();
    }
    let stats = all_processes().into_iter().flatten().flatten();
    let lab = std::process::id().cast_signed();
    let is_candidate = |stat: &Stat| stat.pid != lab || roots.contains(&lab);
    let mut others: Vec<Stat> =
        stats.filter_map(|process| process.stat().ok()).filter(is_candidate).collect();
    let mut found = Vec::new();
    let is_root = |stat: &Stat| roots.contains(&stat.pid) || roots.contains(&stat.pgrp);
    found.extend(others.extract_if(.., |stat| is_root(stat)).map(|stat| stat.pid));
    // Ends with the last generation.
    loop {
        let parents = found.len();
        let children = others.extract_if(.., |stat| found.contains(&stat.ppid));
        let children: Vec<i32> = children.map(|stat| stat.pid).collect();
        found.extend(children);
        if found.len() == parents {
            return found;
        }
    }
}

/// CPU time that a process and its ended child processes have used: user and system time.
///
/// The CPU clock of the process counts nanoseconds. Ended child processes are known in ticks, after
/// their parent has waited for them.
fn cpu_time(stat: &Stat) -> Duration {
    let tick = 1.0 / procfs::ticks_per_second() as f64;
    let clock = clock_getcpuclockid(Pid::from_raw(stat.pid)).and_then(clock_gettime).ok();
    let own = clock.and_then(|time| u64::try_from(time.num_nanoseconds()).ok());
    let own = own.map_or_else(
        || Duration::from_secs_f64((stat.utime + stat.stime) as f64 * tick),
        Duration::from_nanos,
    );
    let ended = u64::try_from(stat.cutime + stat.cstime).unwrap_or(0);
    own + Duration::from_secs_f64(ended as f64 * tick)
}

/// CPU time and resident memory of processes with their descendants.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// User and system time of living processes and of ended ones that were waited for.
    pub cpu: Duration,
    /// Resident memory, in bytes.
    pub memory: u64,
    /// Resident memory without that of files, in bytes.
    pub anonymous: u64,
}

impl Usage {
    /// What these processes and their descendants have used up to now.
    #[must_use]
    pub fn of(roots: &[i32]) -> Self {
        let mut usage = Self::default();
        for pid in family(roots) {
            // A process that has ended meanwhile is part of its parent's time.
            let Ok(process) = Process::new(pid) else { continue };
            let Ok(stat) = process.stat() else { continue };
            usage.cpu += cpu_time(&stat);
            usage.memory += stat.rss * procfs::page_size();
            let anonymous = process.status().ok().and_then(|status| status.rssanon);
            usage.anonymous += anonymous.unwrap_or(0) * 1024;
        }
        usage
    }
}

/// CPU time of the threads with a name, also with a number behind it (`worker-0`), of these processes
/// and their descendants. Ended threads are not included.
#[must_use]
pub fn thread_time(roots: &[i32], name: &str) -> Duration {
    let processes = family(roots).into_iter().filter_map(|pid| Process::new(pid).ok());
    let tasks = processes.filter_map(|process| process.tasks().ok()).flatten().flatten();
    let is_named = |comm: &str| {
        let unnumbered = comm.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-');
        comm == name || unnumbered == name
    };
    let named = tasks.filter(|task| task.stat().is_ok_and(|stat| is_named(&stat.comm)));
    // In nanoseconds, unlike the times of `stat`.
    let times = named.filter_map(|task| task.schedstat().ok());
    times.map(|times| Duration::from_nanos(times.sum_exec_runtime)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};
    use std::time::Instant;

    #[test]
    fn ended_and_living_child_processes_count() {
        // A child process that ends after some work, then one that works on.
        let busy = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let script = format!("sh -c '{busy}'; echo done; sh -c 'echo next; {busy}; sleep 60'; :");
        let mut child =
            Command::new("sh").args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let mut lines =
            std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
        assert_eq!(lines.next().unwrap().unwrap(), "done");
        assert_eq!(lines.next().unwrap().unwrap(), "next");
        let first = Usage::of(&[pid]);
        assert!(first.cpu > Duration::from_millis(20), "the ended one counts: {first:?}");
        assert!(first.memory > 500_000, "{first:?}");
        assert_eq!(family(&[pid]).len(), 2);
        let start = Instant::now();
        while Usage::of(&[pid]).cpu <= first.cpu && start.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(Usage::of(&[pid]).cpu > first.cpu, "the living one counts");
        for member in family(&[pid]) {
            // A member may have ended.
            let member = rustix::process::Pid::from_raw(member).unwrap();
            let _ = rustix::process::kill_process(member, rustix::process::Signal::KILL);
        }
        child.wait().unwrap();
        assert_eq!(Usage::of(&[i32::MAX]), Usage::default());
    }

    #[test]
    fn threads_are_known_by_their_name() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let (ready, started) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let work = move || {
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(50) {
                std::hint::black_box(0);
            }
            ready.send(()).unwrap();
            let _ = ended.recv();
        };
        let thread = std::thread::Builder::new().name("busy-7".to_owned()).spawn(work).unwrap();
        started.recv().unwrap();
        assert!(thread_time(&[pid], "busy") > Duration::from_millis(1));
        assert!(thread_time(&[pid], "busy-7") > Duration::from_millis(1));
        assert_eq!(thread_time(&[pid], "bus"), Duration::ZERO);
        drop(end);
        thread.join().unwrap();
    }
}
