//! Places where a test can make the file system fail, or the work end as a crash would end it.

use std::io;
#[cfg(test)]
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

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
        let _ = point;
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
