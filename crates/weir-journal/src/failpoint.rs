//! Places where a test can make the file system fail, or the work end as a crash would end it.
//!
//! Tests of this crate order failures with [`Faults`]. Tests of the whole program build it with
//! the feature `failpoints` and name the place where the process kills itself in `WEIR_KILL_AT`,
//! with `:N` behind it after passing there N times. Without the feature there is nothing of this
//! in the program.

use std::io;
#[cfg(test)]
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// Ends the process as `kill -9` does, if a test has named this place.
#[cfg(feature = "failpoints")]
pub fn pass(point: &str) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};
    static ORDERED: OnceLock<Option<(String, u32)>> = OnceLock::new();
    static PASSED: AtomicU32 = AtomicU32::new(0);
    let ordered = ORDERED.get_or_init(|| {
        let ordered = std::env::var("WEIR_KILL_AT").ok()?;
        let (name, after) = ordered.split_once(':').unwrap_or((&ordered, "0"));
        Some((name.to_owned(), after.parse().ok()?))
    });
    if let Some((_, after)) = ordered.as_ref().filter(|(name, _)| name == point)
        && PASSED.fetch_add(1, Ordering::Relaxed) == *after
    {
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    }
}

/// Does nothing: the feature `failpoints` is off.
#[cfg(not(feature = "failpoints"))]
#[inline]
pub fn pass(_point: &str) {}

/// Failures that a test has ordered; outside tests nothing ever fails here.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    #[cfg(test)]
    ordered: Arc<Mutex<HashMap<&'static str, Failure>>>,
}

impl Faults {
    /// Fails if a failure is ordered for `point`.
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "a test's failures are in it"))]
    pub(crate) fn check(&self, point: &'static str) -> io::Result<()> {
        #[cfg(test)]
        {
            let mut ordered = self.ordered.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(failure) = ordered.get_mut(point) {
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

    /// Orders the next `times` passes through `point` to fail.
    #[cfg(test)]
    pub(crate) fn order(&self, point: &'static str, times: u32, kind: io::ErrorKind) {
        let mut ordered = self.ordered.lock().unwrap_or_else(PoisonError::into_inner);
        ordered.insert(point, Failure { after: 0, times, kind });
    }

    /// Orders one pass through `point` to fail, after `after` that go well.
    #[cfg(test)]
    pub(crate) fn order_after(&self, point: &'static str, after: u32, kind: io::ErrorKind) {
        let mut ordered = self.ordered.lock().unwrap_or_else(PoisonError::into_inner);
        ordered.insert(point, Failure { after, times: 1, kind });
    }

    /// Takes every order back.
    #[cfg(test)]
    pub(crate) fn clear(&self) {
        self.ordered.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
#[derive(Debug)]
struct Failure {
    after: u32,
    times: u32,
    kind: io::ErrorKind,
}
