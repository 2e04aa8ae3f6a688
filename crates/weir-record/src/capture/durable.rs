//! Waiting for the disk: with durability `disk` the last byte of a response is sent once its record
//! is synced. Meanwhile the worker serves other requests.

use super::Recording;
use std::task::{Context, Poll, ready};
use weir_config::WhenFull;

/// The record could not be written to disk, and unrecorded responses must not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRecorded;

impl Recording {
    /// Waits until the record is synced (durability `disk`). There is no timeout: the disk decides.
    /// If the disk fails, `when_full` decides.
    pub fn poll_durable(
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
