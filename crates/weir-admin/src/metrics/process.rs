//! Statistics of the kernel about this process, under the names of Prometheus' client libraries
//! (<https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics>).

use super::Family;
use super::Kind::{Counter, Gauge};
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Clock ticks per second in `/proc`: fixed by Linux' ABI (USER_HZ), whatever the kernel's own
/// rate.
const TICKS: f64 = 100.0;

/// CPU time, memory, descriptors; numbers that cannot be read are left out.
pub fn process() -> Vec<Family> {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let descriptors = open_descriptors();
    let family = |kind, name, help, value: Option<f64>| {
        value.map(|value| Family::single(kind, name, help, value))
    };
    let memory = resident_bytes(&status);
    let open = (descriptors > 0).then_some(descriptors as f64);
    [
        family(
            Counter,
            "process_cpu_seconds_total",
            "CPU time, user and system.",
            cpu_seconds(&stat),
        ),
        family(Gauge, "process_resident_memory_bytes", "Resident memory.", memory),
        family(Gauge, "process_open_fds", "Open file descriptors.", open),
    ]
    .into_iter()
    .flatten()
    .collect()
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

/// Fields 14 and 15 of `/proc/self/stat` (proc_pid_stat(5)); the name in field 2 may hold spaces.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}

fn resident_bytes(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_a_name_with_spaces() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20";
        assert_eq!(cpu_seconds(stat), Some(2.0));
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2_097_152.0));
    }

    #[test]
    fn this_process_has_all_of_them() {
        assert_eq!(process().len(), 3);
    }
}
