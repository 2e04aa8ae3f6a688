//! Queries to other nodes by a member.

use crate::Handle;
use crate::peers::{
    Peer, PeerError, PeerRequest, PeerResponse, PeerStream, Peers, Sender, SignatureError, Verified,
};
use crate::status::{NodeState, NodeStatus};
use http::Method;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::task::JoinSet;

/// Responses of several nodes, in the order of their arrival.
#[derive(Debug)]
pub struct PeerResponses(JoinSet<(Peer, Result<PeerResponse, PeerError>)>);

impl PeerResponses {
    /// The next response, or why a node has none; `None` after the last.
    pub async fn next(&mut self) -> Option<(Peer, Result<PeerResponse, PeerError>)> {
        // A request that panicked has no response, and no name either.
        while let Some(joined) = self.0.join_next().await {
            if let Ok(response) = joined {
                return Some(response);
            }
        }
        None
    }
}

impl Handle {
    /// The other nodes, if nodes query each other.
    #[must_use]
    pub fn peers(&self) -> Option<Peers> {
        self.peer_settings()?;
        let (own, name, nodes) = self.membership();
        let is_gone =
            |node: &&NodeStatus| matches!(node.state, NodeState::Retired | NodeState::Lost);
        let (gone, others): (Vec<&NodeStatus>, Vec<&NodeStatus>) = nodes.iter().partition(is_gone);
        let peers = |nodes: Vec<&NodeStatus>| -> Vec<Peer> {
            nodes.into_iter().filter_map(|node| Peer::new(node, own)).collect()
        };
        Some(Peers { own, name, others: peers(others), gone: peers(gone) })
    }

    /// Sends a request to each of several nodes, except those that have not responded lately.
    #[must_use]
    pub fn query_peers(
        &self,
        requests: Vec<(Peer, PeerRequest)>,
        limit: Duration,
    ) -> PeerResponses {
        let mut responses = JoinSet::new();
        for (peer, request) in requests {
            let handle = self.clone();
            responses.spawn(async move {
                let skipped = handle.peer_state().is_skipped(peer.id, Instant::now());
                let response = match skipped {
                    true => Err(PeerError::Skipped),
                    false => handle.query_peer(&peer, &request, limit).await,
                };
                (peer, response)
            });
        }
        PeerResponses(responses)
    }

    /// Sends a request to a node, and returns its complete response.
    ///
    /// # Errors
    /// There was none within the limit. The node may have received the request.
    pub async fn query_peer(
        &self,
        peer: &Peer,
        request: &PeerRequest,
        limit: Duration,
    ) -> Result<PeerResponse, PeerError> {
        let settings = self.peer_settings().ok_or(PeerError::Settings("`fleet.key` is not set"))?;
        self.peer_state().query(&settings, self.sender(), (peer, request), limit).await
    }

    /// Sends a request to a node, unless it has not responded lately, and returns its response once the head
    /// is there: the rest is read line by line.
    ///
    /// # Errors
    /// There was no head within the limit.
    pub async fn open_peer(
        &self,
        peer: &Peer,
        request: &PeerRequest,
        limit: Duration,
    ) -> Result<PeerStream, PeerError> {
        let settings = self.peer_settings().ok_or(PeerError::Settings("`fleet.key` is not set"))?;
        self.peer_state().open(&settings, self.sender(), (peer, request), limit).await
    }

    /// Checks the credential of a request of another node: the header `Authorization` without its scheme.
    /// The body has to be compared with [`Verified::is_body`].
    ///
    /// # Errors
    /// [`SignatureError`]; counted.
    pub fn verify_peer(
        &self,
        method: &Method,
        target: &str,
        credential: &str,
    ) -> Result<Verified, SignatureError> {
        let settings = self.peer_settings();
        self.peer_state().verify(settings.as_ref(), self.sender(), (method, target), credential)
    }

    /// This node, and the time of the database as far as this node knows it.
    fn sender(&self) -> Sender {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
        let (node, ..) = self.membership();
        Sender { node, now_ms: now.saturating_sub(self.statistics().offset_ms) }
    }
}
