//! Waiting for the disk: with durability `disk` the last byte of a response leaves once its record
//! is synced, and the worker goes on with other requests meanwhile.

use super::Recording;
use std::task::{Context, Poll, ready};
use weir_config::WhenFull;

/// The disk did not take the record, and responses without one are not to be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRecorded;

impl Recording {
    /// Waits until the record of a completed exchange will outlive the machine, if that is promised.
    /// There is no limit of time: the disk decides. `when_full` is asked if the disk fails.
    pub fn poll_kept(
        &mut self,
        when_full: impl FnOnce() -> WhenFull,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), NotRecorded>> {
        let (Some(position), Some(lane)) = (self.until, &self.recorder.lane) else {
            return Poll::Ready(Ok(()));
        };
        let kept = ready!(lane.borrow().poll_durable(position, cx.waker()));
        self.until = None;
        if kept.is_ok() {
            return Poll::Ready(Ok(()));
        }
        self.recorder.stats.unrecorded.add(1);
        Poll::Ready(match when_full() {
            WhenFull::Shed => Ok(()),
            WhenFull::Refuse => Err(NotRecorded),
        })
    }
}
