//! Figures of transactions, of this node or as a sum over nodes.

use super::recent::{Recent, RecentFigures};
use super::{DEADLINE, Scope, documents, forward, limit, passed_on, target};
use crate::api::Call;
use crate::api::transaction::timeout;
use crate::audit::Action;
use crate::problem::Result;
use axum::Json;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use weir_tracker::document::Nodes;
use weir_tracker::{Counts, Difference, Profile, SEARCH_TIMEOUT, Search, SearchError, Tracker};

/// Figures of the hits of a query.
pub(in crate::api) trait Figures:
    Clone + Serialize + DeserializeOwned + Send + 'static
{
    /// Recent ones of this kind.
    fn recent(all: &RecentFigures) -> &Recent<Self>;
    /// The figures of all nodes together.
    fn merge(all: Vec<Self>) -> Self;
    /// Whether the query searched payloads, which is audited.
    fn searched_payload(&self) -> bool;
    /// The nodes that they are from; without all of them they are incomplete.
    fn set_nodes(&mut self, nodes: Nodes);
}

macro_rules! figures {
    ($($document:ty = $recent:ident),*) => {$(
        impl Figures for $document {
            fn recent(all: &RecentFigures) -> &Recent<Self> {
                &all.$recent
            }

            fn merge(all: Vec<Self>) -> Self {
                Self::merge(all)
            }

            fn searched_payload(&self) -> bool {
                self.payload
            }

            fn set_nodes(&mut self, nodes: Nodes) {
                self.incomplete |= !nodes.missing.is_empty();
                self.nodes = Some(nodes);
            }
        }
    )*};
}

figures!(Counts = counts, Difference = differences, Profile = profiles);

/// A request for figures.
pub(in crate::api) struct FiguresRequest<'a> {
    /// Path of the endpoint.
    pub(in crate::api) path: String,
    /// The query.
    pub(in crate::api) query: &'a str,
    /// Its other parameters, except these.
    pub(in crate::api) parameters: &'a [(&'a str, Option<&'a str>)],
    /// What the audit says of them.
    pub(in crate::api) audited: String,
    pub(in crate::api) timeout: Option<u64>,
    pub(in crate::api) node: Option<&'a str>,
}

impl FiguresRequest<'_> {
    /// Responds with the figures that `find` finds, of this node, another one, or all.
    pub(in crate::api) async fn respond<T: Figures>(
        self,
        call: &Call,
        find: impl FnOnce(&Arc<Tracker>, &Search) -> Result<T, SearchError> + Send + 'static,
    ) -> Result<Response> {
        match call.scope(self.node)? {
            Scope::Here => {
                let timeout = timeout(self.timeout, SEARCH_TIMEOUT)?;
                Ok(Json(self.find_here(call, timeout, find).await?).into_response())
            }
            Scope::One(fleet, peer) => {
                let timeout = timeout(self.timeout, DEADLINE)?;
                let request = call.get(self.target(timeout));
                let response = forward(&fleet, &peer, &request, limit(timeout)).await?;
                Ok(passed_on(response))
            }
            Scope::All(fleet, peers) => {
                let timeout = timeout(self.timeout, DEADLINE)?;
                let request = call.get(self.target(timeout));
                let here = self.find_here(call, timeout, find);
                let (all, nodes) = documents((&fleet, &peers), &request, timeout, here).await?;
                let mut sum = T::merge(all);
                sum.set_nodes(nodes);
                Ok(Json(sum).into_response())
            }
        }
    }

    /// The request target on another node.
    fn target(&self, timeout: Duration) -> String {
        let timeout = timeout.as_secs().to_string();
        let own = [("q", Some(self.query)), ("timeout", Some(timeout.as_str()))];
        target(&self.path, &[&own[..], self.parameters].concat())
    }

    async fn find_here<T: Figures>(
        &self,
        call: &Call,
        timeout: Duration,
        find: impl FnOnce(&Arc<Tracker>, &Search) -> Result<T, SearchError> + Send + 'static,
    ) -> Result<T> {
        let (payload, apis) = (call.caller.reads_payloads(), call.caller.scope.apis.clone());
        let key = format!("{}\n{payload}\n{}", self.target(timeout), apis.join("\n"));
        let query = self.query.to_owned();
        let search = Search { query, limit: 0, cursor: None, payload, apis, keys: false, timeout };
        let find = call.api.query_tracker(move |tracker| find(tracker, &search));
        let found = T::recent(&call.api.figures).get_or_find(key, find).await?;
        if found.searched_payload() {
            call.audit(Action::Count, self.query.to_owned(), self.audited.clone()).await?;
        }
        Ok(found)
    }
}
