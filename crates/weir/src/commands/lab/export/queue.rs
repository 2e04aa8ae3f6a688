//! Batches of metrics that wait for a receiver.

use crate::otlp::points::Span;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};
use weir_admin::metrics::Family;

/// Most messages about a receiver that were not shown yet.
const MAX_NOTES: usize = 16;

/// All metrics at one time.
pub(super) struct Batch {
    pub(super) families: Vec<Family>,
    pub(super) span: Span,
}

/// A bounded queue. The sender never waits.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Notify,
    closed: watch::Sender<bool>,
    bound: usize,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Arc<Batch>>,
    counts: Counts,
    notes: Vec<String>,
    is_failing: bool,
}

/// What became of the batches. The difference was dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) batches: u64,
    pub(super) accepted: u64,
    /// Batches that the receiver will never accept, or accepted in part.
    pub(super) rejected: u64,
    /// The last failure.
    pub(super) problem: Option<String>,
}

impl Queue {
    pub(super) fn new(bound: usize) -> Self {
        Self {
            state: Mutex::default(),
            changed: Notify::new(),
            closed: watch::Sender::new(false),
            bound,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a batch; if the queue is full, the oldest one is dropped.
    pub(super) fn push(&self, batch: Arc<Batch>) {
        let mut state = self.state();
        state.counts.batches += 1;
        if state.waiting.len() >= self.bound {
            state.waiting.pop_front();
            state.counts.problem.get_or_insert_with(|| "the receiver is too slow".to_owned());
        }
        state.waiting.push_back(batch);
        self.changed.notify_one();
    }

    /// No further batches.
    pub(super) fn close(&self) {
        self.closed.send_replace(true);
        self.changed.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        *self.closed.borrow()
    }

    /// Waits for the next batch; `None` after the last one.
    pub(super) async fn next(&self) -> Option<Arc<Batch>> {
        loop {
            {
                let mut state = self.state();
                if let Some(batch) = state.waiting.pop_front() {
                    return Some(batch);
                }
                if self.is_closed() {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }

    /// Waits until the queue is closed.
    pub(super) async fn closed(&self) {
        // The sender is as old as the queue.
        let _ = self.closed.subscribe().wait_for(|closed| *closed).await;
    }

    /// Drops all batches that wait.
    pub(super) fn clear(&self) {
        self.state().waiting.clear();
    }

    /// The receiver accepted a batch.
    pub(super) fn accepted(&self) {
        let mut state = self.state();
        state.counts.accepted += 1;
        state.is_failing = false;
    }

    /// The receiver rejected a batch, or a part of one.
    pub(super) fn rejected(&self, name: &str, reason: &str) {
        self.state().counts.rejected += 1;
        self.failed(name, reason);
    }

    /// A batch could not be sent. A message is shown once, until the next success.
    pub(super) fn failed(&self, name: &str, reason: &str) {
        let mut state = self.state();
        state.counts.problem = Some(reason.to_owned());
        if !std::mem::replace(&mut state.is_failing, true) && state.notes.len() < MAX_NOTES {
            state.notes.push(format!("export to {name} failed: {reason}"));
        }
    }

    pub(super) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.state().notes)
    }

    pub(super) fn counts(&self) -> Counts {
        self.state().counts.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn batch(at: u64) -> Arc<Batch> {
        let span = Span { since: Duration::ZERO, until: Duration::from_secs(at) };
        Arc::new(Batch { families: Vec::new(), span })
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_full_queue_drops_the_oldest_batch() {
        let queue = Queue::new(2);
        (1..=3).for_each(|at| queue.push(batch(at)));
        queue.close();
        let mut left = Vec::new();
        while let Some(batch) = queue.next().await {
            left.push(batch.span.until.as_secs());
        }
        assert_eq!(left, [2, 3]);
        assert_eq!(queue.counts().batches, 3);
        assert_eq!(queue.counts().problem.as_deref(), Some("the receiver is too slow"));
    }

    #[test]
    fn a_failure_is_a_message_once_until_the_next_success() {
        let queue = Queue::new(2);
        queue.failed("x", "refused");
        queue.failed("x", "refused");
        assert_eq!(queue.take_notes(), ["export to x failed: refused"]);
        queue.accepted();
        queue.rejected("x", "status 400");
        assert_eq!(queue.take_notes(), ["export to x failed: status 400"]);
        assert_eq!((queue.counts().accepted, queue.counts().rejected), (1, 1));
    }
}
