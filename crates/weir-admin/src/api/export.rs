//! Exports of transactions, of one node or all.

use super::nodes::{self, Cursor, NodeLines, NodesExport, Opened, Position, Scope};
use super::stream::{Pace, line, respond, respond_with};
use super::transaction::limit;
use super::{Call, permit};
use crate::access::BASE;
use crate::audit::Action;
use crate::problem::{Params, Result};
use axum::response::Response;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use utoipa::IntoParams;
use weir_fleet::Handle;
use weir_fleet::peers::{Peer, Peers};
use weir_tracker::document::{ExportEnd, Transaction};
use weir_tracker::{Export, ExportStep, SEARCH_TIMEOUT, Search};

/// Default and largest number of exported transactions.
const EXPORT: usize = 10_000;
const MAX_EXPORT: usize = 1_000_000;

/// Query and options of an export.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct ExportParams {
    /// The query; empty: all transactions.
    #[serde(default)]
    q: String,
    /// Maximum number of transactions, 1 to 1000000; default 10000.
    limit: Option<usize>,
    /// The cursor of an export that reached its limit, of the same nodes.
    cursor: Option<String>,
    /// Name or id of the node of the fleet that is exported, or `here`; default: all.
    node: Option<String>,
}

impl ExportParams {
    /// The request to another node.
    fn target(&self, limit: usize, cursor: Option<&str>) -> String {
        let limit = limit.to_string();
        let parameters =
            [("q", Some(self.q.as_str())), ("limit", Some(&limit)), ("cursor", cursor)];
        nodes::target(&format!("{BASE}/transactions/export"), &parameters)
    }
}

/// Export transactions, newest first
///
/// One JSON object per line, as in `GET /v1/transactions/{id}`; with `payload` for the role
/// `payload-viewer`. The last line has `end`: the number of transactions, and whether there are
/// more. An export without that line was aborted. Empty lines are keep-alives. In a fleet whose nodes query
/// each other: of all nodes. `end.nodes` names those that have not responded; if a node fails in between,
/// the last line has `failed` in place of `end`, and the export is not complete.
#[utoipa::path(get, path = "/v1/transactions/export", tag = "transactions", params(ExportParams),
    responses(
        (status = 200, description = "Transactions, one per line.",
            content_type = "application/x-ndjson", body = Transaction),
        (status = 400, description = "The query, the limit or the cursor is invalid."),
        (status = 403, description = "The query searches payloads, which requires the role payload-viewer."),
        (status = 409, description = "Recording or indexing is off."),
        (status = 503, description = "Too many concurrent exports, or the node does not respond.")))]
pub(super) async fn export(call: Call, Params(params): Params<ExportParams>) -> Result<Response> {
    let limit = limit(params.limit, EXPORT, MAX_EXPORT)?;
    let permit = permit(&call.api.long, "long queries")?;
    match call.scope(params.node.as_deref())? {
        Scope::Here => {
            let cursor = params.cursor.clone();
            let mut export = export_here(&call, &params, limit, cursor).await?;
            Ok(respond(move || batch(&mut export), Pace::Steady, call.grant()?, permit))
        }
        Scope::One(fleet, peer) => export_one(&call, (fleet, peer), &params, (limit, permit)).await,
        Scope::All(fleet, peers) => {
            export_all(&call, (fleet, peers), &params, (limit, permit)).await
        }
    }
}

/// The export of this node.
async fn export_here(
    call: &Call,
    params: &ExportParams,
    limit: usize,
    cursor: Option<String>,
) -> Result<Export> {
    let (payload, apis) = (call.caller.reads_payloads(), call.caller.scope.apis.clone());
    let query = params.q.clone();
    let search =
        Search { query, limit, cursor, payload, apis, keys: false, timeout: SEARCH_TIMEOUT };
    let export = call.api.query_tracker(move |tracker| tracker.export(search)).await?;
    if payload {
        call.audit(Action::Export, params.q.clone(), "").await?;
    }
    Ok(export)
}

/// The export of another node.
async fn export_one(
    call: &Call,
    (fleet, peer): (Handle, Peer),
    params: &ExportParams,
    (limit, permit): (usize, OwnedSemaphorePermit),
) -> Result<Response> {
    let before = Cursor::parse(params.cursor.as_deref())?;
    let position = before.position(peer.id);
    let request = call.get(params.target(limit, position.cursor()));
    let stream = match nodes::open(&fleet, &peer, &request).await {
        Ok(Opened::Stream(stream)) => stream,
        Ok(Opened::Rejected(response)) => return Ok(nodes::passed_on(response)),
        Err(error) => return Err(nodes::silent(&peer.name, &error)),
    };
    let mut export = NodesExport::new(limit, before);
    export.add((peer.id, &peer.name), NodeLines::Peer(Box::new(stream)));
    Ok(respond_with(call.grant()?, permit, |out| export.send(out)))
}

/// The exports of all nodes.
async fn export_all(
    call: &Call,
    (fleet, peers): (Handle, Peers),
    params: &ExportParams,
    (limit, permit): (usize, OwnedSemaphorePermit),
) -> Result<Response> {
    let before = Cursor::parse(params.cursor.as_deref())?;
    let position = before.position(peers.own);
    let open = peers.others.iter().filter(|peer| before.position(peer.id) != Position::End);
    let requests = open.map(|peer| {
        let target = params.target(limit, before.position(peer.id).cursor());
        (peer.clone(), call.get(target))
    });
    let requests = requests.collect();
    let mut export = NodesExport::new(limit, before);
    if position != Position::End {
        let cursor = position.cursor().map(str::to_owned);
        let here = export_here(call, params, limit, cursor).await?;
        export.add((peers.own, &peers.name), NodeLines::here(here));
    }
    export.open((&fleet, &peers), requests).await;
    Ok(respond_with(call.grant()?, permit, |out| export.send(out)))
}

/// Bytes of one batch: the next transactions wait until it is sent.
const BATCH: usize = 256 << 10;

/// The next lines of an export, possibly empty, or `None` at the end.
fn batch(export: &mut Export) -> Option<String> {
    let mut text = String::new();
    while text.len() < BATCH {
        match export.step() {
            // The first line, which may be long, is not copied.
            Ok(Some(ExportStep::Found(one))) if text.is_empty() => text = line(&*one),
            Ok(Some(ExportStep::Found(one))) => text.push_str(&line(&*one)),
            Ok(Some(ExportStep::Pending)) => break,
            Ok(Some(ExportStep::End(end))) => text.push_str(&line(&ExportEnd { end })),
            Ok(None) | Err(_) => return (!text.is_empty()).then_some(text),
        }
    }
    Some(text)
}
