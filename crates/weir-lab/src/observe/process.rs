//! Observation of processes.

use super::family::family;
use crate::results::ServerRow;
use procfs::net::TcpState;
use procfs::process::{FDTarget, Process, Task};
use std::collections::HashMap;
use std::time::Instant;

/// Processes that are observed together with their descendants.
#[derive(Debug)]
pub struct Processes {
    pids: Vec<i32>,
    before: Option<(Instant, Reading)>,
}

/// A reading of the processes.
#[derive(Debug, Default)]
struct Reading {
    /// Each thread by its id.
    threads: HashMap<i32, ThreadTime>,
    /// Ticks of all processes; ended threads and ended child processes are included.
    ticks: u64,
    switches: u64,
    preempted: u64,
}

/// Times of a thread since its start.
#[derive(Clone, Copy, Debug, Default)]
struct ThreadTime {
    /// CPU time in ticks.
    ticks: u64,
    /// Nanoseconds that it could have run and waited for a core.
    waited: u64,
}

impl Processes {
    /// Processes with these ids.
    pub fn new(pids: &[i32]) -> Self {
        Self { pids: pids.to_vec(), before: None }
    }

    /// Takes a sample. Rates count from the previous sample; the first one has none. Ended
    /// processes are left out.
    pub fn sample(&mut self, now: Instant) -> ServerRow {
        let (mut memory, mut descriptors, mut threads) = (0, 0, 0);
        let mut reading = Reading::default();
        let page = procfs::page_size();
        for pid in family(&self.pids) {
            let Ok(process) = Process::new(pid) else { continue };
            let Ok(stat) = process.stat() else { continue };
            let ended = u64::try_from(stat.cutime + stat.cstime).unwrap_or(0);
            reading.ticks += stat.utime + stat.stime + ended;
            memory += stat.rss * page;
            descriptors += process.fd_count().unwrap_or(0) as u64;
            threads += u64::try_from(stat.num_threads).unwrap_or(0);
            for task in process.tasks().into_iter().flatten().flatten() {
                reading.add(&task);
            }
        }
        let found = |figure: u64| (threads > 0).then_some(figure);
        let mut row = ServerRow {
            memory: found(memory),
            descriptors: found(descriptors),
            threads: found(threads),
            ..ServerRow::default()
        };
        if let Some((then, before)) = &self.before {
            reading.compare(before, now.duration_since(*then).as_secs_f64(), &mut row);
        }
        self.before = Some((now, reading));
        row
    }
}

impl Reading {
    fn add(&mut self, task: &Task) {
        if let Ok(stat) = task.stat() {
            let waited = task.schedstat().map_or(0, |times| times.run_delay);
            let time = ThreadTime { ticks: stat.utime + stat.stime, waited };
            self.threads.insert(task.tid, time);
        }
        if let Ok(status) = task.status() {
            self.switches += status.voluntary_ctxt_switches.unwrap_or(0);
            self.preempted += status.nonvoluntary_ctxt_switches.unwrap_or(0);
        }
    }

    fn compare(&self, before: &Self, seconds: f64, row: &mut ServerRow) {
        if seconds <= 0.0 || self.threads.is_empty() {
            return;
        }
        let tick = procfs::ticks_per_second() as f64;
        let since = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        row.cpu = Some(since(self.ticks, before.ticks) / tick);
        let (mut busiest, mut waited) = (0, 0);
        for (tid, thread) in &self.threads {
            let then = before.threads.get(tid).copied().unwrap_or_default();
            busiest = busiest.max(thread.ticks.saturating_sub(then.ticks));
            waited += thread.waited.saturating_sub(then.waited);
        }
        row.busiest_thread = Some(busiest as f64 / seconds / tick);
        row.waiting_threads = Some(waited as f64 / 1e9 / seconds);
        row.switches = Some(since(self.switches, before.switches));
        row.preempted = Some(since(self.preempted, before.preempted));
    }
}

/// Processes of this machine with the listening TCP socket of a port: a server and its workers.
/// Empty for another machine, or for processes of another user.
pub fn listening_on(port: u16) -> Vec<i32> {
    let entries = [procfs::net::tcp(), procfs::net::tcp6()].into_iter().flatten().flatten();
    let sockets: Vec<u64> = entries
        .filter(|entry| entry.state == TcpState::Listen && entry.local_address.port() == port)
        .map(|entry| entry.inode)
        .collect();
    if sockets.is_empty() {
        return Vec::new();
    }
    let listens = |process: &Process| {
        process.fd().into_iter().flatten().flatten().any(
            |descriptor| matches!(descriptor.target, FDTarget::Socket(inode) if sockets.contains(&inode)),
        )
    };
    let processes = procfs::process::all_processes().into_iter().flatten().flatten();
    processes.filter(listens).map(|process| process.pid()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::time::Duration;

    #[test]
    fn the_cpu_of_a_busy_process_is_measured() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let mut processes = Processes::new(&[pid, i32::MAX]);
        let start = Instant::now();
        let first = processes.sample(start);
        assert!(first.memory.unwrap() > 1 << 20 && first.descriptors.unwrap() >= 3, "{first:?}");
        assert_eq!(first.cpu, None);
        while start.elapsed() < Duration::from_millis(300) {
            std::hint::black_box(0);
        }
        let second = processes.sample(Instant::now());
        assert!(second.cpu.unwrap() > 0.1, "{second:?}");
        assert!(second.busiest_thread.unwrap() > 0.1, "{second:?}");
        assert!(second.cpu.unwrap() >= second.busiest_thread.unwrap() - 0.1, "{second:?}");
    }

    #[test]
    fn a_process_that_is_not_there_has_no_figures() {
        let mut gone = Processes::new(&[i32::MAX]);
        gone.sample(Instant::now());
        assert_eq!(gone.sample(Instant::now()), ServerRow::default());
    }

    #[test]
    fn the_process_behind_a_port_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let pid = i32::try_from(std::process::id()).unwrap();
        assert_eq!(listening_on(port), [pid]);
        drop(listener);
        assert_eq!(listening_on(port), [0; 0]);
    }
}
