//! Requests to other nodes: the admin API of each, signed with the key of the fleet.
//!
//! Up to two idle connections to each node are kept for a minute. Every request has a deadline. A node that has not responded to three requests in a row is skipped for
//! 10 s; then it gets one more chance.

mod pool;
mod signature;
mod stream;

use crate::status::{NodeState, NodeStatus};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use parking_lot::Mutex;
use pool::Pool;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use signature::{Claims, Nonces};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use uuid::Uuid;
use weir_http_client::{Connection, Incoming, Tls};

pub use signature::{Person, SCHEME, SignatureError, Verified};
pub use stream::PeerStream;

/// Missing responses in a row after which a node is skipped.
const MAX_MISSES: u32 = 3;
/// Time for which it is skipped.
const SKIP: Duration = Duration::from_secs(10);
/// Requests to other nodes at the same time; further ones wait within their deadline.
const MAX_REQUESTS: usize = 32;
/// Largest response of another node in bytes.
const MAX_RESPONSE_BYTES: usize = 64 << 20;

/// Settings of requests between nodes.
#[derive(Clone)]
pub struct PeerSettings {
    /// The shared secret.
    key: String,
    /// URL of the admin listener of this node.
    pub(crate) advertise: String,
    /// TLS towards other nodes.
    tls: Option<Arc<ClientConfig>>,
    /// Name in their certificates, in place of their hosts.
    server_name: Option<ServerName<'static>>,
}

impl PeerSettings {
    /// The settings in a configuration.
    #[must_use]
    pub fn new(peers: &weir_config::Peers, tls: Option<Arc<ClientConfig>>) -> Self {
        Self {
            key: peers.key.clone(),
            advertise: peers.advertise.to_string(),
            tls,
            server_name: peers.tls.as_ref().and_then(|tls| tls.server_name.clone()),
        }
    }
}

impl std::fmt::Debug for PeerSettings {
    /// Does not print the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerSettings").field("advertise", &self.advertise).finish_non_exhaustive()
    }
}

/// Another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its id.
    pub id: Uuid,
    /// Display name.
    pub name: String,
    /// URL of its admin listener; empty if it has none for other nodes.
    url: String,
    state: NodeState,
}

impl Peer {
    /// Whether it sends heartbeats.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.state != NodeState::Down
    }

    /// Whether it receives no requests.
    fn is_absent(&self) -> bool {
        matches!(self.state, NodeState::Down | NodeState::Retired | NodeState::Lost)
    }

    /// The node, if it is not the own one.
    pub(crate) fn new(node: &NodeStatus, own: Uuid) -> Option<Self> {
        let id = node.id.parse().ok().filter(|id| *id != own)?;
        Some(Self { id, name: node.name.clone(), url: node.advertise.clone(), state: node.state })
    }
}

/// A node and its time, for a signature.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    pub(crate) node: Uuid,
    /// In milliseconds since 1970, by the clock of the database.
    pub(crate) now_ms: i64,
}

/// The nodes that have transactions, as of the last heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    /// Id of this node.
    pub own: Uuid,
    /// Name of this node.
    pub name: String,
    /// The others: they serve, or may come back.
    pub others: Vec<Peer>,
    /// Those that are retired or lost: they receive no requests.
    pub gone: Vec<Peer>,
}

/// A request to another node.
#[derive(Clone, Debug)]
pub struct PeerRequest {
    /// Method.
    pub method: Method,
    /// Path and query.
    pub target: String,
    /// Body, JSON; empty for none.
    pub body: Bytes,
    /// On whose behalf.
    pub person: Person,
}

/// The response of another node.
#[derive(Clone, Debug)]
pub struct PeerResponse {
    /// Status.
    pub status: StatusCode,
    /// Header.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

/// Why there is no response of another node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerError {
    /// Its lease has ended.
    #[error("it sends no heartbeats")]
    Down,
    /// It accepts no requests of other nodes.
    #[error("it has no `fleet.advertise`")]
    NoUrl,
    /// It has not responded lately.
    #[error(
        "it has not responded to the last {MAX_MISSES} requests, and is asked again in some seconds"
    )]
    Skipped,
    /// The deadline has passed.
    #[error("no response within {0:?}")]
    Timeout(Duration),
    /// The connection or TLS failed.
    #[error("{0}")]
    Failed(String),
    /// This node is not configured for it.
    #[error("{0}")]
    Settings(&'static str),
}

impl PeerError {
    /// Whether the node was asked in vain.
    fn is_miss(&self) -> bool {
        matches!(self, Self::Timeout(_) | Self::Failed(_))
    }
}

