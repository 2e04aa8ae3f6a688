//! Search and display of transactions.

use super::Call;
use super::nodes::{self, Located, NodeParams, Position, Positioned, Scope, ShippedTransaction};
use crate::access::BASE;
use crate::audit::Action;
use crate::explain::RecordedExplanation;
use crate::problem::{Params, Problem, Result};
use axum::Json;
use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use utoipa::IntoParams;
use uuid::Uuid;
use weir_fleet::Handle;
use weir_fleet::peers::{Peer, PeerResponse, Peers};
use weir_model::TransactionId;
use weir_tracker::document::{Nodes, Page, Transaction};
use weir_tracker::{
    MAX_PAGE_HITS, MAX_SEARCH_TIMEOUT, SEARCH_TIMEOUT, Search, SearchError, Side, Tracker,
    TrackerError,
};

/// Default number of transactions on a page.
const PAGE: usize = 50;

/// Query and options of a search.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SearchParams {
    /// The query; empty: all transactions.
    #[serde(default)]
    q: String,
    /// Maximum number of transactions, 1 to 1000; default 50.
    limit: Option<usize>,
    /// The cursor of the previous page.
    cursor: Option<String>,
    /// Timeout in seconds, 1 to 30; default 5, and 2 for a query over nodes. The cursor continues
    /// with the transactions that were not searched.
    timeout: Option<u64>,
    /// With the business keys of each; requires the role `payload-viewer`.
    #[serde(default)]
    keys: bool,
    /// Name or id of the node of the fleet that is queried, or `here`; default: all.
    node: Option<String>,
}

impl SearchParams {
    /// The request to another node.
    fn target(&self, limit: usize, cursor: Option<&str>, timeout: Duration) -> String {
        let (limit, timeout) = (limit.to_string(), timeout.as_secs().to_string());
        let parameters = [
            ("q", Some(self.q.as_str())),
            ("limit", Some(&limit)),
            ("cursor", cursor),
            ("timeout", Some(&timeout)),
            ("keys", self.keys.then_some("true")),
        ];
        nodes::target(&format!("{BASE}/transactions"), &parameters)
    }
}

/// The timeout of a search.
pub(super) fn timeout(seconds: Option<u64>, default: Duration) -> Result<Duration> {
    match seconds.map(Duration::from_secs) {
        None => Ok(default),
        Some(timeout) if (Duration::from_secs(1)..=MAX_SEARCH_TIMEOUT).contains(&timeout) => {
            Ok(timeout)
        }
        Some(_) => {
            let max = MAX_SEARCH_TIMEOUT.as_secs();
            Err(Problem::bad(format!("`timeout` must be a number of seconds from 1 to {max}.")))
        }
    }
}

/// The number of transactions: at most `max`, by default `default`.
pub(super) fn limit(limit: Option<usize>, default: usize, max: usize) -> Result<usize> {
    let limit = limit.unwrap_or(default);
    if (1..=max).contains(&limit) {
        return Ok(limit);
    }
    Err(Problem::bad(format!("`limit` must be a number from 1 to {max}.")))
}

pub(super) fn transaction_id(text: &str) -> Result<Uuid> {
    Uuid::try_parse(text).map_err(|_| Problem::bad("The transaction id must be a UUID."))
}

/// Search transactions, newest first
///
/// In a fleet whose nodes query each other: over all nodes, or those that respond in time; `nodes`
/// names the others.
#[utoipa::path(get, path = "/v1/transactions", tag = "transactions", params(SearchParams),
    responses(
        (status = 200, description = "A page of transactions.", body = Page),
        (status = 400, description = "The query, the limit, the timeout or the cursor is wrong; \
            `place` says which bytes of the query."),
        (status = 403, description = "The query searches payloads, or keys are requested, which requires the role payload-viewer."),
        (status = 409, description = "Recording or indexing is off."),
        (status = 503, description = "The node does not respond.")))]
