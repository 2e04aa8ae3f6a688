//! HTTP/2: one request at a time on a hyper connection.

mod reader;

pub(super) use reader::{Part, Reader};

use super::connection::Stream;
use super::event_loop::Loop;
use super::http1::{CapturedResponse, ExchangeOptions, ResponseSummary};
use super::plan::Capture;
use super::request_error::RequestError;
use crate::sample::ErrorKind;
use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Frame};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::cell::Cell;
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::io::{InspectReader, InspectWriter};
use weir_wire::encode;

/// Flow-control window of stream and connection: large enough that no response waits for an update.
const WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// The body of a request: all of it, or parts one after the other.
pub(super) type RequestBody = Either<Full<Bytes>, Parts>;

/// Parts of a body, as they are sent to the channel.
pub(super) struct Parts(pub(super) mpsc::Receiver<Bytes>);

impl Body for Parts {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}

/// An open HTTP/2 connection.
pub(super) struct Http2 {
    sender: SendRequest<RequestBody>,
    /// Received and sent bytes of the connection.
    received: Rc<Cell<u64>>,
    sent: Rc<Cell<u64>>,
    driver: JoinHandle<()>,
}

/// Adds the number of bytes to a sum.
fn counter(sum: &Rc<Cell<u64>>) -> impl FnMut(&[u8]) + use<> {
    let sum = sum.clone();
    move |bytes| sum.set(sum.get() + bytes.len() as u64)
}

impl Http2 {
    pub(super) async fn start(stream: Stream) -> Result<Self, RequestError> {
        let (received, sent) = (Rc::default(), Rc::default());
        let stream = InspectReader::new(stream, counter(&received));
        let stream = InspectWriter::new(stream, counter(&sent));
        let (sender, connection) = http2::Builder::new(LocalExecutor)
            .initial_stream_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| fault(&error))?;
        let driver = tokio::task::spawn_local(async move {
            // Errors are reported to the pending request.
            let _ = connection.await;
        });
        Ok(Self { sender, received, sent, driver })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends a request and waits for the complete response.
    pub(super) async fn exchange(
        &mut self,
        events: &Loop,
        request: http::Request<Full<Bytes>>,
        options: ExchangeOptions,
        captured: &mut CapturedResponse,
    ) -> Result<ResponseSummary, RequestError> {
        tokio::time::timeout(options.timeout, self.receive(events, request, options, captured))
            .await
            .unwrap_or_else(|_| Err(RequestError::timed_out()))
    }

    /// Sends a request whose response is read part by part.
    pub(super) async fn open(
        &mut self,
        request: http::Request<RequestBody>,
    ) -> Result<Reader, hyper::Error> {
        let counts = (self.received.clone(), self.sent.clone());
        self.sender.ready().await?;
        Ok(Reader::new(self.sender.send_request(request), counts))
    }

    async fn receive(
        &mut self,
        events: &Loop,
        request: http::Request<Full<Bytes>>,
        options: ExchangeOptions,
        captured: &mut CapturedResponse,
    ) -> Result<ResponseSummary, RequestError> {
        let before = (self.received.get(), self.sent.get());
        self.sender.ready().await.map_err(|error| fault_before_head(&error))?;
        let request = request.map(Either::Left);
        let response = self.sender.send_request(request).await;
        let head = response.map_err(|error| fault_before_head(&error))?;
        let mut response = ResponseSummary {
            status: head.status().as_u16(),
            reusable: true,
            first_byte: events.now(),
            ..ResponseSummary::default()
        };
        let mut capture = options.capture;
        if response.status >= 400 {
            // As with HTTP/1.1: the report shows an example of each failure.
            capture = Capture::Body;
        }
        if capture >= Capture::Head {
            captured.set_head(&head);
        }
        let mut body = head.into_body();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| fault(&error))?;
            if let Some(data) = frame.data_ref() {
                response.body += data.len() as u64;
                if capture == Capture::Body {
                    captured.add(data);
                }
            }
        }
        response.end = events.now();
        response.received = self.received.get() - before.0;
        response.sent = self.sent.get() - before.1;
        Ok(response)
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl CapturedResponse {
    /// Stores a head in HTTP/1.1 form.
    pub(super) fn set_head<B>(&mut self, response: &http::Response<B>) {
        self.clear();
        self.head.clear();
        self.head.status = response.status().as_u16();
        encode::status_line(&mut self.text, self.head.status);
        for (name, value) in response.headers() {
            self.head.headers.push(name.as_str(), value.as_bytes());
        }
        encode::fields(&mut self.text, &self.head.headers);
        self.text.extend_from_slice(b"\r\n");
    }

    /// Adds trailers to the fields of the head.
    pub(super) fn add_trailers(&mut self, trailers: &http::HeaderMap) {
        let end = self.text.len() - if self.text.ends_with(b"\r\n") { 2 } else { 0 };
        self.text.truncate(end);
        for (name, value) in trailers {
            self.head.headers.push(name.as_str(), value.as_bytes());
            encode::field(&mut self.text, name.as_str(), value.as_bytes());
        }
        self.text.extend_from_slice(b"\r\n");
    }
}

/// Converts a request encoded for HTTP/1.1.
pub(super) fn request(
    head: &[u8],
    (scheme, authority, target): (&str, &str, &str),
    body: Bytes,
) -> Result<http::Request<Full<Bytes>>, RequestError> {
    let wrong = |_| RequestError::request("the request cannot be sent over HTTP/2");
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
    let method = lines.next().unwrap_or_default().split(|&byte| byte == b' ').next();
    let mut request = http::Request::builder()
        .method(method.unwrap_or_default())
        .uri(format!("{scheme}://{authority}{target}"));
    for line in lines.filter(|line| !line.is_empty()) {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii_start());
        // RFC 9113 section 8.2.2: no connection-specific fields.
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        if !["host", "connection", "keep-alive", "transfer-encoding", "upgrade"]
            .iter()
            .any(|n| is(n))
        {
            request = request.header(name, value);
        }
    }
    request.body(Full::new(body)).map_err(wrong)
}

/// Whether the server has certainly not processed a request: the connection was about to end, or the
/// stream was refused (RFC 9113, section 8.7).
pub(super) fn is_unprocessed(error: &hyper::Error) -> bool {
    let of_stream = |error: &h2::Error| {
        error.is_remote()
            && (error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM))
    };
    let cause = std::error::Error::source(error).and_then(|cause| cause.downcast_ref());
    error.is_canceled() || error.is_closed() || cause.is_some_and(of_stream)
}

pub(super) fn fault(error: &hyper::Error) -> RequestError {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            return RequestError::from_io(error);
        }
        source = cause.source();
    }
    if error.is_closed() || error.is_canceled() || error.is_incomplete_message() {
        return RequestError::closed();
    }
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
    let message = format!("{error}{}", cause.unwrap_or_default());
    RequestError::new(ErrorKind::Protocol, message)
}

/// An error before any part of the response: the request may be unprocessed.
fn fault_before_head(error: &hyper::Error) -> RequestError {
    RequestError { is_unprocessed: is_unprocessed(error), ..fault(error) }
}

/// Runs hyper's tasks on the loop.
#[derive(Clone, Copy)]
struct LocalExecutor;

impl<F: Future<Output: 'static> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}