/// What a node remembers about others.
#[derive(Debug)]
pub(crate) struct PeerState {
    misses: Mutex<HashMap<Uuid, Misses>>,
    nonces: Mutex<Nonces>,
    permits: Semaphore,
    pool: Pool,
    opened: AtomicU64,
    sent: AtomicU64,
    missed: AtomicU64,
    rejected: AtomicU64,
}

impl Default for PeerState {
    fn default() -> Self {
        Self {
            misses: Mutex::default(),
            nonces: Mutex::default(),
            permits: Semaphore::new(MAX_REQUESTS),
            pool: Pool::default(),
            opened: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
        }
    }
}

/// Requests between nodes since weir was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerStatistics {
    /// Requests sent to other nodes.
    pub sent: u64,
    /// Connections opened for them.
    pub opened: u64,
    /// Requests without a response.
    pub missed: u64,
    /// Requests received with a wrong signature.
    pub rejected: u64,
}

impl PeerState {
    pub(crate) fn statistics(&self) -> PeerStatistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PeerStatistics {
            sent: read(&self.sent),
            opened: read(&self.opened),
            missed: read(&self.missed),
            rejected: read(&self.rejected),
        }
    }

    /// Closes idle connections, after a change of the settings.
    pub(crate) fn reconnect(&self) {
        self.pool.clear();
    }

    /// Whether a node has not responded lately.
    pub(crate) fn is_skipped(&self, id: Uuid, now: Instant) -> bool {
        self.misses.lock().get(&id).is_some_and(|misses| misses.until.is_some_and(|at| now < at))
    }

    fn count(&self, id: Uuid, missed: bool, now: Instant) {
        let mut all = self.misses.lock();
        if !missed {
            all.remove(&id);
            return;
        }
        self.missed.fetch_add(1, Ordering::Relaxed);
        let misses = all.entry(id).or_default();
        misses.count += 1;
        if misses.count >= MAX_MISSES {
            misses.until = Some(now + SKIP);
        }
    }
}

/// Missing responses of a node in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Misses {
    count: u32,
    /// The node is skipped until then.
    until: Option<Instant>,
}

impl PeerState {
    /// Sends a request to a node, and returns its complete response.
    ///
    /// # Errors
    /// There was none within the limit. The node may have received the request.
    pub(crate) async fn query(
        &self,
        settings: &PeerSettings,
        sender: Sender,
        (peer, request): (&Peer, &PeerRequest),
        limit: Duration,
    ) -> Result<PeerResponse, PeerError> {
        if peer.is_absent() {
            return Err(PeerError::Down);
        }
        let sent = timeout(limit, self.send(settings, sender, peer, request)).await;
        let response = sent.unwrap_or(Err(PeerError::Timeout(limit)));
        let missed = response.as_ref().is_err_and(PeerError::is_miss);
        self.count(peer.id, missed, Instant::now());
        response
    }