pub(super) async fn search(call: Call, Params(params): Params<SearchParams>) -> Result<Response> {
    let limit = limit(params.limit, PAGE, MAX_PAGE_HITS)?;
    if params.keys && !call.caller.reads_payloads() {
        return Err(call.caller.no_payloads("Reading business keys"));
    }
    match call.scope(params.node.as_deref())? {
        Scope::Here => {
            let timeout = timeout(params.timeout, SEARCH_TIMEOUT)?;
            let cursor = params.cursor.clone();
            let page = search_here(&call, &params, limit, cursor, timeout).await?;
            Ok(Json(page).into_response())
        }
        Scope::One(fleet, peer) => search_one(&call, (&fleet, &peer), &params, limit).await,
        Scope::All(fleet, peers) => {
            let page = search_all(&call, (&fleet, &peers), &params, limit).await?;
            Ok(Json(page).into_response())
        }
    }
}

/// A page of the transactions of this node.
async fn search_here(
    call: &Call,
    params: &SearchParams,
    limit: usize,
    cursor: Option<String>,
    timeout: Duration,
) -> Result<Page> {
    let search = search_of(call, params, limit, cursor, timeout);
    let page = call.api.query_tracker(move |tracker| tracker.search(&search)).await?;
    if page.payload {
        call.audit(Action::Search, params.q.clone(), "").await?;
    }
    Ok(page)
}

fn search_of(
    call: &Call,
    params: &SearchParams,
    limit: usize,
    cursor: Option<String>,
    timeout: Duration,
) -> Search {
    let (payload, apis) = (call.caller.reads_payloads(), call.caller.scope.apis.clone());
    let (query, keys) = (params.q.clone(), params.keys);
    Search { query, limit, cursor, payload, keys, apis, timeout }
}

/// A page of the transactions of another node, or of what it has shipped.
async fn search_one(
    call: &Call,
    (fleet, peer): (&Handle, &Peer),
    params: &SearchParams,
    limit: usize,
) -> Result<Response> {
    let timeout = timeout(params.timeout, nodes::DEADLINE)?;
    let request = call.get(params.target(limit, params.cursor.as_deref(), timeout));
    let response = nodes::forward(fleet, peer, &request, nodes::limit(timeout)).await;
    let problem = match response {
        Ok(response) => return Ok(nodes::passed_on(response)),
        Err(problem) => problem,
    };
    let position = params.cursor.clone().map_or(Position::Start, Position::After);
    let search = search_of(call, params, limit, None, timeout);
    let node = [(peer.clone(), position)];
    let Some(mut shipped) = call.search_shipped(&search, &node, timeout).await? else {
        return Err(problem);
    };
    let reason = problem.detail.clone().into_owned();
    let Some(Positioned { mut page, .. }) = shipped.pages.pop() else {
        let error = shipped.search.error.unwrap_or_default();
        let sink = shipped.search.name;
        return Err(Problem {
            detail: format!("{reason} Sink {sink}: {error}.").into(),
            ..problem
        });
    };
    page.transactions.iter_mut().for_each(|hit| hit.summary.node.clone_from(&peer.name));
    page.incomplete = true;
    let missing = vec![nodes::missing(peer, reason)];
    page.nodes = Some(Nodes { queried: 1, missing, sink: Some(shipped.search) });
    Ok(Json(page).into_response())
}

