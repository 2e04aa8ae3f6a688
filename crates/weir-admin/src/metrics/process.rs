//! Statistics of the kernel about this process, under the names of Prometheus' client libraries
//! (<https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics>).

use super::Family;
use super::Kind::{Counter, Gauge};
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// CPU time, memory, descriptors; numbers that cannot be read are left out.
pub fn process() -> Vec<Family> {
    let process = procfs::process::Process::myself().ok();
    let stat = process.as_ref().and_then(|process| process.stat().ok());
    let status = process.and_then(|process| process.status().ok());
    let ticks = procfs::ticks_per_second() as f64;
    let cpu = stat.map(|stat| (stat.utime + stat.stime) as f64 / ticks);
    let memory = status.and_then(|status| status.vmrss).map(|kib| kib as f64 * 1024.0);
    let open = Some(open_descriptors() as f64).filter(|open| *open > 0.0);
    let families = [
        (Counter, "process_cpu_seconds_total", "CPU time, user and system.", cpu),
        (Gauge, "process_resident_memory_bytes", "Resident memory.", memory),
        (Gauge, "process_open_fds", "Open file descriptors.", open),
    ];
    let family = |(kind, name, help, value)| Some(Family::single(kind, name, help, value?));
    families.into_iter().filter_map(family).collect()
}

/// File descriptors of this process: of the table that most threads share, and of the tables of
/// workers.
fn open_descriptors() -> usize {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let tables: HashSet<BTreeSet<(OsString, PathBuf)>> =
        tasks.map(|task| table(&task.path().join("fd"))).collect();
    tables.iter().map(BTreeSet::len).sum()
}

/// Numbers and targets of the descriptors in a folder, without folders in `/proc`, which are open
/// only while they are listed.
fn table(folder: &Path) -> BTreeSet<(OsString, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let targets = entries.filter_map(|e| Some((e.file_name(), fs::read_link(e.path()).ok()?)));
    targets.filter(|(_, target)| !target.starts_with("/proc")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_all_metrics() {
        assert_eq!(process().len(), 3);
    }
}
