//! What nodes without a response have shipped to a sink of transactions: searched and read there.

use super::{Position, Positioned};
use crate::api::Call;
use crate::audit::Action;
use crate::problem::Result;
use axum::body::Bytes;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use uuid::Uuid;
use weir_fleet::peers::Peer;
use weir_model::TransactionId;
use weir_model::search_sink::Content;
use weir_ship::{Sinks, search_request};
use weir_tracker::document::{Hit, Page, SinkSearch};
use weir_tracker::opensearch::{Found, SearchBody, found_document};
use weir_tracker::{Search, Tracker, TrackerError};

/// The sink that is searched.
struct Sink<'a> {
    sinks: &'a Sinks,
    name: String,
    content: Content,
}

/// The result of a search in a sink.
pub(in crate::api) struct Shipped {
    /// A page for each node; none after a failure.
    pub(in crate::api) pages: Vec<Positioned>,
    pub(in crate::api) search: SinkSearch,
}

/// A transaction that was read from a sink.
pub(in crate::api) struct ShippedTransaction {
    pub(in crate::api) sink: String,
    pub(in crate::api) found: Found,
}

impl Call {
    /// Whether there is a sink to be searched.
    pub(in crate::api) fn has_sink(&self) -> bool {
        self.sink().is_some()
    }

    fn sink(&self) -> Option<Sink<'_>> {
        let sinks = self.api.sources.sinks.as_ref()?;
        let (name, content) = sinks.searched()?;
        Some(Sink { sinks, name, content })
    }

    /// Searches what nodes have shipped, of each from its position on; `None` without a sink.
    pub(in crate::api) async fn search_shipped(
        &self,
        search: &Search,
        nodes: &[(Peer, Position)],
        limit: Duration,
    ) -> Result<Option<Shipped>> {
        let Some(sink) = self.sink() else { return Ok(None) };
        let ids: Vec<(String, Option<String>)> = nodes
            .iter()
            .map(|(peer, position)| (peer.id.to_string(), position.cursor().map(str::to_owned)))
            .collect();
        let search = Search { timeout: limit, ..search.clone() };
        let body = SearchBody::of_nodes(&search, sink.content, &ids)?;
        if body.payload {
            self.audit(Action::Search, search.query.clone(), format!("sink {}", sink.name)).await?;
        }
        let response = sink.query(&body.body, limit).await;
        let page = response.and_then(|bytes| body.page(&bytes).map_err(|error| error.to_string()));
        let page = match page {
            Ok(page) if page.cut => Err(format!("no response within {limit:.1?}")),
            Ok(page) => Ok(self.with_resolutions(page).await?),
            Err(error) => Err(error),
        };
        let search = SinkSearch {
            name: sink.name.clone(),
            nodes: nodes.iter().map(|(peer, _)| peer.name.clone()).collect(),
            untranslated: body.untranslated,
            error: page.as_ref().err().cloned(),
        };
        let pages = page.map(|page| split(page, &sink.name, nodes)).unwrap_or_default();
        Ok(Some(Shipped { pages, search }))
    }

    /// A page with the resolutions as of now: a sink has none.
    async fn with_resolutions(&self, mut page: Page) -> Result<Page> {
        let add = move |tracker: &Arc<Tracker>| -> Result<Page, TrackerError> {
            for hit in &mut page.transactions {
                tracker.add_resolution(&mut hit.summary)?;
            }
            Ok(page)
        };
        self.api.query_tracker(add).await
    }

    /// The transaction that any node, or one, has shipped; `None` without a sink, or if the sink does
    /// not have it.
    ///
    /// # Errors
    /// The sink cannot be searched.
    pub(in crate::api) async fn find_shipped(
        &self,
        id: Uuid,
        node: Option<Uuid>,
        limit: Duration,
    ) -> Result<Option<ShippedTransaction>, String> {
        let Some(sink) = self.sink() else { return Ok(None) };
        let body = SearchBody::of_transaction(TransactionId(id.as_u128()));
        let of_sink = |error: String| format!("sink {}: {error}", sink.name);
        let response = sink.query(&body, limit).await.map_err(of_sink)?;
        let found = found_document(&response).map_err(|error| of_sink(error.to_string()))?;
        let is_of_node = |found: &Found| node.is_none_or(|node| found.node.0 == node.to_string());
        let found = found.filter(is_of_node);
        let scope = &self.caller.scope;
        let found = found.filter(|found| scope.includes(&found.record.api));
        Ok(found.map(|found| ShippedTransaction { sink: sink.name.clone(), found }))
    }
}

impl Sink<'_> {
    /// The body of the response to a search.
    async fn query(&self, body: &Value, limit: Duration) -> Result<Bytes, String> {
        let sent = self.sinks.send(&self.name, search_request(&self.name, body));
        let response = timeout(limit, sent).await;
        let response =
            response.unwrap_or_else(|_| Err(format!("no response within {limit:.1?}")))?;
        match response.status {
            200 => Ok(response.body),
            status => Err(format!("status {status}")),
        }
    }
}

/// The page of several nodes as a page of each. Cursors of a sink are those of the nodes' own pages.
fn split(page: Page, sink: &str, nodes: &[(Peer, Position)]) -> Vec<Positioned> {
    let Page { transactions, next: last, incomplete, payload, .. } = page;
    let mut of_node: HashMap<String, Vec<Hit>> = HashMap::new();
    for mut hit in transactions {
        sink.clone_into(&mut hit.summary.sink);
        of_node.entry(hit.summary.node.clone()).or_default().push(hit);
    }
    let positioned = |(peer, position): &(Peer, Position)| {
        // A full page ends before what nodes that are behind it have.
        let next = last.as_ref().map(|last| match position.cursor() {
            Some(at) if at < last.as_str() => at.to_owned(),
            _ => last.clone(),
        });
        let transactions = of_node.remove(&peer.id.to_string()).unwrap_or_default();
        let page = Page { transactions, next, incomplete, payload, ..Page::default() };
        let (node, name, position) = (peer.id, peer.name.clone(), position.clone());
        Positioned { node, name, position, page }
    };
    nodes.iter().map(positioned).collect()
}