/// A page of the transactions of all nodes.
async fn search_all(
    call: &Call,
    (fleet, peers): (&Handle, &Peers),
    params: &SearchParams,
    limit: usize,
) -> Result<Page> {
    let timeout = timeout(params.timeout, nodes::DEADLINE)?;
    let before = nodes::Cursor::parse(params.cursor.as_deref())?;
    let open = peers.others.iter().filter(|peer| before.position(peer.id) != Position::End);
    let requests = open.map(|peer| {
        let position = before.position(peer.id);
        (peer.clone(), call.get(params.target(limit, position.cursor(), timeout)))
    });
    let search = search_of(call, params, limit, None, timeout);
    let here = async {
        let position = before.position(peers.own);
        if position == Position::End {
            return Ok(None);
        }
        let cursor = position.cursor().map(str::to_owned);
        let page = search_here(call, params, limit, cursor, timeout).await?;
        Ok(Some(Positioned { node: peers.own, name: peers.name.clone(), position, page }))
    };
    let (requests, deadline) = (requests.collect(), nodes::limit(timeout));
    let gathered = call.gather((fleet, peers), requests, (&search, &before), deadline);
    let (here, mut gathered) = tokio::try_join!(here, gathered)?;
    let pages = here.into_iter().chain(gathered.pages).collect();
    let mut page = nodes::merge(pages, &gathered.silent, limit, &before);
    let sink = gathered.sink.take();
    let failed = sink.as_ref().is_some_and(|sink| sink.error.is_some());
    page.incomplete |= !gathered.missing.is_empty() || failed;
    page.nodes = Some(Nodes { sink, ..nodes::nodes(peers, gathered.missing) });
    Ok(page)
}

/// Show a transaction
///
/// `payload` is present for the role `payload-viewer` only. In a fleet whose nodes query each other, the
/// node that has the transaction is found by asking all.
#[utoipa::path(get, path = "/v1/transactions/{id}", tag = "transactions",
    params(("id" = String, Path, description = "The transaction id."), NodeParams),
    responses(
        (status = 200, description = "The transaction.", body = Transaction),
        (status = 400, description = "Invalid transaction id."),
        (status = 404, description = "Unknown transaction."),
        (status = 409, description = "Recording or indexing is off."),
        (status = 503, description = "The index lags behind, or nodes did not respond: the \
            transaction may exist.")))]
pub(super) async fn show(
    call: Call,
    Path(id): Path<String>,
    Params(params): Params<NodeParams>,
) -> Result<Response> {
    let id = transaction_id(&id)?;
    let here = show_here(&call, id);
    let target = format!("{BASE}/transactions/{id}");
    match call.owned((id, &params), here, target).await? {
        Found::Here(transaction) => Ok(Json(transaction).into_response()),
        Found::At(name, response) => {
            let parsed = nodes::document::<Transaction>(Ok(response));
            let mut transaction = parsed.map_err(|reason| {
                Problem::new(StatusCode::BAD_GATEWAY, "bad-response", "A node failed", reason)
            })?;
            transaction.summary.node = name;
            Ok(Json(transaction).into_response())
        }
        Found::Shipped(shipped) => Ok(Json(show_shipped(&call, *shipped).await?).into_response()),
        Found::Response(response) => Ok(response),
    }
}

async fn show_here(call: &Call, id: Uuid) -> Result<Transaction> {
    let payload = call.caller.reads_payloads();
    let transaction = call.visible(id, payload).await?;
    if transaction.payload.is_some() {
        call.audit(Action::Show, transaction.summary.id.to_string(), "").await?;
    }
    Ok(transaction)
}

/// Where a transaction was found.
enum Found<T> {
    /// On this node.
    Here(T),
    /// On the node with this name.
    At(String, PeerResponse),
    /// In a sink.
    Shipped(Box<ShippedTransaction>),
    /// The response of the only node that was queried.
    Response(Response),
}

impl Call {
    /// A transaction of this node, if the scope of the caller includes its API.
    async fn visible(&self, id: Uuid, payload: bool) -> Result<Transaction> {
        let show = move |tracker: &Arc<Tracker>| tracker.show(id.as_u128(), payload);
        let found = self.api.query_tracker(show).await?;
        let is_included = |found: &Transaction| self.caller.scope.includes(&found.summary.api);
        found.filter(is_included).ok_or(NONE)
    }

