//! Cores of threads and processes (`sched_setaffinity`).

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The calling thread on certain cores, until drop. Threads and processes that it starts meanwhile
/// stay on these cores.
#[derive(Debug)]
pub(super) struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Moves the calling thread to these cores; without cores it stays where it is.
    pub(super) fn to(cores: &[usize]) -> Result<Option<Self>, String> {
        if cores.is_empty() {
            return Ok(None);
        }
        let this = Pid::from_raw(0);
        let wrong = |error: nix::Error| {
            let all: Vec<String> = cores.iter().map(usize::to_string).collect();
            let count = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
            format!("cores {} cannot be used: {error}; {count} cores are available", all.join(", "))
        };
        let before = sched_getaffinity(this).map_err(wrong)?;
        let mut set = CpuSet::new();
        for core in cores {
            set.set(*core).map_err(wrong)?;
        }
        sched_setaffinity(this, &set).map_err(wrong)?;
        Ok(Some(Self { before }))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The cores of before exist.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> CpuSet {
        sched_getaffinity(Pid::from_raw(0)).unwrap()
    }

    #[test]
    fn threads_started_meanwhile_stay_on_the_cores() {
        let before = here();
        let first = (0..CpuSet::count()).find(|core| before.is_set(*core).unwrap()).unwrap();
        let pinned = Pinned::to(&[first]).unwrap();
        let of_thread = std::thread::spawn(here).join().unwrap();
        drop(pinned);
        let set = (0..CpuSet::count()).filter(|core| of_thread.is_set(*core).unwrap());
        assert_eq!(set.collect::<Vec<_>>(), [first]);
        assert_eq!(here(), before);
        let wrong = Pinned::to(&[CpuSet::count() - 1]).unwrap_err();
        assert!(wrong.contains("cannot be used") && wrong.contains("available"), "{wrong}");
        assert_eq!(here(), before);
    }
}
