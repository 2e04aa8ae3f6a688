//! The explain thread: a worker without sockets and lane, whose counters are not reported.

use super::explain;
use crate::explanation::Explanation;
use crate::request_text::{RequestText, RequestTextError};
use crate::site::{Site, SiteError};
use crate::worker::{Control, Phase, Shared, Worker};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};
use weir_auth::AuthCounters;
use weir_config::LogTarget;
use weir_http::clock;
use weir_limit::Limiter;
use weir_telemetry::stats::WorkerStats;

/// Maximum number of requests in the queue.
const MAX_QUEUED: usize = 16;
/// Time limit of one request: only a file can delay it.
const TIMEOUT: Duration = Duration::from_secs(5);

type ExplainResult = Result<Explanation, RequestTextError>;

/// The queue of the explain thread.
#[derive(Debug)]
pub struct Explainer {
    requests: mpsc::Sender<(RequestText, SyncSender<ExplainResult>)>,
    /// Keeps the thread of an offline explainer running.
    _control: Option<watch::Sender<Control>>,
}

impl Explainer {
    /// Starts the thread; it follows `control` until the end of the drain.
    pub fn start(shared: Arc<Shared>, control: watch::Receiver<Control>) -> io::Result<Self> {
        let (requests, receiver) = mpsc::channel(MAX_QUEUED);
        std::thread::Builder::new().name("explain".to_owned()).spawn(move || {
            let site = Arc::clone(&control.borrow().site);
            let (stats, auth) = (Arc::<WorkerStats>::default(), Arc::<AuthCounters>::default());
            let worker: &'static Worker =
                Box::leak(Box::new(Worker::new(0, site, stats, auth, shared, None)));
            let runtime = Builder::new_current_thread()
                .enable_io()
                .enable_time()
                .on_thread_unpark(clock::turn)
                .build_local(LocalOptions::default());
            match runtime {
                Ok(runtime) => runtime.block_on(serve(worker, receiver, control)),
                // Callers get a timeout.
                Err(error) => eprintln!("explain is unavailable: {error}"),
            }
        })?;
        Ok(Self { requests, _control: None })
    }

    /// An explainer for a configuration that is not in use.
    pub(super) fn offline(site: Arc<Site>, limiter: Arc<Limiter>) -> Result<Self, SiteError> {
        let shared = Shared::new(&site.config, Arc::new(drop), limiter, LogTarget::Stderr)?;
        let (sender, control) = watch::channel(Control { site, phase: Phase::Serving, version: 0 });
        let explainer = Self::start(Arc::new(shared), control)?;
        Ok(Self { _control: Some(sender), ..explainer })
    }

    /// Explains a request. Blocks.
    pub fn ask(&self, ask: RequestText) -> ExplainResult {
        let (sender, reply) = sync_channel(1);
        self.requests.try_send((ask, sender)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => RequestTextError::Busy,
            mpsc::error::TrySendError::Closed(_) => RequestTextError::TimedOut,
        })?;
        reply.recv_timeout(TIMEOUT * 2).unwrap_or(Err(RequestTextError::TimedOut))
    }
}

/// Explains requests one after the other, each by the current configuration.
async fn serve(
    worker: &'static Worker,
    mut requests: mpsc::Receiver<(RequestText, SyncSender<ExplainResult>)>,
    mut control: watch::Receiver<Control>,
) {
    loop {
        let now = control.borrow_and_update().clone();
        // At once, not at the next request: it ends the pools of the previous Config.
        worker.follow(&now);
        if now.phase == Phase::Over {
            return;
        }
        let order = tokio::select! {
            changed = control.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
            order = requests.recv() => order,
        };
        let Some((ask, reply)) = order else { return };
        let explained = tokio::time::timeout(TIMEOUT, explain(worker, &ask)).await;
        // The caller may have timed out.
        let _ = reply.try_send(explained.unwrap_or(Err(RequestTextError::TimedOut)));
    }
}
