//! Waiting for the disk: with durability `disk` the last byte of an answer leaves once its record
//! is synced, and the worker goes on with other requests meanwhile.

use crate::exchange::Exchange;
use crate::worker::Worker;
use std::task::{Context, Poll};
use weir_config::WhenFull;
use weir_journal::Position;

/// The disk did not take the record, and answers without one are not to be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotKept;

/// What an answer waits for: the end of its record.
pub(super) fn wanted(worker: &Worker) -> Option<Position> {
    let lane = worker.lane.as_ref().filter(|_| worker.waits_for_disk)?;
    Some(lane.borrow().position())
}

/// Waits until the record of a completed exchange will outlive the machine, if that is promised.
/// There is no limit of time: the disk decides.
pub(crate) fn poll_kept(
    exchange: &mut Exchange,
    cx: &mut Context<'_>,
) -> Poll<Result<(), NotKept>> {
    let (Some(position), Some(lane)) = (exchange.recording.until, &exchange.worker.lane) else {
        return Poll::Ready(Ok(()));
    };
    let kept = std::task::ready!(lane.borrow().poll_durable(position, cx.waker()));
    exchange.recording.until = None;
    if kept.is_ok() {
        return Poll::Ready(Ok(()));
    }
    let worker = exchange.worker;
    worker.stats.unrecorded.add(1);
    Poll::Ready(match worker.live().site.config.journal.when_full {
        WhenFull::Shed => Ok(()),
        WhenFull::Refuse => Err(NotKept),
    })
}
