//! Observation of processes.

use crate::results::ServerRow;
use procfs::process::{Process, Task};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::time::Instant;

/// Processes that are observed together.
#[derive(Debug)]
pub struct Processes {
    pids: Vec<i32>,
    before: Option<Reading>,
}

/// A reading of the processes.
#[derive(Debug)]
struct Reading {
    at: Instant,
    /// Ticks of each thread, by its id.
    threads: HashMap<i32, u64>,
    /// Ticks of all processes, ended threads included.
    ticks: u64,
    switches: u64,
    preempted: u64,
}

impl Processes {
    /// Processes with these ids.
    pub fn new(pids: &[i32]) -> Self {
        Self { pids: pids.to_vec(), before: None }
    }

    /// Takes a sample. Rates count from the previous sample; the first one has none. Ended
    /// processes are left out.
    pub fn sample(&mut self, now: Instant) -> ServerRow {
        let mut row = ServerRow::default();
        let (mut memory, mut descriptors, mut threads) = (0, 0, 0);
        let mut reading =
            Reading { at: now, threads: HashMap::new(), ticks: 0, switches: 0, preempted: 0 };
        let page = procfs::page_size();
        for pid in &self.pids {
            let Ok(process) = Process::new(*pid) else { continue };
            let Ok(stat) = process.stat() else { continue };
            reading.ticks += stat.utime + stat.stime;
            memory += stat.rss * page;
            descriptors += process.fd_count().unwrap_or(0) as u64;
            threads += u64::try_from(stat.num_threads).unwrap_or(0);
            for task in process.tasks().into_iter().flatten().flatten() {
                reading.add(&task);
            }
        }
        if threads > 0 {
            row.memory = Some(memory);
            row.descriptors = Some(descriptors);
            row.threads = Some(threads);
        }
        if let Some(before) = &self.before {
            reading.compare(before, &mut row);
        }
        self.before = Some(reading);
        row
    }
}

impl Reading {
    fn add(&mut self, task: &Task) {
        if let Ok(stat) = task.stat() {
            self.threads.insert(task.tid, stat.utime + stat.stime);
        }
        if let Ok(status) = task.status() {
            self.switches += status.voluntary_ctxt_switches.unwrap_or(0);
            self.preempted += status.nonvoluntary_ctxt_switches.unwrap_or(0);
        }
    }

    fn compare(&self, before: &Self, row: &mut ServerRow) {
        let seconds = self.at.duration_since(before.at).as_secs_f64();
        if seconds <= 0.0 || self.threads.is_empty() {
            return;
        }
        let tick = procfs::ticks_per_second() as f64;
        let since = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        row.cpu = Some(since(self.ticks, before.ticks) / tick);
        let busiest = self.threads.iter().map(|(tid, ticks)| {
            ticks.saturating_sub(before.threads.get(tid).copied().unwrap_or(0))
        });
        row.busiest_thread = Some(busiest.max().unwrap_or(0) as f64 / seconds / tick);
        row.switches = Some(since(self.switches, before.switches));
        row.preempted = Some(since(self.preempted, before.preempted));
    }
}

/// Processes of this machine with the listening TCP socket of a port: a server and its workers.
/// Empty for another machine, or for processes of another user.
pub fn listening_on(port: u16) -> Vec<i32> {
    let mut sockets = Vec::new();
    for list in ["/proc/net/tcp", "/proc/net/tcp6"] {
        if let Ok(file) = File::open(list) {
            sockets.extend(listening_sockets(BufReader::new(file), port));
        }
    }
    if sockets.is_empty() {
        return Vec::new();
    }
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| has_one(*pid, &sockets)).collect()
}

/// Names of the listening sockets of a port, as in descriptor links. Listening sockets come first
/// in the list; the others may be many and are not read.
fn listening_sockets(list: impl BufRead, port: u16) -> Vec<String> {
    let mut found = Vec::new();
    for line in list.lines().skip(1).map_while(Result::ok) {
        // Slot, local address, remote address, state, queues, timer, retransmits, user, timeout,
        // inode.
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, state, _, _, _, _, _, inode, ..] = fields[..] else { continue };
        if state != LISTENS {
            break;
        }
        let here = local.rsplit(':').next().and_then(|hex| u16::from_str_radix(hex, 16).ok());
        if here == Some(port) {
            found.push(format!("socket:[{inode}]"));
        }
    }
    found
}

/// `TCP_LISTEN` in the kernel's lists.
const LISTENS: &str = "0A";

fn has_one(pid: i32, sockets: &[String]) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
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