    async fn send(
        &self,
        settings: &PeerSettings,
        sender: Sender,
        peer: &Peer,
        request: &PeerRequest,
    ) -> Result<PeerResponse, PeerError> {
        let (authority, tls) = address(&peer.url, settings)?;
        let permit = self.permits.acquire().await;
        let _permit = permit.map_err(|_| PeerError::Settings("weir is stopping"))?;
        loop {
            let idle = self.pool.check_out(peer.id, &peer.url).await;
            let is_reused = idle.is_some();
            let mut connection = match idle {
                Some(connection) => connection,
                None => {
                    self.opened.fetch_add(1, Ordering::Relaxed);
                    let opened = Connection::open(&authority, tls.clone()).await;
                    opened.map_err(|error| PeerError::Failed(with_causes(&error)))?
                }
            };
            let signed = sign(settings, sender, (peer, &authority), request)?;
            self.sent.fetch_add(1, Ordering::Relaxed);
            match exchange(&mut connection, signed).await {
                Ok(response) => {
                    self.pool.check_in(peer.id, &peer.url, connection);
                    return Ok(response);
                }
                // The node has closed it meanwhile. What changes something is not sent again.
                Err(_) if is_reused && request.method == Method::GET => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Checks the credential of a request of another node: the header `Authorization` without its scheme.
    ///
    /// # Errors
    /// [`SignatureError`]; counted.
    pub(crate) fn verify(
        &self,
        settings: Option<&PeerSettings>,
        receiver: Sender,
        (method, target): (&Method, &str),
        credential: &str,
    ) -> Result<Verified, SignatureError> {
        let verified = settings.ok_or(SignatureError::NoKey).and_then(|settings| {
            let claims = signature::verify(&settings.key, method.as_str(), target, credential)?;
            let nonce = claims.nonce;
            let verified = claims.check(receiver.node, receiver.now_ms)?;
            self.nonces.lock().add(nonce, Instant::now())?;
            Ok(verified)
        });
        verified.inspect_err(|_| {
            self.rejected.fetch_add(1, Ordering::Relaxed);
        })
    }
}

/// The request as it is sent.
fn sign(
    settings: &PeerSettings,
    sender: Sender,
    (peer, authority): (&Peer, &str),
    request: &PeerRequest,
) -> Result<Request<Full<Bytes>>, PeerError> {
    let failed = |error: &dyn std::error::Error| PeerError::Failed(with_causes(error));
    let PeerRequest { method, target, body, person } = request;
    let claims = Claims::new(sender.node, peer.id, sender.now_ms, body, person.clone());
    let credential = signature::sign(&settings.key, method.as_str(), target, &claims)
        .map_err(|error| failed(&error))?;
    Request::builder()
        .method(method)
        .uri(target)
        .header(header::HOST, authority)
        .header(header::AUTHORIZATION, credential)
        .body(body.clone().into())
        .map_err(|error| failed(&error))
}

/// Sends a request, and reads the complete response.
async fn exchange(
    connection: &mut Connection,
    request: Request<Full<Bytes>>,
) -> Result<PeerResponse, PeerError> {
    let (head, mut body) = connection.send(request).await.map_err(failed)?.into_parts();
    let body = rest(&mut body).await?;
    Ok(PeerResponse { status: head.status, headers: head.headers, body })
}

/// Reads the rest of a body.
async fn rest(body: &mut Incoming) -> Result<Bytes, PeerError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(failed)?.into_data() else { continue };
        if bytes.len() + data.len() > MAX_RESPONSE_BYTES {
            return Err(PeerError::Failed("its response is too large".to_owned()));
        }
        bytes.extend_from_slice(&data);
    }
    Ok(bytes.into())
}

fn failed(error: weir_http_client::Error) -> PeerError {
    PeerError::Failed(with_causes(&error))
}

/// `HOST:PORT` of a URL, and the TLS towards it.
fn address(url: &str, settings: &PeerSettings) -> Result<(String, Option<Tls>), PeerError> {
    if url.is_empty() {
        return Err(PeerError::NoUrl);
    }
    let invalid = || PeerError::Failed(format!("`{url}` is not a URL"));
    let url: Uri = url.parse().map_err(|_| invalid())?;
    let authority = url.authority().ok_or_else(invalid)?;
    if url.scheme_str() == Some("http") {
        return Ok((authority.to_string(), None));
    }
    let config = settings.tls.clone();
    let config = config.ok_or(PeerError::Settings("its URL is https: set `fleet.tls`"))?;
    let host = authority.host();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let name = match &settings.server_name {
        Some(name) => name.clone(),
        None => ServerName::try_from(host.to_owned()).map_err(|_| invalid())?,
    };
    Ok((authority.to_string(), Some(Tls { config, name })))
}

fn with_causes(error: &dyn std::error::Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_missed_three_times_is_skipped_for_ten_seconds() {
        let (state, id, now) = (PeerState::default(), Uuid::new_v4(), Instant::now());
        for _ in 0..2 {
            state.count(id, true, now);
        }
        state.count(id, false, now);
        for _ in 0..2 {
            state.count(id, true, now);
        }
        assert!(!state.is_skipped(id, now), "not in a row");
        state.count(id, true, now);
        let almost = now + SKIP - Duration::from_millis(1);
        assert!(state.is_skipped(id, almost) && !state.is_skipped(id, now + SKIP));
        // One more chance.
        state.count(id, true, now + SKIP);
        assert!(state.is_skipped(id, now + SKIP));
        state.count(id, false, now + 2 * SKIP);
        assert!(!state.is_skipped(id, now + 2 * SKIP));
        assert_eq!(state.statistics().missed, 6);
    }

    #[test]
    fn a_url_is_http_or_has_tls_with_the_name_of_its_host() {
        let settings = |tls| PeerSettings {
            key: String::new(),
            advertise: String::new(),
            tls,
            server_name: None,
        };
        let plain = settings(None);
        let of =
            |url: &str| address(url, &plain).map(|(authority, tls)| (authority, tls.is_some()));
        assert_eq!(of("http://[::1]:9080"), Ok(("[::1]:9080".to_owned(), false)));
        assert_eq!(of(""), Err(PeerError::NoUrl));
        assert!(matches!(of("https://a:1"), Err(PeerError::Settings(_))));
        assert!(matches!(of("a b"), Err(PeerError::Failed(_))));
    }
}
