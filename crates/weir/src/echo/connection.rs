//! A connection: reads requests and responds to each.

use super::LARGEST_BODY;
use super::response::{self, Rest};
use super::websocket;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weir_wire::encode::LAST_CHUNK;
use weir_wire::{BodyDecoder, Framing, HeadLimits, RequestHead, Scan, encode};

/// Buffer of a read; a small request fits.
const READ_BYTES: usize = 16 * 1024;

/// Why a connection ends.
#[derive(Debug)]
pub(super) enum End {
    /// The client has disconnected.
    Closed,
    /// The request is rejected with this status.
    Rejected(u16),
}

const MALFORMED: End = End::Rejected(400);
const TOO_LARGE: End = End::Rejected(413);

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

/// Serves requests until the client or its last request ends the connection.
pub(super) async fn serve(stream: TcpStream, delay: Duration) -> Result<(), End> {
    stream.set_nodelay(true)?;
    let mut connection = Connection {
        stream,
        input: Vec::with_capacity(READ_BYTES),
        at: 0,
        head: RequestHead::default(),
        decoded: Vec::new(),
        output: Vec::with_capacity(1024),
    };
    let end = connection.requests(delay).await;
    if let Err(End::Rejected(status)) = end {
        connection.output.clear();
        response::rejection(status, &mut connection.output);
        connection.stream.write_all(&connection.output).await?;
        connection.linger().await;
    }
    end
}

struct Connection {
    stream: TcpStream,
    /// Received bytes; those before `at` are processed.
    input: Vec<u8>,
    at: usize,
    head: RequestHead,
    /// A body that was sent in chunks.
    decoded: Vec<u8>,
    output: Vec<u8>,
}

/// Where the body of the request is.
enum Body {
    Input(Range<usize>),
    Decoded,
}

impl Connection {
    async fn requests(&mut self, delay: Duration) -> Result<(), End> {
        while self.read_head().await? {
            if let Some(key) = websocket::accept_key(&self.head) {
                let rest = self.input.split_off(self.at);
                return Ok(websocket::serve(&mut self.stream, &key, rest).await?);
            }
            let body = self.read_body().await?;
            let wait = delay + response::delay(&self.head);
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            self.respond(body).await?;
            if !self.head.keep_alive {
                break;
            }
        }
        Ok(())
    }

    /// Reads the next head; `false` when the client has closed between requests.
    async fn read_head(&mut self) -> Result<bool, End> {
        let limits = HeadLimits::default();
        let mut scan = Scan::new();
        loop {
            if self.at < self.input.len() {
                let parsed = self.head.parse(&self.input[self.at..], &mut scan, &limits);
                if let Some(taken) = parsed.map_err(|_| MALFORMED)? {
                    self.at += taken;
                    return Ok(true);
                }
            }
            if !self.fill(READ_BYTES).await? {
                return if self.input.is_empty() { Ok(false) } else { Err(End::Closed) };
            }
        }
    }

    async fn read_body(&mut self) -> Result<Body, End> {
        match self.head.framing {
            Framing::None | Framing::UntilClose => Ok(Body::Input(0..0)),
            Framing::Length(length) if length > LARGEST_BODY as u64 => Err(TOO_LARGE),
            Framing::Length(length) => {
                let length = length as usize;
                self.send_continue(length).await?;
                while self.input.len() - self.at < length {
                    let missing = length - (self.input.len() - self.at);
                    if !self.fill(missing).await? {
                        return Err(End::Closed);
                    }
                }
                let start = self.at;
                self.at += length;
                Ok(Body::Input(start..self.at))
            }
            Framing::Chunked => {
                self.send_continue(1).await?;
                self.read_chunks().await?;
                Ok(Body::Decoded)
            }
        }
    }

    async fn read_chunks(&mut self) -> Result<(), End> {
        self.decoded.clear();
        let mut decoder = BodyDecoder::new(Framing::Chunked);
        while !decoder.is_done() {
            let input = &self.input[self.at..];
            let found = decoder.decode(input).map_err(|_| MALFORMED)?;
            if self.decoded.len() + found.data.len() > LARGEST_BODY {
                return Err(TOO_LARGE);
            }
            self.decoded.extend_from_slice(&input[found.data]);
            self.at += found.consumed;
            if found.consumed == 0 && !decoder.is_done() && !self.fill(READ_BYTES).await? {
                return Err(End::Closed);
            }
        }
        Ok(())
    }

    /// Sends `100 Continue` if the client waits for it.
    async fn send_continue(&mut self, length: usize) -> io::Result<()> {
        let waits = length > 0 && self.at == self.input.len();
        if waits && self.head.expects_continue() == Some(true) {
            self.stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        Ok(())
    }

    /// Reads once into room for at least `room` bytes; `false` at the end of the stream.
    async fn fill(&mut self, room: usize) -> io::Result<bool> {
        self.input.drain(..self.at);
        self.at = 0;
        self.input.reserve(room);
        Ok(self.stream.read_buf(&mut self.input).await? > 0)
    }

    async fn respond(&mut self, body: Body) -> io::Result<()> {
        let body = match body {
            Body::Input(range) => &self.input[range],
            Body::Decoded => &self.decoded,
        };
        self.output.clear();
        match response::write(&self.head, body, &mut self.output) {
            Rest::None => self.stream.write_all(&self.output).await,
            Rest::Body => write_both(&mut self.stream, &self.output, body).await,
            Rest::Chunks { count, pause } => self.stream_chunks(count, pause).await,
        }
    }

    async fn stream_chunks(&mut self, count: u64, pause: Duration) -> io::Result<()> {
        let line = [b'.'; response::CHUNK];
        for _ in 0..count {
            encode::chunk(&mut self.output, &line);
            if !pause.is_zero() || self.output.len() >= 64 * 1024 {
                self.stream.write_all(&self.output).await?;
                self.output.clear();
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
            }
        }
        self.output.extend_from_slice(LAST_CHUNK);
        self.stream.write_all(&self.output).await
    }

    /// Reads remaining bytes, within limits: with unread bytes, the kernel would send a reset, and the
    /// client might lose the response.
    async fn linger(&mut self) {
        let _ = self.stream.shutdown().await;
        for _ in 0..64 {
            self.input.clear();
            self.input.reserve(READ_BYTES);
            let read = self.stream.read_buf(&mut self.input);
            match tokio::time::timeout(Duration::from_millis(500), read).await {
                Ok(Ok(1..)) => {}
                _ => break,
            }
        }
    }
}

/// Writes two slices with one call if the socket takes them.
async fn write_both(stream: &mut TcpStream, head: &[u8], body: &[u8]) -> io::Result<()> {
    let mut written = 0;
    while written < head.len() {
        let slices = [IoSlice::new(&head[written..]), IoSlice::new(body)];
        match stream.write_vectored(&slices).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => written += n,
        }
    }
    stream.write_all(&body[written - head.len()..]).await
}
