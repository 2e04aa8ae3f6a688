//! Test requests of operators: injected instead of read from a socket, and otherwise served like
//! any other. A test request needs a credential, counts for limits and invoices, and is recorded; a
//! property of the transaction names the operator.

use super::serve::read;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::SyncSender;
use std::time::Instant;
use tokio::sync::Semaphore;
use weir_gateway::arrival::Protocol;
use weir_gateway::exchange::Exchange;
use weir_gateway::flow::{self, ClientClosed, flow};
use weir_gateway::request_text::{Ingress, RequestText, RequestTextError, read_head};
use weir_gateway::response_body::ResponseBody;
use weir_gateway::worker::{Shared, Worker};
use weir_http::body::RequestBody;
use weir_http::headers;
use weir_wire::Framing;

/// Property of the transaction of a test request: the name of the operator.
pub const TRIED_BY: &str = "tried-by";
/// Maximum number of bytes of the response body that are returned.
const MAX_BODY_BYTES: usize = 1 << 20;

/// The outcome of a test request.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TestOutcome {
    /// Transaction id.
    pub id: String,
    /// Status of the response.
    pub status: u16,
    /// Slug of the problem, if weir itself rejected the request.
    pub problem: Option<&'static str>,
    /// Header lines of the response.
    pub headers: Vec<(String, String)>,
    /// Body of the response, at most 1 MiB.
    pub body: Vec<u8>,
    /// Length of the body in bytes.
    pub bytes: u64,
    /// The response was aborted.
    pub broken: bool,
    /// Microseconds until the end of the response.
    pub duration_us: u64,
}

impl std::fmt::Debug for TestOutcome {
    /// Neither headers nor body.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestOutcome").field("id", &self.id).field("status", &self.status).finish()
    }
}

/// The outcome, or the reason why the request was not served.
pub(crate) type TestResult = Result<TestOutcome, RequestTextError>;

/// A test request on its way to a worker. Its result is reported, or the channel is closed.
pub(crate) struct TestRequest {
    pub(crate) text: RequestText,
    /// Name of the operator.
    pub(crate) by: String,
    pub(crate) result: SyncSender<TestResult>,
    shared: Arc<Shared>,
}

impl TestRequest {
    pub(crate) fn new(
        text: RequestText,
        by: &str,
        result: SyncSender<TestResult>,
        shared: &Arc<Shared>,
    ) -> Box<Self> {
        shared.resubmissions.fetch_add(1, Relaxed);
        Box::new(Self { text, by: by.to_owned(), result, shared: Arc::clone(shared) })
    }
}

impl Drop for TestRequest {
    fn drop(&mut self) {
        self.shared.resubmissions.fetch_sub(1, Relaxed);
    }
}

/// Serves a test request when a permit is free.
pub(super) async fn receive(
    worker: &'static Worker,
    test_request: Box<TestRequest>,
    permits: &Arc<Semaphore>,
) {
    let Ok(permit) = Arc::clone(permits).acquire_owned().await else { return };
    tokio::task::spawn_local(async move {
        let _permit = permit;
        let result = serve(worker, &test_request).await;
        // The caller may have timed out.
        let _ = test_request.result.try_send(result);
    });
}

async fn serve(worker: &'static Worker, test_request: &TestRequest) -> TestResult {
    let started = Instant::now();
    let live = worker.live();
    let arrival = Ingress::of(&live.site.config, &test_request.text)?;
    let head = arrival.head(&test_request.text)?;
    // The peer is this machine, independent of the headers.
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut exchange = Exchange::take(worker, peer, Protocol::InProcess, &Rc::default());
    let unreadable = read_head(&mut exchange.request, &head, &live.site.wire_limits);
    drop(live);
    // Applies even if a listener trusts this machine.
    weir_http::forwarded::strip(&mut exchange.request.headers, &[]);
    exchange.begin(arrival.listener, arrival.https);
    let notes = exchange.record.notes.get_or_insert_default();
    notes.add(weir_model::Annotation::Property, TRIED_BY, &test_request.by);
    let body = match exchange.request.framing {
        Framing::None => RequestBody::empty(),
        _ => RequestBody::buffered(test_request.text.body.clone()),
    };
    let served = match unreadable {
        Some(rejection) => Ok(flow::reject(&mut exchange, rejection)),
        None => flow(&mut exchange, body).await,
    };
    let result = match served {
        Ok(response) => Ok(take(&mut exchange, response, started).await),
        Err(ClientClosed) => {
            exchange.abort(None);
            Err(RequestTextError::TimedOut)
        }
    };
    exchange.give_back();
    result
}

/// Reads a response to its end, and returns the beginning of its body.
async fn take(exchange: &mut Exchange, body: ResponseBody<'_>, started: Instant) -> TestOutcome {
    let mut outcome = TestOutcome {
        id: exchange.arrival.id.as_str().to_owned(),
        status: exchange.response.status,
        problem: exchange.record.problem.map(weir_http::problem::Problem::slug),
        headers: headers::pairs(&exchange.response.headers).collect(),
        ..TestOutcome::default()
    };
    let read = read(exchange, body, |data| {
        outcome.bytes += data.len() as u64;
        let room = MAX_BODY_BYTES.saturating_sub(outcome.body.len());
        outcome.body.extend_from_slice(&data[..data.len().min(room)]);
    });
    outcome.broken = read.await.is_err();
    outcome.duration_us = started.elapsed().as_micros().try_into().unwrap_or(u64::MAX);
    outcome
}
