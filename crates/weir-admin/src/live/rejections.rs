//! Requests rejected by weir since the start, by consumer and reason.

use super::Rejected;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_server::snapshot::Snapshot;

/// Maximum number of consumers.
const MAX_CONSUMERS: usize = 2000;

/// Requests rejected by weir since the start: local replies with 401, 403, 429 and 503. Responses
/// of upstreams are not included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Rejections {
    /// Total.
    pub(crate) requests: u64,
    /// By consumer, most rejections first.
    pub(crate) consumers: Vec<ConsumerRejections>,
    /// There are more consumers.
    pub(crate) more: bool,
}

/// Rejected requests of a consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ConsumerRejections {
    /// Name; empty for requests without a consumer.
    pub(crate) consumer: String,
    /// Total.
    pub(crate) requests: u64,
    /// By reason, most frequent first.
    pub(crate) reasons: Vec<Rejected>,
}

impl Rejections {
    /// From a snapshot, in which consumers are contiguous.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let mut all = Self::default();
        for series in &snapshot.rejections {
            let consumers = &mut all.consumers;
            if consumers.last().is_none_or(|last| last.consumer != series.consumer) {
                let consumer = series.consumer.clone();
                consumers.push(ConsumerRejections { consumer, ..ConsumerRejections::default() });
            }
            let Some(last) = consumers.last_mut() else { continue };
            all.requests += series.requests;
            last.requests += series.requests;
            last.reasons.push(Rejected {
                reason: series.problem.slug().to_owned(),
                status: series.problem.status(),
                requests: series.requests,
            });
        }
        for one in &mut all.consumers {
            one.reasons.sort_by_key(|one| std::cmp::Reverse(one.requests));
        }
        all.consumers.sort_by_key(|one| std::cmp::Reverse(one.requests));
        all.more = all.consumers.len() > MAX_CONSUMERS;
        all.consumers.truncate(MAX_CONSUMERS);
        all
    }
}
