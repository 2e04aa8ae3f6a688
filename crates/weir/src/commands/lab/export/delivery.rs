//! The thread that posts batches to receivers.

use super::Identity;
use super::destination::{Destination, Outcome};
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::task::JoinSet;

/// Attempts to send a batch before it is dropped.
const MAX_ATTEMPTS: u32 = 4;
/// Delay before the second attempt; it doubles with each further one.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Longest `Retry-After` of a receiver.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);
/// Longest time for the last batches, after the load.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// The running thread.
pub(super) struct Delivery {
    destinations: Vec<Arc<Destination>>,
    thread: Option<JoinHandle<()>>,
}

impl Delivery {
    pub(super) fn start(
        destinations: Vec<Arc<Destination>>,
        identity: Arc<Identity>,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let all = destinations.clone();
        let thread =
            std::thread::Builder::new().name("lab-export".to_owned()).spawn(move || {
                runtime.block_on(deliver_all(all, &identity));
                // A name that is still resolved is not awaited.
                runtime.shutdown_background();
            })?;
        Ok(Self { destinations, thread: Some(thread) })
    }

    /// Waits for the last batches, up to [`FLUSH_TIMEOUT`].
    pub(super) fn finish(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.destinations.iter().for_each(|one| one.queue.close());
        if let Some(thread) = self.thread.take() {
            // A panic costs the rest of the batches, never the run.
            let _ = thread.join();
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.end();
    }
}

async fn deliver_all(destinations: Vec<Arc<Destination>>, identity: &Arc<Identity>) {
    let mut tasks = JoinSet::new();
    for destination in destinations {
        let identity = Arc::clone(identity);
        tasks.spawn(async move {
            let flushed = async {
                destination.queue.closed().await;
                tokio::time::sleep(FLUSH_TIMEOUT).await;
            };
            tokio::select! {
                () = deliver(&destination, &identity) => {}
                () = flushed => destination.failed("not accepted within 3 s after the load"),
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

/// Posts the batches of a destination, one after the other.
async fn deliver(destination: &Destination, identity: &Identity) {
    let mut idle = None;
    while let Some(batch) = destination.queue.next().await {
        let body = Bytes::from(destination.protocol.encode(&batch, identity));
        for attempt in 1..=MAX_ATTEMPTS {
            match destination.post(body.clone(), &mut idle).await {
                Outcome::Accepted => {
                    destination.queue.accepted();
                    break;
                }
                Outcome::Rejected(reason) => {
                    destination.queue.rejected(&destination.name, &reason);
                    break;
                }
                Outcome::Busy { after, reason } => {
                    destination.failed(&reason);
                    wait(destination, attempt, after).await;
                }
                Outcome::Unreachable(reason) => {
                    destination.failed(&reason);
                    if destination.queue.is_closed() {
                        destination.queue.clear();
                        break;
                    }
                    wait(destination, attempt, None).await;
                }
            }
        }
    }
}

/// Waits before the next attempt: as long as the receiver demands, or until the load is over.
async fn wait(destination: &Destination, attempt: u32, after: Option<Duration>) {
    if attempt == MAX_ATTEMPTS {
        return;
    }
    if let Some(after) = after {
        return tokio::time::sleep(after.min(MAX_RETRY_AFTER)).await;
    }
    let delay = RETRY_DELAY * (1 << (attempt - 1));
    let delay = tokio::time::sleep(delay.mul_f64(0.5 + fastrand::f64() / 2.0));
    if destination.queue.is_closed() {
        return delay.await;
    }
    tokio::select! {
        () = delay => {}
        () = destination.queue.closed() => {}
    }
}
