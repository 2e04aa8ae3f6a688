//! One stream: the request is served, and the response sent as the flow control windows of the
//! client allow.

use super::{InFlight, head};
use crate::connection::{Start, exhausted};
use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::HeaderMap;
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use weir_config::Limits;
use weir_gateway::arrival::Protocol;
use weir_gateway::exchange::Exchange;
use weir_gateway::flow::{self, ClientClosed, flow};
use weir_gateway::response_body::ResponseBody;
use weir_http::body::{Http2Body, RequestBody, ResponseError, SharedResponse};
use weir_http::deadline::{Expired, Wait};
use weir_record::capture::NotRecorded;
use weir_wire::Known;

/// Maximum number of bytes passed to `h2` at once.
const MAX_DATA_BYTES: usize = 16 * 1024;

/// A request whose head has arrived.
pub(super) struct Request {
    pub(super) https: bool,
    pub(super) limits: Limits,
    pub(super) request: http::Request<RecvStream>,
    pub(super) response: SendResponse<Bytes>,
}

/// Why a stream is reset: the error of an aborted response, or `None` if the client disconnected.
struct Broken(Option<ResponseError>);

/// Serves a stream until its response is passed to `h2`, or the stream is reset.
pub(super) async fn serve(start: Start, request: Request, _open: InFlight) {
    let Request { https, limits, request, response } = request;
    let worker = start.worker;
    let mut exchange = Exchange::take(worker, start.peer, Protocol::Http2, &Rc::default());
    let (parts, incoming) = request.into_parts();
    let checked = head::read(&mut exchange, &parts, &limits);
    exchange.arrival.certificate.clone_from(&start.certificate);
    exchange.begin(start.listener, https);
    let expects = checked.is_ok()
        && !incoming.is_end_stream()
        && exchange.request.expects_continue() == Some(true);
    let (mut response, continues) = Response::new(response, expects);
    let body = match checked {
        Ok(_) if start.reserve => {
            drop(Http2Body::new(incoming, None, None));
            flow::reject(&mut exchange, exhausted())
        }
        Ok(framing) => {
            let body = Http2Body::new(incoming, framing, continues);
            let received = &worker.stats.request_bytes;
            let body = RequestBody::http2(body, limits.idle, received);
            match respond(&mut exchange, &mut response, body).await {
                Ok(body) => body,
                Err(ClientClosed) => return response.reset(Reason::INTERNAL_ERROR),
            }
        }
        Err(rejection) => {
            worker.stats.bad_requests.add(1);
            if let Some(value) = parts.headers.get(http::header::CONTENT_TYPE) {
                // The client can still accept a response; the other headers were not read.
                exchange.request.headers.push_known(Known::ContentType, value.as_bytes());
            }
            // The body is read within bounds, like every body that is not consumed.
            drop(Http2Body::new(incoming, None, None));
            flow::reject(&mut exchange, rejection)
        }
    };
    drop(parts);
    match send(&mut exchange, &mut response, body, limits.idle).await {
        Ok(()) => exchange.give_back(),
        Err(Broken(why)) => exchange.abort(why.as_ref()),
    }
}

/// Serves a request, unless the client resets the stream before the response.
async fn respond(
    exchange: &mut Exchange,
    response: &mut Response,
    body: RequestBody<'static>,
) -> Result<ResponseBody<'static>, ClientClosed> {
    let mut flow = pin!(flow(exchange, body));
    poll_fn(|cx| match flow.as_mut().poll(cx) {
        Poll::Ready(served) => Poll::Ready(served),
        Poll::Pending => response.poll_reset(cx).map(|()| Err(ClientClosed)),
    })
    .await
}

/// Sender of the response: shared with the body of the request while the client waits for `100
/// (Continue)`.
enum Response {
    Own(SendResponse<Bytes>),
    Shared(SharedResponse),
}

impl Response {
    /// The sender, and the share of the request body in it if the client expects `100 (Continue)`.
    fn new(response: SendResponse<Bytes>, expects: bool) -> (Self, Option<SharedResponse>) {
        if !expects {
            return (Self::Own(response), None);
        }
        let shared = Rc::new(RefCell::new(response));
        (Self::Shared(Rc::clone(&shared)), Some(shared))
    }

    fn with<T>(&mut self, act: impl FnOnce(&mut SendResponse<Bytes>) -> T) -> T {
        match self {
            Self::Own(response) => act(response),
            Self::Shared(response) => act(&mut response.borrow_mut()),
        }
    }

    /// Waits until the stream is reset or the connection is lost.
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.with(|response| response.poll_reset(cx)).map(|_| ())
    }

    fn send(&mut self, head: http::Response<()>, last: bool) -> Result<SendStream<Bytes>, Broken> {
        self.with(|response| response.send_response(head, last)).map_err(|_| {
            self.reset(Reason::INTERNAL_ERROR);
            Broken(None)
        })
    }

    fn reset(&mut self, reason: Reason) {
        self.with(|response| response.send_reset(reason));
    }
}

