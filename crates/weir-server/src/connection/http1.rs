//! HTTP/1.x: one request after the other.

use super::{Start, disconnect_watch, exhausted, http2};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use weir_gateway::arrival::Protocol;
use weir_gateway::exchange::Exchange;
use weir_gateway::flow::{self, ClientClosed};
use weir_gateway::handler::HandlerInput;
use weir_gateway::response_body::ResponseBody;
use weir_gateway::upgrade;
use weir_gateway::worker::{Phase, Worker};
use weir_http::body::{Http1Body, Incoming, RequestBody, ResponseError};
use weir_http::buffer::Buffer;
use weir_http::deadline::{Deadline, Expired, Wait};
use weir_http::problem::Problem;
use weir_http::rejection::Rejection;
use weir_http::stream::Stream;
use weir_http::write_buffer::WriteBuffer;
use weir_wire::{Framing, HeadError, Known, Method, Scan, Version, encode};

/// An unread body up to this many bytes is read and discarded, to keep the connection.
const MAX_DISCARDED_BYTES: u64 = 64 * 1024;
/// How long a closing connection is read, so that the client receives the response: closing with
/// unread bytes would reset the connection (RFC 9112 section 9.6).
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of bytes read while lingering.
const LINGER_BYTES: usize = 1024 * 1024;
/// Limit on a connection without a request from [`Phase::HandedOver`] on: a request may be on its way.
const LAST_REQUEST_TIMEOUT: Duration = Duration::from_millis(500);

struct Connection {
    start: Start,
    stream: Stream,
    incoming: Incoming,
    deadline: Rc<Deadline>,
    /// Set while a request head is incomplete.
    exchange: Option<Box<Exchange>>,
    out: WriteBuffer,
    /// No request has arrived yet.
    fresh: bool,
}

/// The next event of a connection.
enum Next {
    /// A request; its head is in the exchange.
    Request(Box<Exchange>),
    /// The preface of HTTP/2.
    Http2,
    /// The end.
    Close,
    /// Not HTTP.
    Invalid(HeadError),
    /// An incomplete head, when its timeout expired.
    TimedOut,
}

/// Whether a connection continues.
#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Next,
    /// The client may still be sending: linger.
    Close,
    /// The client has disconnected.
    Drop,
}

/// Serves a connection until it is closed. Boxed, so that the connection does not keep the memory
/// of a handshake.
pub(super) fn serve(start: Start, stream: Stream) -> Pin<Box<impl Future<Output = ()>>> {
    Box::pin(run(start, stream))
}

async fn run(start: Start, stream: Stream) {
    let worker = start.worker;
    let mut connection = Connection {
        start,
        stream,
        incoming: Incoming::default(),
        deadline: Rc::default(),
        exchange: None,
        out: WriteBuffer::default(),
        fresh: true,
    };
    let _watch = poll_fn(|cx| Poll::Ready(worker.watch_phase(cx.waker().clone()))).await;
    loop {
        let after = match connection.next().await {
            Next::Request(exchange) => connection.exchange(exchange).await,
            Next::Http2 => {
                let Connection { start, incoming, stream, .. } = connection;
                return http2::serve(start, incoming.buffer, stream).await;
            }
            Next::Close => After::Drop,
            Next::Invalid(error) => connection.reject(error.into()).await,
            Next::TimedOut => connection.reject(Problem::RequestTimeout.into()).await,
        };
        match after {
            After::Next => connection.fresh = false,
            After::Close => return connection.linger().await,
            After::Drop => return,
        }
    }
}

