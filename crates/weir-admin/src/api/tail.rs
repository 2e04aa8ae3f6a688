//! Tails of completed transactions, of one node or all.

use super::nodes::{self, NodesTail, Opened, OwnTail, Scope};
use super::stream::{Pace, line, respond, respond_with};
use super::{Call, permit};
use crate::audit::Action;
use crate::problem::{Params, Problem, Result};
use axum::response::Response;
use serde::Deserialize;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;
use utoipa::IntoParams;
use weir_tracker::document::{Summary, TailPosition};
use weir_tracker::{MAX_PAGE_HITS, Tail, Tracker};

/// Query of a tail.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct TailParams {
    /// The query; empty: all transactions.
    #[serde(default)]
    q: String,
    /// Name or id of the node of the fleet that is followed, or `here`; default: all.
    node: Option<String>,
    /// Continue where another tail of this node was: its last `cursor`. For `node=here`.
    cursor: Option<String>,
    /// Send a line with `cursor` after transactions. For `node=here`.
    #[serde(default)]
    cursors: bool,
}

/// Tail completed transactions
///
/// One JSON object per line for each completed transaction that matches the query. Empty lines are
/// keep-alives. The response ends when the token is revoked. In a fleet whose nodes query each other: of all
/// nodes, in the order of arrival. A line with `nodes` is the first, and follows when a node no longer
/// responds or does so again; nodes without a response are tried again, and continue where they were.
#[utoipa::path(get, path = "/v1/transactions/tail", tag = "transactions", params(TailParams),
    responses(
        (status = 200, description = "An endless stream of summaries, one per line.",
            content_type = "application/x-ndjson", body = Summary),
        (status = 400, description = "The query is invalid; `place` says which bytes of it."),
        (status = 403, description = "The query searches payloads, which requires the role payload-viewer."),
        (status = 409, description = "Recording or indexing is off."),
        (status = 503, description = "Too many concurrent tails, or the node does not respond.")))]
pub(super) async fn tail(call: Call, Params(params): Params<TailParams>) -> Result<Response> {
    let permit = permit(&call.api.tails, "tails")?;
    let scope = call.scope(params.node.as_deref())?;
    let is_here = matches!(scope, Scope::Here);
    if !is_here && (params.cursors || params.cursor.is_some()) {
        return Err(Problem::bad("`cursor` and `cursors` are of one node: add `node=here`."));
    }
    match scope {
        Scope::Here => {
            let tail = tail_here(&call, &params).await?;
            let cursors = params.cursors;
            Ok(respond(source(tail, cursors), Pace::Waiting, call.grant()?, permit))
        }
        Scope::One(fleet, peer) => {
            // A rejection is that of the node.
            let request = call.get(nodes::tail_target(&params.q, None));
            let stream = match nodes::open(&fleet, &peer, &request).await {
                Ok(Opened::Stream(stream)) => stream,
                Ok(Opened::Rejected(response)) => return Ok(nodes::passed_on(response)),
                Err(error) => return Err(nodes::silent(&peer.name, &error)),
            };
            let tails = NodesTail::new(fleet, call.person(), params.q);
            send(&call, tails.only(&peer, stream), None, permit)
        }
        Scope::All(fleet, peers) => {
            let tail = tail_here(&call, &params).await?;
            let own = OwnTail { name: peers.name, tail };
            let tails = NodesTail::new(fleet, call.person(), params.q);
            send(&call, tails, Some(own), permit)
        }
    }
}

/// The tail of this node.
async fn tail_here(call: &Call, params: &TailParams) -> Result<Tail> {
    let (payload, apis) = (call.caller.reads_payloads(), call.caller.scope.apis.clone());
    let (query, cursor) = (params.q.clone(), params.cursor.clone());
    let tail =
        move |tracker: &Arc<Tracker>| tracker.tail(&query, payload, &apis, cursor.as_deref());
    let (tail, searches_payload) = call.api.query_tracker(tail).await?;
    if searches_payload {
        call.audit(Action::Search, params.q.clone(), "tail").await?;
    }
    Ok(tail)
}

/// The lines of a tail of this node, each time with the cursor after them if that is to be sent.
fn source(mut tail: Tail, cursors: bool) -> impl FnMut() -> Option<String> + Send + 'static {
    let mut sent = None;
    move || {
        let ended = tail.next(MAX_PAGE_HITS).ok()?;
        let mut text: String = ended.iter().map(|one| line(&Summary::from(one))).collect();
        if cursors {
            let cursor = tail.cursor();
            if sent.as_ref() != Some(&cursor) {
                text.push_str(&line(&TailPosition { cursor: cursor.to_string() }));
                sent = Some(cursor);
            }
        }
        Some(text)
    }
}

fn send(
    call: &Call,
    tails: NodesTail,
    own: Option<OwnTail>,
    permit: OwnedSemaphorePermit,
) -> Result<Response> {
    Ok(respond_with(call.grant()?, permit, |out| tails.send(own, out)))
}
