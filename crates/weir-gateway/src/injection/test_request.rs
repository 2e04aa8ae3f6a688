//! A request that an operator tries: it comes in by the door instead of a socket, and is a request
//! like any other. It needs the credential that it has, counts for limits and invoices, and is
//! recorded; a property of the transaction says whose it was.

use crate::body::{RequestBody, ResponseError};
use crate::exchange::{Exchange, Protocol};
use crate::flow::{self, ClientClosed, flow};
use crate::headers;
use crate::request_text::{Arrival, RequestText, RequestTextError, read_head};
use crate::response_body::ResponseBody;
use crate::worker::{Shared, Worker};
use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::SyncSender;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::sync::Semaphore;
use weir_wire::{Framing, Method};

/// Property of a transaction that was tried, with the name of who did.
pub const TRIED_BY: &str = "tried-by";
/// Most bytes of an response's body that come back.
const MAX_BODY_BYTES: usize = 1 << 20;

/// What came of a request that was tried.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TestOutcome {
    /// Its transaction id.
    pub id: String,
    /// Status of the response.
    pub status: u16,
    /// If weir itself answered with an error, the last part of its type.
    pub problem: Option<&'static str>,
    /// Header lines of the response.
    pub headers: Vec<(String, String)>,
    /// Its body, at most a MiB.
    pub body: Vec<u8>,
    /// Bytes that it has.
    pub bytes: u64,
    /// The response broke off.
    pub broken: bool,
    /// Microseconds until its end.
    pub duration_us: u64,
}

impl std::fmt::Debug for TestOutcome {
    /// Neither headers nor body.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestOutcome").field("id", &self.id).field("status", &self.status).finish()
    }
}

/// What came of it, or why nothing was done.
pub(crate) type TestResult = Result<TestOutcome, RequestTextError>;

/// A request on its way through the door. Who waits for it is told, or finds that nobody is there.
pub(crate) struct TestRequest {
    pub(crate) text: RequestText,
    /// Name of who tries it.
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

/// Serves it when there is a place.
pub(super) async fn receive(
    worker: &'static Worker,
    test_request: Box<TestRequest>,
    permits: &Arc<Semaphore>,
) {
    let Ok(permit) = Arc::clone(permits).acquire_owned().await else { return };
    tokio::task::spawn_local(async move {
        let _permit = permit;
        let result = serve(worker, &test_request).await;
        // Whoever asked may have stopped waiting.
        let _ = test_request.result.try_send(result);
    });
}

async fn serve(worker: &'static Worker, test_request: &TestRequest) -> TestResult {
    let started = Instant::now();
    let live = worker.live();
    let arrival = Arrival::of(&live.site.config, &test_request.text)?;
    let head = arrival.head(&test_request.text)?;
    // Whatever headers say: it comes from this machine.
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut exchange = Exchange::take(worker, peer, Protocol::InProcess, &Rc::default());
    let unreadable = read_head(&mut exchange.request, &head, &live.site.wire_limits);
    drop(live);
    // Also where a listener trusts this machine.
    crate::forwarded::strip(&mut exchange.request.headers, &[]);
    exchange.begin(arrival.listener, arrival.https);
    let notes = exchange.notes.get_or_insert_default();
    notes.add(weir_script::Annotation::Property, TRIED_BY, &test_request.by);
    let body = match exchange.request.framing {
        Framing::None => RequestBody::empty(),
        _ => RequestBody::whole(test_request.text.body.clone()),
    };
    let answered = match unreadable {
        Some(rejection) => Ok(flow::reject(&mut exchange, rejection)),
        None => flow(&mut exchange, body).await,
    };
    let result = match answered {
        Ok(response) => Ok(take(&mut exchange, response, started).await),
        Err(ClientClosed) => {
            exchange.abort(None);
            Err(RequestTextError::Late)
        }
    };
    exchange.give_back();
    result
}

/// Reads an response to its end, and keeps the beginning of its body.
async fn take(
    exchange: &mut Exchange,
    mut body: ResponseBody<'_>,
    started: Instant,
) -> TestOutcome {
    let lines = exchange
        .response
        .headers
        .iter()
        .map(|(_, name, value)| (name.to_ascii_lowercase(), headers::text(value).into_owned()));
    let mut outcome = TestOutcome {
        id: exchange.id.as_str().to_owned(),
        status: exchange.response.status,
        problem: exchange.problem.map(crate::problem::Problem::slug),
        headers: lines.collect(),
        ..TestOutcome::default()
    };
    if exchange.request.method == Method::Head || matches!(outcome.status, 204 | 304) {
        body = ResponseBody::Empty;
    }
    exchange.deadline.progress();
    if let Err(error) = poll_fn(|cx| poll_take(exchange, &mut body, &mut outcome, cx)).await {
        exchange.abort(Some(&error));
        outcome.broken = true;
    } else {
        let _ = poll_fn(|cx| exchange.poll_kept(cx)).await;
    }
    outcome.duration_us = started.elapsed().as_micros().try_into().unwrap_or(u64::MAX);
    outcome
}

fn poll_take(
    exchange: &mut Exchange,
    response: &mut ResponseBody<'_>,
    outcome: &mut TestOutcome,
    cx: &mut Context<'_>,
) -> Poll<Result<(), ResponseError>> {
    while ready!(response.poll_data(cx, &exchange.deadline))? {
        let data = response.data();
        let length = data.len();
        exchange.sent += length as u64;
        outcome.bytes += length as u64;
        let room = MAX_BODY_BYTES.saturating_sub(outcome.body.len());
        outcome.body.extend_from_slice(&data[..length.min(room)]);
        if response.is_last() {
            exchange.complete(data);
        } else {
            exchange.pass(data);
        }
        response.consume(length);
    }
    // Once: the last bytes may have completed it.
    exchange.complete(b"");
    Poll::Ready(Ok(()))
}
