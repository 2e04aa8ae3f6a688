//! Requests of each route since the start.

use super::rates::Sums;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use weir_server::snapshot::Snapshot;

/// Maximum number of routes.
const MAX_ROUTES: usize = 2000;

/// Requests since the start; subtract two results for the requests between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Traffic {
    /// Time in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// Routes by number of requests.
    pub(crate) routes: Vec<RouteTraffic>,
    /// There are more routes.
    pub(crate) more: bool,
}

/// Requests of a route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct RouteTraffic {
    /// Name of the API; empty without a matching API.
    pub(crate) api: String,
    /// Operation; empty without a matching route.
    pub(crate) operation: String,
    /// Requests.
    pub(crate) requests: u64,
    /// Responses with 4xx.
    pub(crate) client_errors: u64,
    /// Responses with 5xx.
    pub(crate) server_errors: u64,
    /// Median duration in microseconds, within 1 %.
    pub(crate) p50_us: Option<u64>,
    /// 99th percentile of the durations.
    pub(crate) p99_us: Option<u64>,
}

impl Traffic {
    /// From a snapshot.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let mut all: BTreeMap<(&str, &str), Sums> = BTreeMap::new();
        for (key, durations) in &snapshot.requests {
            all.entry((&key.api, &key.operation)).or_default().add(key, durations);
        }
        let route = |((api, operation), sums): ((&str, &str), Sums)| RouteTraffic {
            api: api.to_owned(),
            operation: operation.to_owned(),
            requests: sums.requests,
            client_errors: sums.client_errors,
            server_errors: sums.server_errors,
            p50_us: sums.sketch.percentile(50),
            p99_us: sums.sketch.percentile(99),
        };
        let mut routes: Vec<RouteTraffic> = all.into_iter().map(route).collect();
        routes.sort_by_key(|route| std::cmp::Reverse(route.requests));
        let more = routes.len() > MAX_ROUTES;
        routes.truncate(MAX_ROUTES);
        Self { at_ms: super::unix_ms(), routes, more }
    }
}