/// Sends a response: head, body and trailers.
async fn send(
    exchange: &mut Exchange,
    response: &mut Response,
    body: ResponseBody<'static>,
    idle: Duration,
) -> Result<(), Broken> {
    let has_body = exchange.has_body();
    let mut head = http::Response::new(());
    *head.status_mut() = http::StatusCode::from_u16(exchange.wire_status()).unwrap_or_default();
    head::write(exchange, &body, has_body, head.headers_mut());
    let body = if has_body { body } else { ResponseBody::Empty };
    if matches!(body, ResponseBody::Empty) {
        exchange.complete(b"");
        if poll_fn(|cx| exchange.poll_durable(cx)).await.is_err() {
            response.reset(Reason::INTERNAL_ERROR);
            return Err(Broken(Some(ResponseError::NotRecorded)));
        }
        return response.send(head, true).map(|_| ());
    }
    let stream = response.send(head, false)?;
    let mut sending = Sending { stream, body, end: None, idle };
    exchange.deadline.progress();
    let sent = poll_fn(|cx| sending.poll(exchange, cx)).await;
    if let Err(Broken(why)) = &sent {
        let slow_client = matches!(why, Some(ResponseError::TimedOut(Expired::Wait(Wait::Client))));
        let reason = if slow_client { Reason::CANCEL } else { Reason::INTERNAL_ERROR };
        sending.stream.send_reset(reason);
    }
    sent
}

/// A body being sent.
struct Sending {
    stream: SendStream<Bytes>,
    body: ResponseBody<'static>,
    /// Set once the exchange is complete; sent when the record is durable.
    end: Option<End>,
    /// Limit on a client that accepts no bytes.
    idle: Duration,
}

/// The end of a stream.
enum End {
    /// The last bytes, maybe empty.
    Data(Bytes),
    Trailers(HeaderMap),
}

impl Sending {
    /// Continues sending until the entire body is passed to `h2`, which gets only bytes that the
    /// windows of the client allow: without a window the body waits here, under the deadlines of
    /// the request.
    fn poll(&mut self, exchange: &mut Exchange, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        if self.stream.poll_reset(cx).is_ready() {
            return Poll::Ready(Err(Broken(None)));
        }
        while self.end.is_none() {
            match ready!(self.body.poll_data(cx, &exchange.deadline)) {
                Err(error) => return Poll::Ready(Err(Broken(Some(error)))),
                Ok(false) => {
                    let trailers = exchange.end_body(self.body.end());
                    exchange.complete(b"");
                    self.end = Some(trailers.map_or(End::Data(Bytes::new()), End::Trailers));
                }
                Ok(true) => {
                    let window = ready!(self.poll_window(exchange, cx))?;
                    let data = self.body.take(window);
                    exchange.record.sent += data.len() as u64;
                    exchange.deadline.progress();
                    if self.body.is_last() && self.body.data().is_empty() {
                        exchange.complete(&data);
                        self.end = Some(End::Data(data));
                    } else {
                        exchange.pass(&data);
                        self.stream.send_data(data, false).map_err(|_| Broken(None))?;
                    }
                }
            }
        }
        if let Err(NotRecorded) = ready!(exchange.poll_durable(cx)) {
            return Poll::Ready(Err(Broken(Some(ResponseError::NotRecorded))));
        }
        let sent = match self.end.take() {
            Some(End::Trailers(trailers)) => self.stream.send_trailers(trailers),
            Some(End::Data(data)) => self.stream.send_data(data, true),
            None => Ok(()),
        };
        Poll::Ready(sent.map_err(|_| Broken(None)))
    }

    /// Waits until the windows allow bytes of the buffered ones; returns their number.
    fn poll_window(
        &mut self,
        exchange: &Exchange,
        cx: &mut Context<'_>,
    ) -> Poll<Result<usize, Broken>> {
        let buffered = self.body.data().len().min(MAX_DATA_BYTES);
        self.stream.reserve_capacity(buffered);
        loop {
            let window = self.stream.capacity().min(buffered);
            if window > 0 || buffered == 0 {
                return Poll::Ready(Ok(window));
            }
            match self.stream.poll_capacity(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(Err(Broken(None))),
                Poll::Pending => {
                    // A client that sends its entire request before it reads would otherwise wait
                    // for ever.
                    self.body.poll_request(cx);
                    let expired = ready!(exchange.deadline.poll(cx, Wait::Client, self.idle));
                    return Poll::Ready(Err(Broken(Some(ResponseError::TimedOut(expired)))));
                }
            }
        }
    }
}
