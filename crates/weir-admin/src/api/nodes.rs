//! Queries over the nodes of a fleet: which nodes, and their responses.

mod export;
mod gather;
mod merge;
mod recent;
mod shipped;
mod sum;
mod tail;

pub(super) use export::{NodeLines, NodesExport};
pub(super) use merge::{Cursor, Position, Positioned, merge};
pub(super) use recent::RecentFigures;
pub(super) use shipped::ShippedTransaction;
pub(super) use sum::FiguresRequest;
pub(super) use tail::{NodesTail, OwnTail, tail_target};

use super::Call;
use super::transaction::NONE;
use crate::access::BASE;
use crate::counts::{HERE, NO_FLEET};
use crate::problem::{Problem, Result};
use crate::tokens::Rights;
use axum::body::{Body, Bytes};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::{Duration, Instant};
use utoipa::IntoParams;
use uuid::Uuid;
use weir_fleet::Handle;
use weir_fleet::peers::{Peer, PeerError, PeerRequest, PeerResponse, PeerStream, Peers, Person};
use weir_tracker::Tracker;
use weir_tracker::document::{MissingNode, Nodes};

/// Default deadline of a query over nodes.
pub(super) const DEADLINE: Duration = Duration::from_secs(2);
/// Kind of the problem that a node does not respond.
const NO_RESPONSE: &str = "no-response";
/// Time for a request and its response on the way, in addition to the time of the query itself.
const TRANSFER: Duration = Duration::from_millis(250);

/// The node of a query about one transaction.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct NodeParams {
    /// Name or id of the node of the fleet that is queried, or `here`; default: all.
    pub(super) node: Option<String>,
    /// Deadline of other nodes in seconds, 1 to 30; default 2.
    pub(super) timeout: Option<u64>,
}

/// The nodes that a query is about.
pub(super) enum Scope {
    /// This one.
    Here,
    /// Another one.
    One(Handle, Peer),
    /// All of the fleet.
    All(Handle, Peers),
}

/// Where a transaction was found.
pub(super) enum Located {
    /// On a node, with its response.
    At(Peer, PeerResponse),
    /// In a sink.
    Shipped(Box<ShippedTransaction>),
}

/// Where a transaction is that is to be changed or sent again.
pub(super) enum Owner {
    /// On this node, or nowhere; or nodes do not query each other.
    Here,
    /// On another one.
    At(Handle, Peer),
    /// On one that does not respond: this is what it has shipped.
    Absent(Box<ShippedTransaction>),
    /// On one that does not respond, if it exists.
    Silent(Problem),
}

impl Call {
    /// The nodes that a query is about: `node` is the parameter of the query.
    pub(super) fn scope(&self, node: Option<&str>) -> Result<Scope> {
        // The node that was asked first merges the responses.
        if self.caller.via.is_some() || node == Some(HERE) {
            return Ok(Scope::Here);
        }
        let fleet = self.api.sources.fleet.as_ref();
        match (fleet.map(|fleet| (fleet, fleet.peers())), node) {
            (None, None) | (Some((_, None)), None) => Ok(Scope::Here),
            (None, Some(_)) => Err(NO_FLEET),
            (Some((_, None)), Some(_)) => Err(NO_KEY),
            (Some((fleet, Some(peers))), None) => Ok(Scope::All(fleet.clone(), peers)),
            (Some((fleet, Some(peers))), Some(node)) => one(fleet, peers, node),
        }
    }

    /// Where a transaction is that is to be changed or sent again.
    pub(super) async fn owner(&self, id: Uuid) -> Result<Owner> {
        let Scope::All(fleet, peers) = self.scope(None)? else {
            self.check_api(id).await?;
            return Ok(Owner::Here);
        };
        let show = move |tracker: &Arc<Tracker>| tracker.show(id.as_u128(), false);
        let found = self.api.query_tracker(show).await;
        let problem = match found {
            Ok(Some(found)) if self.caller.scope.includes(&found.summary.api) => {
                return Ok(Owner::Here);
            }
            Ok(Some(_)) => return Err(NONE),
            Ok(None) => NONE,
            Err(problem) => problem,
        };
        // Whoever may not see payload may ask for this, and it is not audited.
        let request = self.get(format!("{BASE}/transactions/{id}/explanation"));
        let limit = limit(DEADLINE);
        let found = first_success(&fleet, &peers, &request, limit, problem);
        match self.or_shipped((id, None), found, limit).await {
            Ok(Located::At(peer, _)) => Ok(Owner::At(fleet, peer)),
            Ok(Located::Shipped(shipped)) => Ok(Owner::Absent(shipped)),
            // Whether the scope includes its API is unknown then.
            Err(problem) if problem.kind == NO_RESPONSE && self.caller.scope.apis.is_empty() => {
                Ok(Owner::Silent(problem))
            }
            Err(problem) => Err(problem),
        }
    }

