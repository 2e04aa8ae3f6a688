//! HTTP/2: one request at a time on a connection of hyper's.

use super::connection::Stream;
use super::event_loop::Loop;
use super::fault::Fault;
use super::http1::{Answer, Ask, Kept};
use super::plan::Keep;
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

/// Flow-control window of a stream and of the connection: no answer of a test waits for one.
const WINDOW: u32 = 16 * 1024 * 1024;

/// An open HTTP/2 connection.
pub(super) struct Http2 {
    sender: SendRequest<Whole>,
    bytes: Rc<Counted>,
    driver: JoinHandle<()>,
}

/// Bytes that went over a connection.
#[derive(Debug, Default)]
struct Counted {
    received: Cell<u64>,
    sent: Cell<u64>,
}

impl Http2 {
    pub(super) async fn start(stream: Stream) -> Result<Self, Fault> {
        let bytes = Rc::new(Counted::default());
        let stream = Counting { stream, bytes: bytes.clone() };
        let (sender, connection) = http2::Builder::new(LocalExecutor)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| fault(&error))?;
        let driver = tokio::task::spawn_local(async move {
            // How it ends is told to whoever waits for an answer.
            let _ = connection.await;
        });
        Ok(Self { sender, bytes, driver })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }

    /// Sends a request and waits for its answer to be whole.
    pub(super) async fn exchange(
        &mut self,
        events: &Loop,
        request: http::Request<Whole>,
        ask: Ask,
        kept: &mut Kept,
    ) -> Result<Answer, Fault> {
        tokio::time::timeout(ask.timeout, self.answer(events, request, ask, kept))
            .await
            .unwrap_or_else(|_| Err(Fault::late()))
    }

    async fn answer(
        &mut self,
        events: &Loop,
        request: http::Request<Whole>,
        ask: Ask,
        kept: &mut Kept,
    ) -> Result<Answer, Fault> {
        let before = (self.bytes.received.get(), self.bytes.sent.get());
        self.sender.ready().await.map_err(|error| fault(&error))?;
        let response = self.sender.send_request(request).await.map_err(|error| fault(&error))?;
        let mut answer = Answer {
            status: response.status().as_u16(),
            reusable: true,
            first_byte: events.now(),
            ..Answer::default()
        };
        if ask.keep >= Keep::Head {
            kept.take_head(&response);
        }
        let mut body = pin!(response.into_body());
        while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
            let frame = frame.map_err(|error| fault(&error))?;
            if let Some(data) = frame.data_ref() {
                answer.body += data.len() as u64;
                if ask.keep == Keep::Body {
                    kept.add(data);
                }
            }
        }
        answer.end = events.now();
        answer.received = self.bytes.received.get() - before.0;
        answer.sent = self.bytes.sent.get() - before.1;
        Ok(answer)
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Kept {
    /// Takes a head over, in the form it would have in HTTP/1.1.
    fn take_head<B>(&mut self, response: &http::Response<B>) {
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

/// A request for HTTP/2 of one that was put together for HTTP/1.1.
pub(super) fn request(
    head: &[u8],
    (scheme, authority, target): (&str, &str, &str),
    body: Bytes,
) -> Result<http::Request<Whole>, Fault> {
    let wrong = |_| Fault::request("the request cannot be put into HTTP/2");
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
    let method = lines.next().unwrap_or_default().split(|&byte| byte == b' ').next();
    let mut request = http::Request::builder()
        .method(method.unwrap_or_default())
        .uri(format!("{scheme}://{authority}{target}"));
    for line in lines.filter(|line| !line.is_empty()) {
        let Some(colon) = memchr::memchr(b':', line) else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii_start());
        // RFC 9113 section 8.2.2: fields of the connection are not for HTTP/2.
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        if !["host", "connection", "keep-alive", "transfer-encoding", "upgrade"]
            .iter()
            .any(|n| is(n))
        {
            request = request.header(name, value);
        }
    }
    request.body(Whole(Some(body))).map_err(wrong)
}

fn fault(error: &hyper::Error) -> Fault {
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(error) = cause.downcast_ref::<io::Error>() {
            return Fault::of(error);
        }
        source = cause.source();
    }
    if error.is_closed() || error.is_canceled() || error.is_incomplete_message() {
        return Fault::closed();
    }
    Fault::new(ErrorKind::Protocol, error.to_string())
}

/// A body that is there whole.
#[derive(Clone, Debug)]
pub(super) struct Whole(Option<Bytes>);

impl http_body::Body for Whole {
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

/// Counts what goes over a connection.
struct Counting {
    stream: Stream,
    bytes: Rc<Counted>,
}

impl AsyncRead for Counting {
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

impl AsyncWrite for Counting {
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
