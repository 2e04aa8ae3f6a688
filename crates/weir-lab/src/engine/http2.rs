//! HTTP/2: one request at a time on a hyper connection.

use super::connection::Stream;
use super::event_loop::Loop;
use super::http1::{CapturedResponse, ExchangeOptions, ResponseSummary};
use super::plan::Capture;
use super::request_error::RequestError;
use crate::sample::ErrorKind;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::TokioIo;
use std::cell::Cell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::JoinHandle;
use weir_wire::encode;

/// Flow-control window of stream and connection: large enough that no response waits for an update.
const WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// An open HTTP/2 connection.
pub(super) struct Http2 {
    sender: SendRequest<FullBody>,
    bytes: Rc<ByteCounts>,
    driver: JoinHandle<()>,
}

/// Sent and received bytes of a connection.
#[derive(Debug, Default)]
struct ByteCounts {
    received: Cell<u64>,
    sent: Cell<u64>,
}

impl Http2 {
    pub(super) async fn start(stream: Stream) -> Result<Self, RequestError> {
        let bytes = Rc::new(ByteCounts::default());
        let stream = CountingStream { stream, bytes: bytes.clone() };
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
        Ok(Self { sender, bytes, driver })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends a request and waits for its response to be whole.
    pub(super) async fn exchange(
        &mut self,
        events: &Loop,
        request: http::Request<FullBody>,
        options: ExchangeOptions,
        captured: &mut CapturedResponse,
    ) -> Result<ResponseSummary, RequestError> {
        tokio::time::timeout(options.timeout, self.receive(events, request, options, captured))
            .await
            .unwrap_or_else(|_| Err(RequestError::timed_out()))
    }

    async fn receive(
        &mut self,
        events: &Loop,
        request: http::Request<FullBody>,
        options: ExchangeOptions,
        captured: &mut CapturedResponse,
    ) -> Result<ResponseSummary, RequestError> {
        let before = (self.bytes.received.get(), self.bytes.sent.get());
        self.sender.ready().await.map_err(|error| fault(&error))?;
        let head = self.sender.send_request(request).await.map_err(|error| fault(&error))?;
        let mut response = ResponseSummary {
            status: head.status().as_u16(),
            reusable: true,
            first_byte: events.now(),
            ..ResponseSummary::default()
        };
        if options.capture >= Capture::Head {
            captured.set_head(&head);
        }
        let mut body = pin!(head.into_body());
        while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            let frame = frame.map_err(|error| fault(&error))?;
            if let Some(data) = frame.data_ref() {
                response.body += data.len() as u64;
                if options.capture == Capture::Body {
                    captured.add(data);
                }
            }
        }
        response.end = events.now();
        response.received = self.bytes.received.get() - before.0;
        response.sent = self.bytes.sent.get() - before.1;
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
    fn set_head<B>(&mut self, response: &http::Response<B>) {
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
}

/// Converts a request encoded for HTTP/1.1.
pub(super) fn request(
    head: &[u8],
    (scheme, authority, target): (&str, &str, &str),
    body: Bytes,
) -> Result<http::Request<FullBody>, RequestError> {
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
    request.body(FullBody(Some(body))).map_err(wrong)
}

fn fault(error: &hyper::Error) -> RequestError {
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
    RequestError::new(ErrorKind::Protocol, error.to_string())
}

/// A complete body.
#[derive(Clone, Debug)]
pub(super) struct FullBody(Option<Bytes>);

impl http_body::Body for FullBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let bytes = self.0.take().filter(|bytes| !bytes.is_empty());
        Poll::Ready(bytes.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// Runs hyper's tasks on the loop.
#[derive(Clone, Copy)]
struct LocalExecutor;

impl<F: Future<Output: 'static> + 'static> hyper::rt::Executor<F> for LocalExecutor {
    fn execute(&self, future: F) {
        tokio::task::spawn_local(future);
    }
}

/// Counts the bytes of a connection.
struct CountingStream {
    stream: Stream,
    bytes: Rc<ByteCounts>,
}

impl AsyncRead for CountingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let received = &self.bytes.received;
        received.set(received.get() + (buffer.filled().len() - before) as u64);
        polled
    }
}

impl AsyncWrite for CountingStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        if let Poll::Ready(Ok(sent)) = &polled {
            self.bytes.sent.set(self.bytes.sent.get() + *sent as u64);
        }
        polled
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