    /// The first of the nodes that has a transaction, or what a node has shipped: it is searched once no
    /// node has the transaction, or after half of the time.
    pub(super) async fn or_shipped(
        &self,
        (id, node): (Uuid, Option<Uuid>),
        nodes: impl Future<Output = Result<(Peer, PeerResponse)>>,
        limit: Duration,
    ) -> Result<Located> {
        let started = Instant::now();
        let mut nodes = std::pin::pin!(nodes);
        let at = |(peer, response)| Located::At(peer, response);
        if !self.has_sink() {
            return nodes.await.map(at);
        }
        let early = tokio::time::timeout(limit / 2, &mut nodes).await;
        if let Ok(Ok(found)) = early {
            return Ok(at(found));
        }
        let shipped = self.find_shipped(id, node, limit.saturating_sub(started.elapsed()));
        let (nodes, shipped) = match early {
            Ok(responded) => (responded, shipped.await),
            Err(_) => tokio::join!(nodes, shipped),
        };
        match (nodes, shipped) {
            (Ok(found), _) => Ok(at(found)),
            (Err(_), Ok(Some(shipped))) => Ok(Located::Shipped(Box::new(shipped))),
            (Err(problem), Ok(None)) => Err(problem),
            (Err(problem), Err(error)) => Err(Problem::new(
                StatusCode::SERVICE_UNAVAILABLE,
                NO_RESPONSE,
                problem.title,
                format!("{} {error}.", problem.detail),
            )),
        }
    }

    /// Has another node perform an action, and waits for its response.
    pub(super) async fn perform(
        &self,
        (fleet, peer): (Handle, Peer),
        target: String,
        body: Bytes,
        time: Duration,
    ) -> Result<Response> {
        let (method, person) = (Method::POST, self.person());
        let request = PeerRequest { method, target, body, person };
        forward(&fleet, &peer, &request, limit(time)).await.map(passed_on)
    }

    /// Who calls, for other nodes.
    pub(super) fn person(&self) -> Person {
        let caller = &self.caller;
        let (token, name) = (caller.id.clone(), caller.name.clone());
        let (role, scope) = (caller.role, caller.scope.clone());
        let rights = Rights { role, scope, expires: None, person: None, account: None };
        Person { token, name, role: rights.to_string() }
    }

    /// A request that reads.
    pub(super) fn get(&self, target: String) -> PeerRequest {
        let (method, body) = (Method::GET, Default::default());
        PeerRequest { method, target, body, person: self.person() }
    }
}

/// The node with this name or id.
fn one(fleet: &Handle, peers: Peers, node: &str) -> Result<Scope> {
    let is_own = peers.name == node || peers.own.to_string() == node;
    let is_node = |peer: &Peer| peer.name == node || peer.id.to_string() == node;
    let mut found: Vec<Peer> = peers.others.into_iter().filter(is_node).collect();
    if found.is_empty() && !is_own {
        // Only a sink has what these had.
        found.extend(peers.gone.into_iter().filter(is_node));
    }
    match (is_own, found.pop()) {
        (true, None) => Ok(Scope::Here),
        (false, Some(peer)) if found.is_empty() => Ok(Scope::One(fleet.clone(), peer)),
        (false, None) => {
            Err(Problem::bad("There is no such `node`: GET /v1/fleet lists the nodes."))
        }
        _ => Err(Problem::bad("Several nodes have this name: `node` must be an id.")),
    }
}

/// The time to wait for other nodes, if they get `query` for the query itself.
pub(super) fn limit(query: Duration) -> Duration {
    query + TRANSFER
}

/// The response of one node.
pub(super) async fn forward(
    fleet: &Handle,
    peer: &Peer,
    request: &PeerRequest,
    limit: Duration,
) -> Result<PeerResponse> {
    fleet.query_peer(peer, request, limit).await.map_err(|error| silent(&peer.name, &error))
}

pub(super) fn silent(name: &str, error: &PeerError) -> Problem {
    Problem::new(
        StatusCode::SERVICE_UNAVAILABLE,
        NO_RESPONSE,
        "A node did not respond",
        format!("{name}: {error}."),
    )
}

/// A stream of a node, or its response if that is no success.
pub(super) enum Opened {
    Stream(PeerStream),
    Rejected(PeerResponse),
}

/// Opens a stream of a node.
pub(super) async fn open(
    fleet: &Handle,
    peer: &Peer,
    request: &PeerRequest,
) -> Result<Opened, PeerError> {
    let limit = limit(DEADLINE);
    let stream = fleet.open_peer(peer, request, limit).await?;
    Ok(match stream.status {
        StatusCode::OK => Opened::Stream(stream),
        _ => Opened::Rejected(stream.complete(limit).await?),
    })
}

/// The stream of a node; the reason, if there is none.
async fn open_stream(
    fleet: &Handle,
    peer: &Peer,
    request: &PeerRequest,
) -> Result<PeerStream, String> {
    match open(fleet, peer, request).await {
        Ok(Opened::Stream(stream)) => Ok(stream),
        Ok(Opened::Rejected(response)) => Err(rejection(&response)),
        Err(error) => Err(error.to_string()),
    }
}

