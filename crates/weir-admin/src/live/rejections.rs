//! Requests that weir turned away since the start, by consumer and reason.

use super::Rejected;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_gateway::snapshot::Snapshot;

/// Most consumers that are told.
const MOST: usize = 2000;

/// Requests that weir turned away since the start: 401, 403, 429 and 503 of its own. What an
/// upstream answered is none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Rejections {
    /// All of them.
    pub(crate) requests: u64,
    /// By consumer, who was turned away most often first.
    pub(crate) consumers: Vec<ConsumerRejections>,
    /// There are more consumers.
    pub(crate) more: bool,
}

/// Requests of a consumer that weir turned away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct ConsumerRejections {
    /// Its name; empty where nobody in particular called.
    pub(crate) consumer: String,
    /// All of them.
    pub(crate) requests: u64,
    /// By reason, the most frequent first.
    pub(crate) reasons: Vec<Rejected>,
}

impl Rejections {
    /// What a snapshot has; consumers stand together in it.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let mut told = Self::default();
        for series in &snapshot.rejections {
            let consumers = &mut told.consumers;
            if consumers.last().is_none_or(|last| last.consumer != series.consumer) {
                let consumer = series.consumer.clone();
                consumers.push(ConsumerRejections { consumer, ..ConsumerRejections::default() });
            }
            let Some(last) = consumers.last_mut() else { continue };
            told.requests += series.requests;
            last.requests += series.requests;
            last.reasons.push(Rejected {
                reason: series.problem.slug().to_owned(),
                status: series.problem.status(),
                requests: series.requests,
            });
        }
        for one in &mut told.consumers {
            one.reasons.sort_by_key(|one| std::cmp::Reverse(one.requests));
        }
        told.consumers.sort_by_key(|one| std::cmp::Reverse(one.requests));
        told.more = told.consumers.len() > MOST;
        told.consumers.truncate(MOST);
        told
    }
}
