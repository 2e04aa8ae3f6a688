//! Responses of other nodes that are read line by line, as they arrive.
//!
//! A line is read when the caller wants it: until then the node waits, and at most one chunk and the
//! start of a line are here.

use super::{
    Peer, PeerError, PeerRequest, PeerResponse, PeerSettings, PeerState, Sender, address, rest,
    sign, with_causes,
};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::time::timeout;
use weir_http_client::{Connection, Incoming};

/// Longest line in bytes: a transaction with decoded bodies.
const MAX_LINE_BYTES: usize = 64 << 20;
/// Longest silence of a node whose line is waited for: three of its keep-alives.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// A response that is read line by line.
#[derive(Debug)]
pub struct PeerStream {
    /// Status.
    pub status: StatusCode,
    headers: HeaderMap,
    body: Incoming,
    /// Ends with the stream.
    _connection: Connection,
    buffer: BytesMut,
    /// Bytes at the start of the buffer that have no line end.
    searched: usize,
}

impl PeerStream {
    /// The next line without its end, which may be empty: a keep-alive; `None` at the end of the response.
    /// Nothing is lost if the future is dropped.
    ///
    /// # Errors
    /// The connection has failed or is silent, or the line is too long.
    pub async fn line(&mut self) -> Result<Option<Bytes>, PeerError> {
        loop {
            if let Some(line) = self.ready_line() {
                return Ok(Some(line));
            }
            if self.searched > MAX_LINE_BYTES {
                return Err(PeerError::Failed("a line of its response is too long".to_owned()));
            }
            let frame = timeout(IDLE_TIMEOUT, self.body.frame()).await;
            match frame.map_err(|_| PeerError::Timeout(IDLE_TIMEOUT))? {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
                Some(Err(error)) => return Err(PeerError::Failed(with_causes(&error))),
                None if self.buffer.is_empty() => return Ok(None),
                None => {
                    return Err(PeerError::Failed("its response ends within a line".to_owned()));
                }
            }
        }
    }

    /// The next line, if it has arrived.
    pub fn ready_line(&mut self) -> Option<Bytes> {
        let found = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        let Some(at) = found else {
            self.searched = self.buffer.len();
            return None;
        };
        let mut line = self.buffer.split_to(self.searched + at + 1);
        self.searched = 0;
        line.truncate(line.len() - 1);
        Some(line.freeze())
    }

    /// The complete response, if it is no stream but an error.
    ///
    /// # Errors
    /// The connection has failed, or there is more within the limit than a response may have.
    pub async fn complete(mut self, limit: Duration) -> Result<PeerResponse, PeerError> {
        let body = timeout(limit, rest(&mut self.body)).await;
        let body = body.unwrap_or(Err(PeerError::Timeout(limit)))?;
        Ok(PeerResponse { status: self.status, headers: self.headers, body })
    }
}

impl PeerState {
    /// Sends a request to a node on a connection of its own, and returns its response once the head is
    /// there.
    ///
    /// # Errors
    /// There was no head within the limit.
    pub(crate) async fn open(
        &self,
        settings: &PeerSettings,
        sender: Sender,
        (peer, request): (&Peer, &PeerRequest),
        limit: Duration,
    ) -> Result<PeerStream, PeerError> {
        if peer.is_absent() {
            return Err(PeerError::Down);
        }
        if self.is_skipped(peer.id, Instant::now()) {
            return Err(PeerError::Skipped);
        }
        let opened = timeout(limit, self.start(settings, sender, peer, request)).await;
        let opened = opened.unwrap_or(Err(PeerError::Timeout(limit)));
        let missed = opened.as_ref().is_err_and(PeerError::is_miss);
        self.count(peer.id, missed, Instant::now());
        opened
    }

    async fn start(
        &self,
        settings: &PeerSettings,
        sender: Sender,
        peer: &Peer,
        request: &PeerRequest,
    ) -> Result<PeerStream, PeerError> {
        let (authority, tls) = address(&peer.url, settings)?;
        // The stream does not keep the permit: the admin API bounds the number of streams.
        let permit = self.permits.acquire().await;
        let _permit = permit.map_err(|_| PeerError::Settings("weir is stopping"))?;
        self.opened.fetch_add(1, Ordering::Relaxed);
        let connection = Connection::open(&authority, tls).await;
        let mut connection = connection.map_err(|error| PeerError::Failed(with_causes(&error)))?;
        let signed = sign(settings, sender, (peer, &authority), request)?;
        self.sent.fetch_add(1, Ordering::Relaxed);
        let response = connection.send(signed).await;
        let response = response.map_err(|error| PeerError::Failed(with_causes(&error)))?;
        let (head, body) = response.into_parts();
        Ok(PeerStream {
            status: head.status,
            headers: head.headers,
            body,
            _connection: connection,
            buffer: BytesMut::new(),
            searched: 0,
        })
    }
}
