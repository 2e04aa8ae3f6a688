//! Responses of streams, part by part, over HTTP/1.1 or HTTP/2.

use super::violation;
use crate::engine::connection::{self, Connection};
use crate::engine::encode::Message;
use crate::engine::http1::{CapturedResponse, HEAD_LIMITS};
use crate::engine::http2::{self, Http2, Part, Reader};
use crate::engine::request_error::RequestError;
use crate::program::Origin;
use bytes::Bytes;
use http_body_util::Either;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weir_wire::{BodyDecoder, Method, ResponseHead, Scan};

/// Bytes of a read.
const READ_BYTES: usize = 16 * 1024;

/// The response of a stream after its head.
pub(super) enum Source {
    Http1 {
        stream: connection::Stream,
        /// Bytes that are not yet read.
        rest: Vec<u8>,
        body: BodyDecoder,
        received: u64,
        sent: u64,
    },
    Http2 {
        reader: Reader,
        /// The connection, which ends with the stream.
        _connection: Box<Http2>,
    },
}

impl Source {
    /// Sends a request on a new connection and reads the head of the response.
    pub(super) async fn open(
        connection: Connection,
        (origin, target, method): (&Origin, &str, Method),
        message: &Message,
        captured: &mut CapturedResponse,
    ) -> Result<Self, RequestError> {
        match connection {
            Connection::Http1(connection) => {
                let mut stream = connection.into_stream();
                let broken = |error: std::io::Error| RequestError::from_io(&error);
                stream.write_all(&message.bytes).await.map_err(broken)?;
                stream.flush().await.map_err(broken)?;
                let (rest, received) = read_head(&mut stream, method, captured).await?;
                let body = BodyDecoder::new(captured.head.framing);
                let sent = message.bytes.len() as u64;
                Ok(Self::Http1 { stream, rest, body, received, sent })
            }
            Connection::Http2(mut connection) => {
                let request = message.http2(origin, target)?.map(Either::Left);
                let reader = connection.open(request).await;
                let mut reader = reader.map_err(|error| http2::fault(&error))?;
                match reader.next().await.map_err(|error| http2::fault(&error))? {
                    Part::Head(head) => captured.set_head(&head),
                    _ => return Err(violation("the response has no head")),
                }
                Ok(Self::Http2 { reader, _connection: connection })
            }
        }
    }

    /// The next part of the body; `None` at its end. A wait for one may be given up.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, RequestError> {
        let (stream, rest, body, received) = match self {
            Self::Http1 { stream, rest, body, received, .. } => (stream, rest, body, received),
            Self::Http2 { reader, .. } => loop {
                match reader.next().await.map_err(|error| http2::fault(&error))? {
                    Part::Data(data) => return Ok(Some(data)),
                    Part::End => return Ok(None),
                    Part::Head(_) | Part::Trailers(_) => {}
                }
            },
        };
        loop {
            while !rest.is_empty() && !body.is_done() {
                let part = body.decode(rest).map_err(|error| RequestError::protocol(&error))?;
                let data = Bytes::copy_from_slice(&rest[part.data]);
                *received += part.consumed as u64;
                rest.drain(..part.consumed);
                if !data.is_empty() {
                    return Ok(Some(data));
                }
                if part.consumed == 0 {
                    break;
                }
            }
            if body.is_done() {
                return Ok(None);
            }
            rest.reserve(READ_BYTES);
            let read = stream.read_buf(rest).await;
            if read.map_err(|error| RequestError::from_io(&error))? == 0 {
                // Chunks have an end of their own.
                return body.close().map(|_| None).map_err(|_| RequestError::closed());
            }
        }
    }

    /// Received bytes.
    pub(super) fn received(&self) -> u64 {
        match self {
            Self::Http1 { received, .. } => *received,
            Self::Http2 { reader, .. } => reader.received(),
        }
    }

    /// Sent bytes.
    pub(super) fn sent(&self) -> u64 {
        match self {
            Self::Http1 { sent, .. } => *sent,
            Self::Http2 { reader, .. } => reader.sent(),
        }
    }
}

/// Reads the head of a response. Returns the bytes behind, and the length of the head.
async fn read_head(
    stream: &mut connection::Stream,
    method: Method,
    captured: &mut CapturedResponse,
) -> Result<(Vec<u8>, u64), RequestError> {
    captured.clear();
    let mut buffer = Vec::with_capacity(READ_BYTES);
    loop {
        let read = stream.read_buf(&mut buffer).await;
        if read.map_err(|error| RequestError::from_io(&error))? == 0 {
            return Err(RequestError::closed());
        }
        let mut head = ResponseHead::default();
        while let Some(length) = head
            .parse(&buffer, method, &mut Scan::new(), &HEAD_LIMITS)
            .map_err(|error| RequestError::protocol(&error))?
        {
            if (100..200).contains(&head.status) && head.status != 101 {
                buffer.drain(..length);
                continue;
            }
            captured.text.extend_from_slice(&buffer[..length]);
            captured.head = head;
            return Ok((buffer.split_off(length), length as u64));
        }
    }
}