impl Connection {
    /// Waits for a request head.
    async fn next(&mut self) -> Next {
        let worker = self.start.worker;
        let (limits, wire_limits) = {
            let live = worker.live();
            (live.site.config.limits, live.site.wire_limits)
        };
        self.incoming.scan = Scan::new();
        self.deadline.set_request(None);
        self.deadline.progress();
        poll_fn(|cx| {
            loop {
                let bytes = self.incoming.buffer.filled();
                if !bytes.is_empty() {
                    if self.fresh && is_http2(bytes) {
                        return Poll::Ready(Next::Http2);
                    }
                    let Start { worker, peer, .. } = self.start;
                    let mut exchange = self.exchange.take().unwrap_or_else(|| {
                        Exchange::take(worker, peer, Protocol::Http1, &self.deadline)
                    });
                    let request = &mut exchange.request;
                    match request.parse(bytes, &mut self.incoming.scan, &wire_limits) {
                        Ok(None) => self.exchange = Some(exchange),
                        Ok(Some(length)) => {
                            self.incoming.buffer.consume(length);
                            return Poll::Ready(Next::Request(exchange));
                        }
                        Err(error) => return Poll::Ready(Next::Invalid(error)),
                    }
                }
                if self.incoming.closed {
                    return Poll::Ready(Next::Close);
                }
                if self.incoming.poll_fill(&self.stream, cx).is_pending() {
                    let (wait, limit) = self.wait_limit(worker, limits.idle, limits.header_time);
                    return self.deadline.poll(cx, wait, limit).map(|_| match wait {
                        Wait::Head => Next::TimedOut,
                        _ => Next::Close,
                    });
                }
            }
        })
        .await
    }

    /// The current wait, and its limit.
    fn wait_limit(&self, worker: &Worker, idle: Duration, head: Duration) -> (Wait, Duration) {
        if !self.incoming.buffer.is_empty() {
            (Wait::Head, head)
        } else if worker.phase() >= Phase::HandedOver {
            (Wait::LastChance, LAST_REQUEST_TIMEOUT)
        } else {
            (Wait::Idle, idle)
        }
    }

    /// Serves the request whose head has arrived.
    async fn exchange(&mut self, mut owned: Box<Exchange>) -> After {
        let Self { start, stream, incoming, out, .. } = self;
        let worker = start.worker;
        let exchange = &mut *owned;
        let framing = exchange.request.framing;
        let expects_continue = exchange.request.version == Version::Http11
            && exchange.request.expects_continue() == Some(true);
        exchange.arrival.certificate.clone_from(&start.certificate);
        exchange.begin(start.listener, stream.is_tls());
        let idle = exchange.live().site.config.limits.idle;
        incoming.start(framing, expects_continue && !framing.is_empty());

        let body = match framing {
            Framing::None => RequestBody::empty(),
            _ => {
                let received = &worker.stats.request_bytes;
                RequestBody::http1(Http1Body::new(incoming, stream, framing), idle, received)
            }
        };
        let served = if start.reserve {
            Ok(flow::reject(exchange, exhausted()))
        } else {
            disconnect_watch::serve(stream, exchange, out, body).await
        };
        let response = match served {
            Ok(response) => response,
            Err(ClientClosed) => return After::Drop,
        };
        if let Some(upgraded) = exchange.upgraded.take() {
            drop(response);
            let HandlerInput { context, response, .. } = exchange.handler_input();
            let client = (&*stream, &mut incoming.buffer, out);
            let run = upgrade::run(client, &context, response, *upgraded, idle);
            let report = Box::pin(run).await;
            let lingers = report.lingers;
            exchange.end_upgrade(report);
            owned.give_back();
            return if lingers { After::Close } else { After::Drop };
        }
        // A request body that timed out is not awaited again.
        let close = !exchange.request.keep_alive
            || worker.phase() >= Phase::Draining
            || start.reserve
            || exchange.record.problem == Some(Problem::RequestTimeout);
        let sent = match response.detach() {
            Ok(response) => {
                let close = close || unread_is_long(incoming);
                send(stream, exchange, out, response, close, idle).await
            }
            Err(response) => send(stream, exchange, out, response, close, idle).await,
        };
        out.reset();
        let after = match sent {
            Sent::Complete { close: true } => After::Close,
            Sent::Complete { close: false } if incoming.body.is_done() && incoming.is_at_end() => {
                After::Next
            }
            Sent::Complete { close: false } => {
                Box::pin(skip_rest(incoming, stream, exchange, idle)).await
            }
            Sent::Aborted => {
                // For HTTP/1.0 the end of the connection may be the only end of a response.
                if exchange.request.version == Version::Http10 {
                    stream.reset_on_drop();
                }
                After::Drop
            }
        };
        owned.give_back();
        after
    }

