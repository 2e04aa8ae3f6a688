//! Thread scheduling: how serving threads and background threads share a core.
#![expect(unsafe_code, reason = "a thread's policy has no safe interface")]

use std::mem::MaybeUninit;
use std::sync::OnceLock;

use libc::c_int;

/// Time slice of a serving thread: the shortest that Linux accepts. A thread that wakes up runs
/// before threads with longer slices (since 6.12).
const TIME_SLICE_NS: u64 = 100_000;

/// Moves the calling thread to the idle scheduling class, or back. Where the system would not allow
/// the way back, the thread stays: without privileges a thread may leave the idle class only as far
/// as `RLIMIT_NICE` allows (`sched(7)`). An idle thread must not hold a lock: it may not run for a
/// long time.
pub fn run_when_idle(idle: bool) {
    static COMES_BACK: OnceLock<bool> = OnceLock::new();
    let comes_back = || {
        let round_trip = std::thread::Builder::new()
            .name("journal-try".to_owned())
            .spawn(|| schedule(libc::SCHED_IDLE) && schedule(libc::SCHED_OTHER));
        round_trip.is_ok_and(|round_trip| round_trip.join().unwrap_or(false))
    };
    if *COMES_BACK.get_or_init(comes_back) {
        schedule(if idle { libc::SCHED_IDLE } else { libc::SCHED_OTHER });
    }
}

/// Sets the scheduling class of the calling thread.
fn schedule(policy: c_int) -> bool {
    // SAFETY: all zeros is the only priority that both classes have.
    unsafe {
        let priority = MaybeUninit::<libc::sched_param>::zeroed().assume_init();
        libc::sched_setscheduler(0, policy, &raw const priority) == 0
    }
}

/// Gives the calling thread short time slices, and with them low latency. No effect on systems
/// without that feature.
pub fn use_short_time_slices() {
    let Some(mut attributes) = attributes() else { return };
    attributes.sched_runtime = TIME_SLICE_NS;
    // SAFETY: the system reads a structure of the size in it, and writes nothing.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// The scheduling attributes of the calling thread, if the system provides them.
fn attributes() -> Option<libc::sched_attr> {
    let size = size_of::<libc::sched_attr>();
    // SAFETY: all zeros are valid attributes, and the system writes no more than `size` bytes.
    unsafe {
        let mut attributes = MaybeUninit::<libc::sched_attr>::zeroed().assume_init();
        let result = libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0);
        (result == 0).then_some(attributes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_gives_its_time_away_gets_it_back() {
        // SAFETY: queries a number.
        let policy = || unsafe { libc::sched_getscheduler(0) };
        assert_eq!(policy(), libc::SCHED_OTHER);
        run_when_idle(true);
        // On a system without a way back it has stayed.
        assert!([libc::SCHED_IDLE, libc::SCHED_OTHER].contains(&policy()));
        run_when_idle(false);
        assert_eq!(policy(), libc::SCHED_OTHER);
    }

    #[test]
    fn turns_are_short_where_the_system_knows_of_it() {
        let nice = attributes().unwrap().sched_nice;
        use_short_time_slices();
        let now = attributes().unwrap();
        assert!(matches!(now.sched_runtime, 0 | TIME_SLICE_NS), "{}", now.sched_runtime);
        assert_eq!((now.sched_policy, now.sched_nice), (libc::SCHED_OTHER as u32, nice));
    }
}