    /// Rejects a transaction of this node whose API the scope of the caller does not include, as an unknown one.
    pub(super) async fn check_api(&self, id: Uuid) -> Result<()> {
        if self.caller.scope.apis.is_empty() {
            return Ok(());
        }
        self.visible(id, false).await.map(drop)
    }

    /// Finds what one node has: `here`, or the response to a request of another node to this target, or
    /// what a node that does not respond has shipped.
    async fn owned<T>(
        &self,
        (id, params): (Uuid, &NodeParams),
        here: impl Future<Output = Result<T>>,
        target: String,
    ) -> Result<Found<T>> {
        let limit = nodes::limit(timeout(params.timeout, nodes::DEADLINE)?);
        let located = match self.scope(params.node.as_deref())? {
            Scope::Here => return here.await.map(Found::Here),
            Scope::One(fleet, peer) => {
                let request = self.get(target);
                let response = async {
                    let response = nodes::forward(&fleet, &peer, &request, limit).await?;
                    Ok((peer.clone(), response))
                };
                self.or_shipped((id, Some(peer.id)), response, limit).await?
            }
            Scope::All(fleet, peers) => {
                let problem = match here.await {
                    Ok(found) => return Ok(Found::Here(found)),
                    Err(problem) => problem,
                };
                let request = self.get(target);
                let found = nodes::first_success(&fleet, &peers, &request, limit, problem);
                self.or_shipped((id, None), found, limit).await?
            }
        };
        Ok(match located {
            Located::At(peer, response) if response.status.is_success() => {
                Found::At(peer.name, response)
            }
            Located::At(_, response) => Found::Response(nodes::passed_on(response)),
            Located::Shipped(shipped) => Found::Shipped(shipped),
        })
    }
}

/// A transaction of a sink; its payload is audited.
async fn show_shipped(call: &Call, shipped: ShippedTransaction) -> Result<Transaction> {
    let ShippedTransaction { sink, found } = shipped;
    let node = found.node.1.clone();
    let mut transaction = found.transaction(call.caller.reads_payloads());
    (transaction.summary.node, transaction.summary.sink) = (node, sink);
    let add = move |tracker: &Arc<Tracker>| -> Result<Transaction, TrackerError> {
        tracker.add_resolutions(&mut transaction)?;
        Ok(transaction)
    };
    let transaction = call.api.query_tracker(add).await?;
    if transaction.payload.is_some() {
        let id = transaction.summary.id.to_string();
        call.audit(Action::Show, id, format!("sink {}", transaction.summary.sink)).await?;
    }
    Ok(transaction)
}

/// A body of a transaction of a sink, if the sink has all of it.
async fn shipped_body(call: &Call, shipped: ShippedTransaction, side: Side) -> Result<Vec<u8>> {
    let ShippedTransaction { sink, found } = shipped;
    let record = found.record;
    let (metadata, bytes) = match side {
        Side::Request => (record.request, record.request_body),
        Side::Response => (record.response, record.response_body),
    };
    if record.expired || metadata.stored != bytes.len() as u64 {
        return Err(ELSEWHERE);
    }
    let id = TransactionId(u128::from_be_bytes(record.id)).to_string();
    call.audit(Action::Show, id, format!("sink {sink}")).await?;
    Ok(bytes)
}

/// Explain the outcome of a recorded transaction
///
/// From the record alone: the outcome, the problem that weir returned, and its detail. For the
/// handling of such a request now, use `POST /v1/explain`.
#[utoipa::path(get, path = "/v1/transactions/{id}/explanation", tag = "transactions",
    params(("id" = String, Path, description = "The transaction id."), NodeParams),
    responses(
        (status = 200, description = "The outcome, with its reason.", body = RecordedExplanation),
        (status = 400, description = "Invalid transaction id."),
        (status = 404, description = "Unknown transaction."),
        (status = 409, description = "Recording or indexing is off."),
        (status = 503, description = "The index lags behind, or nodes did not respond: the \
            transaction may exist.")))]