    /// Responds to bytes that are no request.
    async fn reject(&mut self, rejection: Rejection) -> After {
        let Start { worker, peer, .. } = self.start;
        let mut exchange = Exchange::take(worker, peer, Protocol::Http1, &self.deadline);
        exchange.request.clear();
        // Without a readable head the request line is empty.
        exchange.request.set_line("", "", "");
        exchange.begin(self.start.listener, self.stream.is_tls());
        worker.stats.bad_requests.add(1);
        let idle = exchange.live().site.config.limits.idle;
        let response = flow::reject(&mut exchange, rejection);
        send(&self.stream, &mut exchange, &mut self.out, response, true, idle).await;
        exchange.give_back();
        After::Close
    }

    /// Ends the direction of the response, then reads until the client has received it. A client may be slow
    /// to take the end of a response, as it may be before.
    async fn linger(&mut self) {
        let idle = self.start.worker.live().site.config.limits.idle;
        let mut remaining = LINGER_BYTES;
        self.deadline.progress();
        let mut shut = false;
        poll_fn(|cx| {
            if !shut {
                match self.stream.poll_shutdown(cx) {
                    Poll::Ready(Ok(())) => shut = true,
                    Poll::Ready(Err(_)) => return Poll::Ready(()),
                    Poll::Pending => {}
                }
            }
            let mut discarded = Buffer::default();
            while let Poll::Ready(read) = self.stream.poll_read(cx, discarded.room(true)) {
                match read {
                    Ok(count @ 1..) if count < remaining => remaining -= count,
                    _ => return Poll::Ready(()),
                }
            }
            let (wait, limit) =
                if shut { (Wait::Linger, LINGER_TIMEOUT) } else { (Wait::Client, idle) };
            self.deadline.poll(cx, wait, limit).map(|_| ())
        })
        .await;
    }
}

/// The client connection preface of HTTP/2 (RFC 9113 section 3.4), or the start of it that no
/// HTTP/1 method could be.
fn is_http2(bytes: &[u8]) -> bool {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    bytes.len() >= 16 && PREFACE.starts_with(&bytes[..bytes.len().min(PREFACE.len())])
}

/// Too many bytes of the request are unread to keep the connection; or the client still waits for
/// `100 (Continue)` and may never send the body.
fn unread_is_long(incoming: &Incoming) -> bool {
    !incoming.body.is_done()
        && (incoming.expects_continue
            || incoming.body.remaining().is_none_or(|n| n > MAX_DISCARDED_BYTES))
}

/// Reads the rest of the request, so that the next one can be parsed.
async fn skip_rest(
    incoming: &mut Incoming,
    stream: &Stream,
    exchange: &Exchange,
    idle: Duration,
) -> After {
    if incoming.expects_continue {
        return After::Close;
    }
    let received = &exchange.worker.stats.request_bytes;
    let mut rest = RequestBody::http1(Http1Body::resume(incoming, stream), idle, received);
    let mut skipped = 0;
    exchange.deadline.progress();
    while let Ok(true) = poll_fn(|cx| rest.poll_data(cx, Some(&exchange.deadline))).await {
        let count = rest.data().len();
        rest.consume(count);
        skipped += count as u64;
        if skipped > MAX_DISCARDED_BYTES {
            return After::Close;
        }
    }
    if rest.is_done() { After::Next } else { After::Close }
}

/// Result of sending a response.
enum Sent {
    /// All bytes were sent; `close`: the connection cannot be used again.
    Complete { close: bool },
    /// The client disconnected, or the response was aborted: the connection must not look complete.
    Aborted,
}

/// Sends a response: head and body in as few writes as possible.
async fn send(
    stream: &Stream,
    exchange: &mut Exchange,
    out: &mut WriteBuffer,
    mut body: ResponseBody<'_>,
    close: bool,
    idle: Duration,
) -> Sent {
    loop {
        let close = write_head(exchange, out, &body, close);
        if !exchange.has_body() {
            body = ResponseBody::Empty;
        }
        exchange.deadline.progress();
        let mut is_finished = false;
        let sent =
            poll_fn(|cx| poll_send(stream, exchange, out, &mut body, &mut is_finished, idle, cx))
                .await;
        match sent {
            Ok(()) => return Sent::Complete { close },
            Err(Some(why)) if may_still_reject(exchange, out, &why) => {
                out.reset();
                exchange.record.sent = 0;
                exchange.record.recording.restart();
                body = flow::reject(exchange, why.into());
            }
            Err(why) => {
                exchange.abort(why.as_ref());
                return Sent::Aborted;
            }
        }
    }
}