/// The response of another node as that of this one.
pub(super) fn passed_on(response: PeerResponse) -> Response {
    let mut passed = (response.status, Body::from(response.body)).into_response();
    for name in [header::CONTENT_TYPE, header::CONTENT_DISPOSITION] {
        if let Some(value) = response.headers.get(&name) {
            passed.headers_mut().insert(name, value.clone());
        }
    }
    passed
}

/// The document in a response; the reason, if there is none.
pub(super) fn document<T: DeserializeOwned>(
    response: Result<PeerResponse, PeerError>,
) -> Result<T, String> {
    let response = response.map_err(|error| error.to_string())?;
    if response.status == StatusCode::OK {
        let parsed = serde_json::from_slice(&response.body);
        return parsed.map_err(|_| "its response cannot be read".to_owned());
    }
    Err(rejection(&response))
}

/// What a response says that is no success.
fn rejection(response: &PeerResponse) -> String {
    #[derive(Deserialize, Default)]
    #[serde(default)]
    struct Said {
        title: String,
        detail: String,
    }
    let Said { title, detail } = serde_json::from_slice(&response.body).unwrap_or_default();
    format!("{title} ({}): {detail}", response.status.as_u16())
}

/// A node without a response.
pub(super) fn missing(peer: &Peer, reason: String) -> MissingNode {
    MissingNode { id: peer.id.to_string(), name: peer.name.clone(), reason }
}

/// The documents of all nodes that respond in time, that of this one first, and which nodes that are.
pub(super) async fn documents<T: DeserializeOwned>(
    (fleet, peers): (&Handle, &Peers),
    request: &PeerRequest,
    timeout: Duration,
    here: impl Future<Output = Result<T>>,
) -> Result<(Vec<T>, Nodes)> {
    let requests = peers.others.iter().map(|peer| (peer.clone(), request.clone())).collect();
    let mut responses = fleet.query_peers(requests, limit(timeout));
    let mut all = vec![here.await?];
    let mut silent = Vec::new();
    while let Some((peer, response)) = responses.next().await {
        match document(response) {
            Ok(one) => all.push(one),
            Err(reason) => silent.push(missing(&peer, reason)),
        }
    }
    Ok((all, nodes(peers, silent)))
}

/// The nodes of a query, and those without a response.
pub(super) fn nodes(peers: &Peers, mut missing: Vec<MissingNode>) -> Nodes {
    missing.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    Nodes { queried: peers.others.len() + 1, missing, sink: None }
}

/// The first success among the responses of all other nodes.
///
/// # Errors
/// `none` if all nodes have responded without success; otherwise the nodes that have not.
pub(super) async fn first_success(
    fleet: &Handle,
    peers: &Peers,
    request: &PeerRequest,
    limit: Duration,
    none: Problem,
) -> Result<(Peer, PeerResponse)> {
    let requests = peers.others.iter().map(|peer| (peer.clone(), request.clone())).collect();
    let mut responses = fleet.query_peers(requests, limit);
    let mut without = Vec::new();
    while let Some((peer, response)) = responses.next().await {
        match response {
            Ok(response) if response.status.is_success() => return Ok((peer, response)),
            Ok(response) if response.status == StatusCode::NOT_FOUND => {}
            Ok(response) => without.push(missing(&peer, rejection(&response))),
            Err(error) => without.push(missing(&peer, error.to_string())),
        }
    }
    match nodes(peers, without).note() {
        None => Err(none),
        Some(note) => Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            NO_RESPONSE,
            "A node did not respond",
            format!("The transaction may be on one of these nodes: {note}."),
        )),
    }
}

/// A target with query parameters; absent ones are left out.
pub(super) fn target(path: &str, parameters: &[(&str, Option<&str>)]) -> String {
    let mut target = path.to_owned();
    let present = parameters.iter().filter_map(|(name, value)| Some((name, (*value)?)));
    for (index, (name, value)) in present.enumerate() {
        target.push(if index == 0 { '?' } else { '&' });
        target.push_str(name);
        target.push('=');
        target.extend(utf8_percent_encode(value, NON_ALPHANUMERIC));
    }
    target
}

const NO_KEY: Problem = Problem::fixed(
    StatusCode::CONFLICT,
    "no-fleet-key",
    "Nodes do not query each other",
    "Set `fleet.key` and `fleet.advertise` on all nodes.",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_encoded() {
        let parameters = [("q", Some("a b&c=ü")), ("cursor", None), ("limit", Some("5"))];
        assert_eq!(target("/v1/x", &parameters), "/v1/x?q=a%20b%26c%3D%C3%BC&limit=5");
        assert_eq!(target("/v1/x", &[("a", None)]), "/v1/x");
    }
}
