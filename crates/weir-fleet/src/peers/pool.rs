//! Connections to other nodes that are kept for the next request.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use uuid::Uuid;
use weir_http_client::Connection;

/// Idle connections that are kept of a node.
const MAX_IDLE: usize = 2;
/// Longest time that a connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Idle connections, by node.
#[derive(Debug, Default)]
pub(super) struct Pool(Mutex<HashMap<Uuid, Vec<Idle>>>);

#[derive(Debug)]
struct Idle {
    connection: Connection,
    /// URL of the node when it was opened.
    url: String,
    since: Instant,
}

impl Pool {
    /// A connection to a node that can be used; the one that was used last.
    pub(super) async fn check_out(&self, node: Uuid, url: &str) -> Option<Connection> {
        loop {
            let idle = self.0.lock().get_mut(&node)?.pop()?;
            let Idle { mut connection, url: opened, since } = idle;
            if opened == url && since.elapsed() < IDLE_TIMEOUT && connection.is_reusable().await {
                return Some(connection);
            }
        }
    }

    /// Keeps a connection whose response is complete, unless there are enough.
    pub(super) fn check_in(&self, node: Uuid, url: &str, connection: Connection) {
        let idle = Idle { connection, url: url.to_owned(), since: Instant::now() };
        let mut all = self.0.lock();
        // Those of nodes that have left end here.
        all.retain(|_, idle| {
            idle.retain(|one| one.since.elapsed() < IDLE_TIMEOUT);
            !idle.is_empty()
        });
        let of_node = all.entry(node).or_default();
        if of_node.len() < MAX_IDLE {
            of_node.push(idle);
        }
    }

    /// Closes all, after a change of the settings.
    pub(super) fn clear(&self) {
        self.0.lock().clear();
    }
}