pub(super) async fn explanation(
    call: Call,
    Path(id): Path<String>,
    Params(params): Params<NodeParams>,
) -> Result<Response> {
    let id = transaction_id(&id)?;
    let here = async { Ok(RecordedExplanation::of(call.visible(id, false).await?)) };
    let target = format!("{BASE}/transactions/{id}/explanation");
    Ok(match call.owned((id, &params), here, target).await? {
        Found::Here(explanation) => Json(explanation).into_response(),
        Found::At(_, response) => nodes::passed_on(response),
        Found::Shipped(shipped) => {
            Json(RecordedExplanation::of(shipped.found.transaction(false))).into_response()
        }
        Found::Response(response) => response,
    })
}

/// Get a recorded body, unchanged
#[utoipa::path(get, path = "/v1/transactions/{id}/{side}", tag = "transactions",
    params(
        ("id" = String, Path, description = "The transaction id."),
        ("side" = String, Path, description = "`request-body` or `response-body`."),
        NodeParams),
    responses(
        (status = 200, description = "The recorded bytes.",
            content_type = "application/octet-stream"),
        (status = 400, description = "Invalid transaction id."),
        (status = 404, description = "Unknown transaction or part."),
        (status = 409, description = "Recording or indexing is off."),
        (status = 503, description = "The index lags behind, or nodes did not respond: the \
            transaction may exist.")))]
pub(super) async fn body(
    call: Call,
    Path((id, part)): Path<(String, String)>,
    Params(params): Params<NodeParams>,
) -> Result<Response> {
    let id = transaction_id(&id)?;
    let side = match part.as_str() {
        "request-body" => Side::Request,
        "response-body" => Side::Response,
        _ => return Err(NONE),
    };
    let here = async {
        call.check_api(id).await?;
        let found = call.api.query_tracker(move |tracker| tracker.body(id.as_u128(), side)).await?;
        let bytes = found.ok_or(NONE)?;
        call.audit(Action::Show, id.to_string(), "").await?;
        Ok(bytes)
    };
    let target = format!("{BASE}/transactions/{id}/{part}");
    match call.owned((id, &params), here, target).await? {
        Found::Here(bytes) => Ok((BODY_HEADERS, bytes).into_response()),
        Found::Shipped(shipped) => {
            Ok((BODY_HEADERS, shipped_body(&call, *shipped, side).await?).into_response())
        }
        Found::At(_, response) => Ok(nodes::passed_on(response)),
        Found::Response(response) => Ok(response),
    }
}

const BODY_HEADERS: [(header::HeaderName, &str); 2] = [
    (header::CONTENT_TYPE, "application/octet-stream"),
    (header::CONTENT_DISPOSITION, "attachment"),
];

/// The body is on a node that does not respond.
const ELSEWHERE: Problem = Problem::fixed(
    StatusCode::SERVICE_UNAVAILABLE,
    "elsewhere",
    "The body is elsewhere",
    "The node that has recorded it does not respond, and the sink has the transaction without it.",
);

pub(super) const NONE: Problem = Problem::fixed(
    StatusCode::NOT_FOUND,
    "no-transaction",
    "Unknown transaction",
    "It was never recorded, has not ended, or its retention has ended.",
);

const NEEDS_PAYLOAD: Problem = Problem::fixed(
    StatusCode::FORBIDDEN,
    "forbidden",
    "Role not sufficient",
    "Searching payloads requires a token with the role payload-viewer, and the depth payloads.",
);

impl From<SearchError> for Problem {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Query(error) => {
                let (status, detail) = (StatusCode::BAD_REQUEST, error.to_string());
                let problem = Self::new(status, "bad-query", "Invalid query", detail);
                Self { span: Some([error.at, error.end]), ..problem }
            }
            SearchError::Cursor => Problem::bad("`cursor` must be the cursor of a previous page."),
            SearchError::NeedsPayload => NEEDS_PAYLOAD,
            SearchError::Tracker(error) => error.into(),
        }
    }
}