/// The upstream aborted its response before any byte was sent to the client. Local replies are not
/// replaced by another one.
fn may_still_reject(exchange: &Exchange, out: &WriteBuffer, why: &ResponseError) -> bool {
    out.is_untouched()
        && exchange.record.problem.is_none()
        && !matches!(why, ResponseError::TimedOut(_))
}

/// Writes the head; whether the connection ends with this response.
fn write_head(
    exchange: &Exchange,
    out: &mut WriteBuffer,
    body: &ResponseBody<'_>,
    close: bool,
) -> bool {
    let response = &exchange.response;
    let head = out.head();
    encode::status_line(head, response.status);
    encode::fields(head, &response.headers);
    if response.headers.known(Known::Date).is_none() {
        head.extend_from_slice(b"date: ");
        exchange.worker.date.push(exchange.arrival.unix, head);
        head.extend_from_slice(b"\r\n");
    }
    encode::field(head, Known::WeirTransactionId.name(), exchange.arrival.id.as_bytes());
    let http10 = exchange.request.version == Version::Http10;
    let declared = response.headers.known(Known::ContentLength).is_some();
    let to_head = exchange.request.method == Method::Head;
    let (chunked, ends_it) = match body.length_to_declare(to_head) {
        _ if declared || matches!(response.status, 204 | 304) => (false, false),
        Some(length) => {
            encode::content_length(head, length);
            (false, false)
        }
        None if to_head => (false, false),
        None if http10 => (false, true),
        None => {
            encode::field(head, "transfer-encoding", b"chunked");
            (true, false)
        }
    };
    let close = close || ends_it;
    if close {
        encode::field(head, "connection", b"close");
    } else if http10 {
        encode::field(head, "connection", b"keep-alive");
    }
    head.extend_from_slice(b"\r\n");
    out.set_chunked(chunked);
    close
}

/// Continues sending. `None` as error: the client disconnected.
fn poll_send(
    stream: &Stream,
    exchange: &mut Exchange,
    out: &mut WriteBuffer,
    body: &mut ResponseBody<'_>,
    is_finished: &mut bool,
    idle: Duration,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Option<ResponseError>>> {
    loop {
        if !*is_finished && out.has_room() {
            match body.poll_data(cx, &exchange.deadline) {
                Poll::Ready(Ok(true)) => {
                    exchange.record.sent += body.data().len() as u64;
                    if body.is_last() {
                        exchange.complete(body.data());
                    } else {
                        exchange.pass(body.data());
                    }
                    let copied = out.take(body.data());
                    body.consume(copied);
                    continue;
                }
                Poll::Ready(Ok(false)) => {
                    // Trailers are dropped: few clients of HTTP/1.1 accept them.
                    exchange.end_body(body.end());
                    exchange.complete(b"");
                    out.end();
                    *is_finished = true;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(Some(error))),
                Poll::Pending if out.is_empty() => {
                    if ready!(out.poll_flush(stream, cx)).is_err() {
                        return Poll::Ready(Err(None));
                    }
                    return Poll::Pending;
                }
                Poll::Pending => {}
            }
        }
        if out.is_empty() {
            if *is_finished {
                return out.poll_flush(stream, cx).map_err(|_| None);
            }
            continue;
        }
        match exchange.poll_durable(cx) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => return Poll::Ready(Err(None)),
            Poll::Pending => {
                body.poll_request(cx);
                exchange.deadline.progress();
                return Poll::Pending;
            }
        }
        match out.poll_write(stream, cx, body.data()) {
            Poll::Ready(Ok(direct)) => {
                body.consume(direct);
                exchange.deadline.progress();
            }
            Poll::Ready(Err(_)) => return Poll::Ready(Err(None)),
            Poll::Pending => {
                body.poll_request(cx);
                let expired: Expired = ready!(exchange.deadline.poll(cx, Wait::Client, idle));
                return Poll::Ready(Err(Some(ResponseError::TimedOut(expired))));
            }
        }
    }
}
