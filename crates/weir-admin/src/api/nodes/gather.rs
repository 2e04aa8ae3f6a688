//! The pages of the other nodes, and of a sink in place of those that do not respond.

use super::shipped::Shipped;
use super::{Cursor, Position, Positioned, document, missing};
use crate::api::Call;
use crate::problem::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;
use weir_fleet::Handle;
use weir_fleet::peers::{Peer, PeerError, PeerRequest, PeerResponse, Peers};
use weir_tracker::Search;
use weir_tracker::document::{MissingNode, SinkSearch};

/// What the other nodes have responded.
#[derive(Default)]
pub(in crate::api) struct Gathered {
    pub(in crate::api) pages: Vec<Positioned>,
    /// Nodes without a response.
    pub(in crate::api) missing: Vec<MissingNode>,
    /// Nodes without a page.
    pub(in crate::api) silent: Vec<Uuid>,
    /// The search in their place.
    pub(in crate::api) sink: Option<SinkSearch>,
}

/// Pages and failures so far.
struct Progress<'a> {
    before: &'a Cursor,
    pages: Vec<Positioned>,
    waiting: BTreeMap<Uuid, Peer>,
    failed: Vec<(Peer, String)>,
}

impl Progress<'_> {
    fn add(&mut self, peer: Peer, response: Result<PeerResponse, PeerError>) {
        self.waiting.remove(&peer.id);
        match document(response) {
            Ok(page) => {
                let position = self.before.position(peer.id);
                self.pages.push(Positioned { node: peer.id, name: peer.name, position, page });
            }
            Err(reason) => self.failed.push((peer, reason)),
        }
    }

    /// Nodes that have not responded up to now, and those that are gone, with what is left of them.
    fn absent(&self, gone: &[Peer]) -> Vec<(Peer, Position)> {
        let failed = self.failed.iter().map(|(peer, _)| peer);
        let all = failed.chain(self.waiting.values()).chain(gone);
        let positioned = all.map(|peer| (peer.clone(), self.before.position(peer.id)));
        positioned.filter(|(_, position)| *position != Position::End).collect()
    }
}

impl Call {
    /// Requests the pages of the other nodes. With a sink, what they have shipped is searched there in
    /// place of those that have failed, or have not responded within half of the time, and of nodes that
    /// have left the fleet.
    pub(in crate::api) async fn gather(
        &self,
        (fleet, peers): (&Handle, &Peers),
        requests: Vec<(Peer, PeerRequest)>,
        (search, before): (&Search, &Cursor),
        limit: Duration,
    ) -> Result<Gathered> {
        let started = Instant::now();
        let waiting = requests.iter().map(|(peer, _)| (peer.id, peer.clone())).collect();
        let mut progress = Progress { before, pages: Vec::new(), waiting, failed: Vec::new() };
        let mut responses = fleet.query_peers(requests, limit);
        let half = started + if self.has_sink() { limit / 2 } else { limit * 2 };
        while let Ok(Some((peer, response))) = timeout_at(half, responses.next()).await {
            progress.add(peer, response);
        }
        let absent = progress.absent(&peers.gone);
        let mut shipped = None;
        if self.has_sink() && !absent.is_empty() {
            let left = limit.saturating_sub(started.elapsed());
            let rest = async {
                while let Some((peer, response)) = responses.next().await {
                    progress.add(peer, response);
                }
            };
            let (found, ()) = tokio::join!(self.search_shipped(search, &absent, left), rest);
            shipped = found?;
        }
        Ok(gathered(progress, &absent, shipped))
    }
}

fn gathered(
    progress: Progress<'_>,
    absent: &[(Peer, Position)],
    shipped: Option<Shipped>,
) -> Gathered {
    let Progress { mut pages, failed, .. } = progress;
    let late: BTreeSet<Uuid> = pages.iter().map(|page| page.node).collect();
    let mut sink = None;
    if let Some(shipped) = shipped {
        // What a node itself has responded, late, is newer.
        pages.extend(shipped.pages.into_iter().filter(|page| !late.contains(&page.node)));
        let absent = absent.iter().filter(|(peer, _)| !late.contains(&peer.id));
        let nodes: Vec<String> = absent.map(|(peer, _)| peer.name.clone()).collect();
        let search = SinkSearch { nodes, ..shipped.search };
        sink = Some(search).filter(|search| !search.nodes.is_empty());
    }
    let has_page = |id: &Uuid| pages.iter().any(|page| page.node == *id);
    let failed_ids = failed.iter().map(|(peer, _)| peer.id);
    let all: BTreeSet<Uuid> = failed_ids.chain(absent.iter().map(|(peer, _)| peer.id)).collect();
    let silent = all.into_iter().filter(|id| !has_page(id)).collect();
    let missing = failed.iter().map(|(peer, reason)| missing(peer, reason.clone())).collect();
    Gathered { pages, missing, silent, sink }
}
