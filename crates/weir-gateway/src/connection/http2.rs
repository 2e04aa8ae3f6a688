//! HTTP/2, spoken by hyper: every stream is a request like any other.

use super::Start;
use crate::body::{AnswerError, Body, Http2Body, RequestBody};
use crate::buffer::Buffer;
use crate::capture::{self, NotKept};
use crate::deadline::{Deadline, Wait};
use crate::exchange::{Exchange, Protocol};
use crate::flow::{self, Gone, flow};
use crate::headers;
use crate::problem::Problem;
use crate::refusal::Refusal;
use crate::stream::{Rewound, Stream};
use crate::worker::Phase;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use weir_config::Limits;
use weir_wire::{Known, Method};

/// Largest response DATA frame.
const FRAME: usize = 16 * 1024;
/// Room a client may fill before weir has read on, for one stream and for all of a connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;
/// How often a silent client is asked whether it is still there.
const PING: Duration = Duration::from_secs(20);
/// How long a client that was told to go away, and has nothing open, may take to do so.
const FAREWELL: Duration = Duration::from_secs(2);

/// Serves a connection until it is closed.
///
/// Boxed: hyper's connection is large, and most connections do not need the room.
pub(super) fn serve(
    start: Start,
    front: Buffer,
    stream: Stream,
) -> Pin<Box<impl Future<Output = ()>>> {
    Box::pin(run(start, front, stream))
}

async fn run(start: Start, front: Buffer, stream: Stream) {
    let worker = start.worker;
    let limits = worker.live().site.config.limits;
    let https = stream.is_tls();
    let open = Rc::new(Cell::new(0usize));
    let service = {
        let open = Rc::clone(&open);
        service_fn(move |request| {
            answer(start.clone(), https, limits, InFlight::new(&open), request)
        })
    };
    let mut builder = http2::Builder::new(LocalExecutor);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.http2_streams)
        .max_header_list_size(limits.header_bytes.min(1 << 24) as u32)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME as u32)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING);
    let io = TokioIo::new(Rewound::new(front, stream));
    let mut connection = std::pin::pin!(builder.serve_connection(io, service));
    let _watch = poll_fn(|cx| Poll::Ready(worker.watch_phase(cx.waker().clone()))).await;
    let idle = Deadline::default();
    let mut leaving = false;
    poll_fn(|cx| {
        loop {
            if connection.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            let (wait, limit) =
                if leaving { (Wait::LastChance, FAREWELL) } else { (Wait::Idle, limits.idle) };
            let over = if open.get() == 0 {
                idle.poll(cx, wait, limit).is_ready()
            } else {
                idle.progress();
                false
            };
            if leaving {
                // hyper itself would wait for a client that says nothing until its pings fail.
                return if over { Poll::Ready(()) } else { Poll::Pending };
            }
            if !over && worker.phase() < Phase::Draining {
                return Poll::Pending;
            }
            // GOAWAY; polled once more so that it leaves.
            connection.as_mut().graceful_shutdown();
            leaving = true;
        }
    })
    .await;
}

/// Runs hyper's tasks on this worker's thread.
#[derive(Clone, Copy)]
struct LocalExecutor;

impl<F: Future + 'static> hyper::rt::Executor<F> for LocalExecutor
where
    F::Output: 'static,
{
    fn execute(&self, task: F) {
        tokio::task::spawn_local(task);
    }
}

/// Counts the streams of a connection.
struct InFlight(Rc<Cell<usize>>);

