//! A request that an operator tries: it comes in by the door instead of a socket, and is a request
//! like any other. It needs the credential that it has, counts for limits and invoices, and is
//! recorded; a property of the transaction says whose it was.

use crate::body::{AnswerError, RequestBody};
use crate::exchange::{Exchange, Protocol};
use crate::flow::{self, Gone, flow};
use crate::headers;
use crate::request_text::{Arrival, RequestText, RequestTextError, read_head};
use crate::response_body::Body;
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
/// Most bytes of an answer's body that come back.
const SHOWN: usize = 1 << 20;

/// What came of a request that was tried.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tried {
    /// Its transaction id.
    pub id: String,
    /// Status of the answer.
    pub status: u16,
    /// If weir itself answered with an error, the last part of its type.
    pub problem: Option<&'static str>,
    /// Header lines of the answer.
    pub headers: Vec<(String, String)>,
    /// Its body, at most a MiB.
    pub body: Vec<u8>,
    /// Bytes that it has.
    pub bytes: u64,
    /// The answer broke off.
    pub broken: bool,
    /// Microseconds until its end.
    pub took_us: u64,
}

impl std::fmt::Debug for Tried {
    /// Neither headers nor body.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tried").field("id", &self.id).field("status", &self.status).finish()
    }
}

/// What came of it, or why nothing was done.
pub(crate) type Told = Result<Tried, RequestTextError>;

/// A request on its way through the door. Who waits for it is told, or finds that nobody is there.
pub(crate) struct Trial {
    pub(crate) ask: RequestText,
    /// Name of who tries it.
    pub(crate) by: String,
    pub(crate) told: SyncSender<Told>,
    shared: Arc<Shared>,
}

impl Trial {
    pub(crate) fn new(
        ask: RequestText,
        by: &str,
        told: SyncSender<Told>,
        shared: &Arc<Shared>,
    ) -> Box<Self> {
        shared.resubmissions.fetch_add(1, Relaxed);
        Box::new(Self { ask, by: by.to_owned(), told, shared: Arc::clone(shared) })
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        self.shared.resubmissions.fetch_sub(1, Relaxed);
    }
}

/// Serves it when there is a place.
pub(super) async fn receive(worker: &'static Worker, trial: Box<Trial>, places: &Arc<Semaphore>) {
    let Ok(place) = Arc::clone(places).acquire_owned().await else { return };
    tokio::task::spawn_local(async move {
        let _place = place;
        let told = serve(worker, &trial).await;
        // Whoever asked may have stopped waiting.
        let _ = trial.told.try_send(told);
    });
}

async fn serve(worker: &'static Worker, trial: &Trial) -> Told {
    let begun = Instant::now();
    let live = worker.live();
    let arrival = Arrival::of(&live.site.config, &trial.ask)?;
    let head = arrival.head(&trial.ask)?;
    // Whatever headers say: it comes from this machine.
    let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut exchange = Exchange::take(worker, peer, Protocol::InProcess, &Rc::default());
    let unreadable = read_head(&mut exchange.request, &head, &live.site.wire_limits);
    drop(live);
    // Also where a listener trusts this machine.
    crate::forwarded::strip(&mut exchange.request.headers, &[]);
    exchange.begin(arrival.listener, arrival.https);
    let notes = exchange.notes.get_or_insert_default();
    notes.add(weir_script::Annotation::Property, TRIED_BY, &trial.by);
    let body = match exchange.request.framing {
        Framing::None => RequestBody::empty(),
        _ => RequestBody::whole(trial.ask.body.clone()),
    };
    let answered = match unreadable {
        Some(refusal) => Ok(flow::refuse(&mut exchange, refusal)),
        None => flow(&mut exchange, body).await,
    };
    let told = match answered {
        Ok(answer) => Ok(take(&mut exchange, answer, begun).await),
        Err(Gone) => {
            exchange.abort(None);
            Err(RequestTextError::Late)
        }
    };
    exchange.give_back();
    told
}

/// Reads an answer to its end, and keeps the beginning of its body.
async fn take(exchange: &mut Exchange, mut answer: Body<'_>, begun: Instant) -> Tried {
    let lines = exchange
        .response
        .headers
        .iter()
        .map(|(_, name, value)| (name.to_ascii_lowercase(), headers::text(value).into_owned()));
    let mut tried = Tried {
        id: exchange.id.as_str().to_owned(),
        status: exchange.response.status,
        problem: exchange.problem.map(crate::problem::Problem::slug),
        headers: lines.collect(),
        ..Tried::default()
    };
    if exchange.request.method == Method::Head || matches!(tried.status, 204 | 304) {
        answer = Body::Empty;
    }
    exchange.deadline.progress();
    if let Err(error) = poll_fn(|cx| poll_take(exchange, &mut answer, &mut tried, cx)).await {
        exchange.abort(Some(&error));
        tried.broken = true;
    } else {
        let _ = poll_fn(|cx| exchange.poll_kept(cx)).await;
    }
    tried.took_us = begun.elapsed().as_micros().try_into().unwrap_or(u64::MAX);
    tried
}

fn poll_take(
    exchange: &mut Exchange,
    answer: &mut Body<'_>,
    tried: &mut Tried,
    cx: &mut Context<'_>,
) -> Poll<Result<(), AnswerError>> {
    while ready!(answer.poll_data(cx, &exchange.deadline))? {
        let data = answer.data();
        let length = data.len();
        exchange.sent += length as u64;
        tried.bytes += length as u64;
        let room = SHOWN.saturating_sub(tried.body.len());
        tried.body.extend_from_slice(&data[..length.min(room)]);
        if answer.is_last() {
            exchange.complete(data);
        } else {
            exchange.pass(data);
        }
        answer.consume(length);
    }
    // Once: the last bytes may have completed it.
    exchange.complete(b"");
    Poll::Ready(Ok(()))
}
