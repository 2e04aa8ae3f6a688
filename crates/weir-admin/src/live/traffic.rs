//! Requests of every route, since the start.

use super::rates::Sums;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use weir_gateway::snapshot::Snapshot;

/// Most routes that are told.
const MOST: usize = 2000;

/// Requests since the start; the difference of two is what came between.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Traffic {
    /// When, in milliseconds since 1970.
    pub(crate) at_ms: u64,
    /// Routes, the busiest first.
    pub(crate) routes: Vec<RouteTraffic>,
    /// There are more.
    pub(crate) more: bool,
}

/// Requests of a route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub(crate) struct RouteTraffic {
    /// Name of the API; empty: none was found.
    pub(crate) api: String,
    /// Its operation; empty: no route was found.
    pub(crate) operation: String,
    /// Requests.
    pub(crate) requests: u64,
    /// Of them, those answered with 4xx.
    pub(crate) client_errors: u64,
    /// Of them, those answered with 5xx.
    pub(crate) server_errors: u64,
    /// Microseconds that half of them took at most, within 1 %.
    pub(crate) p50_us: Option<u64>,
    /// The same of 99 %.
    pub(crate) p99_us: Option<u64>,
}

impl Traffic {
    /// What a snapshot has.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let mut all: BTreeMap<(&str, &str), Sums> = BTreeMap::new();
        for series in &snapshot.requests {
            let sums = all.entry((&series.api, &series.operation)).or_default();
            sums.add(series);
        }
        let told = |((api, operation), sums): ((&str, &str), Sums)| RouteTraffic {
            api: api.to_owned(),
            operation: operation.to_owned(),
            requests: sums.requests,
            client_errors: sums.client_errors,
            server_errors: sums.server_errors,
            p50_us: sums.percentile_us(50),
            p99_us: sums.percentile_us(99),
        };
        let mut routes: Vec<RouteTraffic> = all.into_iter().map(told).collect();
        routes.sort_by_key(|route| std::cmp::Reverse(route.requests));
        let more = routes.len() > MOST;
        routes.truncate(MOST);
        Self { at_ms: super::unix_ms(), routes, more }
    }
}