impl InFlight {
    fn new(open: &Rc<Cell<usize>>) -> Self {
        open.set(open.get() + 1);
        Self(Rc::clone(open))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// The client is gone, or an answer broke off: the stream is reset.
#[derive(Debug, thiserror::Error)]
#[error("the stream broke off")]
struct Broken;

async fn answer(
    start: Start,
    https: bool,
    limits: Limits,
    in_flight: InFlight,
    request: http::Request<Incoming>,
) -> Result<http::Response<Http2Answer>, Broken> {
    let mut exchange = start.worker.exchange(start.peer, Protocol::Http2, &Rc::default());
    let (parts, incoming) = request.into_parts();
    let checked = read_head(&mut exchange, &parts, &limits);
    exchange.certificate.clone_from(&start.certificate);
    exchange.begin(start.listener, https);
    let body = match checked {
        Ok(()) => {
            let received = &start.worker.stats.request_bytes;
            let body = RequestBody::http2(Http2Body::new(incoming), limits.idle, received);
            flow(&mut exchange, body).await.map_err(|Gone| Broken)?
        }
        Err(refusal) => {
            start.worker.stats.bad_requests.add(1);
            if let Some(value) = parts.headers.get(http::header::CONTENT_TYPE) {
                // It says how the refusal is to look; headers were not read on.
                exchange.request.headers.push_known(Known::ContentType, value.as_bytes());
            }
            flow::refuse(&mut exchange, refusal)
        }
    };
    let has_body =
        exchange.request.method != Method::Head && !matches!(exchange.response.status, 204 | 304);
    let mut response = http::Response::new(());
    *response.status_mut() =
        http::StatusCode::from_u16(exchange.wire_status()).map_err(|_| Broken)?;
    write_head(&exchange, &body, has_body, response.headers_mut());
    let body = if has_body { body } else { Body::Empty };
    let (last, trailers) = (None, None);
    let mut body =
        Http2Answer { exchange, body, last, trailers, over: false, _in_flight: in_flight };
    if matches!(body.body, Body::Empty) {
        body.exchange.complete(b"");
        body.over = true;
        let kept = poll_fn(|cx| capture::poll_kept(&mut body.exchange, cx)).await;
        kept.map_err(|_| Broken)?;
    }
    Ok(response.map(|()| body))
}

/// Takes over a head, in the form that the stages work on.
fn read_head(
    exchange: &mut Exchange,
    parts: &http::request::Parts,
    limits: &Limits,
) -> Result<(), Refusal> {
    let request = &mut exchange.request;
    // Its memory may have held a request of somebody else.
    request.clear();
    let host = parts.headers.get(http::header::HOST).and_then(|value| value.to_str().ok());
    let authority = parts.uri.authority().map(http::uri::Authority::as_str).or(host);
    let target = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    request.set_line(parts.method.as_str(), target, authority.unwrap_or_default());
    if target.len() > limits.url {
        return Err(Problem::UrlTooLong.into());
    }
    if parts.headers.len() > limits.headers {
        return Err(Refusal::new(Problem::HeadersTooLarge).detail("too many header fields"));
    }
    if authority.is_none_or(str::is_empty) {
        return Err(Refusal::new(Problem::BadRequest).detail("there is no authority"));
    }
    // As in HTTP/1.1, so that it is recorded, and known when the request is sent again.
    request.headers.push("host", authority.unwrap_or_default().as_bytes());
    let mut cookies = Vec::new();
    for (name, value) in &parts.headers {
        match *name {
            http::header::COOKIE => {
                // Split for compression; whole again for HTTP/1.1 (RFC 9113 section 8.2.3).
                if !cookies.is_empty() {
                    cookies.extend_from_slice(b"; ");
                }
                cookies.extend_from_slice(value.as_bytes());
            }
            http::header::HOST => {}
            _ => request.headers.push(name.as_str(), value.as_bytes()),
        }
    }
    if !cookies.is_empty() {
        request.headers.push("cookie", &cookies);
    }
    Ok(())
}

fn write_head(exchange: &Exchange, body: &Body<'_>, has_body: bool, out: &mut http::HeaderMap) {
    let id = (Known::WeirTransactionId, Known::WeirTransactionId.name(), exchange.id.as_bytes());
    for field in exchange.response.headers.iter().chain([id]) {
        if headers::put_http2(out, field).is_err() {
            break;
        }
    }
    let declared = exchange.response.headers.known(Known::ContentLength).is_some();
    let to_head = exchange.request.method == Method::Head;
    if let (Some(length), false, false) =
        (body.length_to_declare(to_head), declared, matches!(exchange.response.status, 204 | 304))
        && (has_body || !matches!(body, Body::Empty))
    {
        out.insert(http::header::CONTENT_LENGTH, length.into());
    }
}

/// An answer's body as hyper asks for it.
struct Http2Answer {
    exchange: Box<Exchange>,
    body: Body<'static>,
    /// The last bytes, empty if there were none, once the exchange is complete; until they leave.
    last: Option<Bytes>,
    /// What follows it, until that leaves.
    trailers: Option<http::HeaderMap>,
    over: bool,
    _in_flight: InFlight,
}

impl Http2Answer {
    /// Waits for bytes that are not the last ones; those go to `last`.
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, AnswerError>> {
        if !std::task::ready!(self.body.poll_data(cx, &self.exchange.deadline))? {
            self.trailers = self.body.end(&mut self.exchange);
            self.exchange.complete(b"");
            self.last = Some(Bytes::new());
            return Poll::Ready(Ok(None));
        }
        let data = self.body.take(FRAME);
        self.exchange.sent += data.len() as u64;
        if self.body.is_last() && self.body.data().is_empty() {
            self.exchange.complete(&data);
            self.last = Some(data);
            return Poll::Ready(Ok(None));
        }
        capture::pass(&mut self.exchange, &data);
        Poll::Ready(Ok(Some(data)))
    }
}

impl http_body::Body for Http2Answer {
    type Data = Bytes;
    type Error = AnswerError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnswerError>>> {
        let this = &mut *self;
        if this.over {
            return Poll::Ready(None);
        }
        if this.last.is_none() {
            match std::task::ready!(this.poll_data(cx)) {
                Ok(Some(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(None) => {}
                Err(error) => {
                    this.over = true;
                    this.exchange.abort(Some(&error));
                    return Poll::Ready(Some(Err(error)));
                }
            }
        }
        let kept = std::task::ready!(capture::poll_kept(&mut this.exchange, cx));
        this.over = true;
        let last = this.last.take().unwrap_or_default();
        match kept {
            Ok(()) if last.is_empty() => {
                Poll::Ready(this.trailers.take().map(|trailers| Ok(Frame::trailers(trailers))))
            }
            Ok(()) => Poll::Ready(Some(Ok(Frame::data(last)))),
            Err(NotKept) => Poll::Ready(Some(Err(AnswerError::NotKept))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.over
    }

    fn size_hint(&self) -> SizeHint {
        match self.body.length() {
            Some(length) => SizeHint::with_exact(length),
            None => SizeHint::default(),
        }
    }
}
