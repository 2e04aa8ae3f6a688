//! Points where a test can make the file system fail, or end the process as a crash would.
//!
//! Tests of this crate inject failures with [`Faults`]. Tests of the whole program build with the
//! feature `failpoints` and name a point in `WEIR_KILL_AT`, where the process kills itself, or in
//! `WEIR_PANIC_AT`, where the thread panics; a suffix `:N` skips the first N passes. Without the
//! feature the program contains none of this.

use std::io;
#[cfg(test)]
use {parking_lot::Mutex, std::collections::HashMap, std::sync::Arc};

/// Ends the process as `kill -9` does, or panics, if a test has named this point.
#[cfg(feature = "failpoints")]
pub fn pass(point: &str) {
    static KILL: Trigger = Trigger::new("WEIR_KILL_AT");
    static PANIC: Trigger = Trigger::new("WEIR_PANIC_AT");
    if KILL.is_due(point) {
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    }
    assert!(!PANIC.is_due(point), "a test has injected this panic");
}

/// One of the two variables.
#[cfg(feature = "failpoints")]
struct Trigger {
    variable: &'static str,
    setting: std::sync::OnceLock<Option<(String, u32)>>,
    passed: std::sync::atomic::AtomicU32,
}

#[cfg(feature = "failpoints")]
impl Trigger {
    const fn new(variable: &'static str) -> Self {
        let setting = std::sync::OnceLock::new();
        Self { variable, setting, passed: std::sync::atomic::AtomicU32::new(0) }
    }

    fn is_due(&self, point: &str) -> bool {
        let setting = self.setting.get_or_init(|| {
            let setting = std::env::var(self.variable).ok()?;
            let (name, after) = setting.split_once(':').unwrap_or((&setting, "0"));
            Some((name.to_owned(), after.parse().ok()?))
        });
        let Some((_, after)) = setting.as_ref().filter(|(name, _)| name == point) else {
            return false;
        };
        self.passed.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == *after
    }
}

/// No effect: the feature `failpoints` is off.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub fn pass(_point: &str) {}

/// Injected failures; outside tests there are none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    #[cfg(test)]
    injected: Arc<Mutex<HashMap<&'static str, Failure>>>,
}

impl Faults {
    /// Fails if a failure is injected at `point`.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "a test's failures are in it"))]
    pub(crate) fn check(&self, point: &'static str) -> io::Result<()> {
        #[cfg(test)]
        {
            let mut injected = self.injected.lock();
            if let Some(failure) = injected.get_mut(point) {
                if failure.after > 0 {
                    failure.after -= 1;
                } else if failure.times > 0 {
                    failure.times -= 1;
                    return Err(failure.kind.into());
                }
            }
        }
        pass(point);
        Ok(())
    }

    /// Makes the next `times` passes through `point` fail.
    #[cfg(test)]
    pub(crate) fn inject(&self, point: &'static str, times: u32, kind: io::ErrorKind) {
        let mut injected = self.injected.lock();
        injected.insert(point, Failure { after: 0, times, kind });
    }

    /// Makes one pass through `point` fail, after `after` successful ones.
    #[cfg(test)]
    pub(crate) fn inject_after(&self, point: &'static str, after: u32, kind: io::ErrorKind) {
        let mut injected = self.injected.lock();
        injected.insert(point, Failure { after, times: 1, kind });
    }

    /// Removes all injected failures.
    #[cfg(test)]
    pub(crate) fn clear(&self) {
        self.injected.lock().clear();
    }
}

#[cfg(test)]
#[derive(Debug)]
struct Failure {
    after: u32,
    times: u32,
    kind: io::ErrorKind,
}
