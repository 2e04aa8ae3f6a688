//! Items of jobs of a fleet: they are found and sent by the node that has the transaction, on request of
//! the node that runs the job.

use crate::claims::{Claim, JobPart};
use crate::prepare::{Item, MAX_IN_FLIGHT_BYTES};
use crate::single::{ResubmitError, Resubmitter};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use utoipa::ToSchema;
use uuid::Uuid;
use weir_journal::{Address, Position, failpoint};
use weir_model::{OnDone, ReplayRequest};
use weir_store::ledger::{
    self, Again, Intent, PreviewItem, blocker, record_intent, withdraw_intent,
};
use weir_tracker::Query;

/// Most transactions of a request to send items, and largest size of their bodies.
pub const MAX_SENT: usize = 128;
const MAX_SENT_BYTES: usize = 8 << 20;

/// A page of the transactions that a job finds on a node.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FindItems {
    /// Query.
    pub query: String,
    /// When the job was created: `now` in the query, in microseconds since 1970.
    pub created: u64,
    /// Operation of another route; empty for their own.
    pub to: String,
    /// Also those that are settled or whose last attempt is `unknown`.
    pub again: bool,
    /// Cursor of the page before.
    pub after: Option<String>,
}

/// A page of transactions.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct FoundItems {
    /// The transactions, newest first.
    pub items: Vec<FoundItem>,
    /// Cursor of the next page.
    pub next: Option<String>,
    /// Transactions may be missing: the index was not complete.
    pub incomplete: bool,
}

/// A transaction of a page.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct FoundItem {
    /// Where it is.
    pub item: JobItemAddress,
    /// Code of the reason for which it cannot be sent; empty if it can.
    pub reason: String,
}

/// A transaction in the journal of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JobItemAddress {
    /// Its id.
    #[schema(value_type = String)]
    pub id: Uuid,
    /// Lane of the journal.
    pub lane: u16,
    /// Position in the lane.
    pub position: u64,
    /// In a retry: the job that is retried sent it, or would have, despite its state.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
}

/// Transactions of a job that their node is to send.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SendItems {
    /// Number of the job.
    pub job: i64,
    /// Epoch of the lease of the node that runs the job.
    pub epoch: i64,
    /// Name of the operator.
    pub who: String,
    /// Operation of another route; empty for their own.
    pub to: String,
    /// Also those that are settled or whose last attempt is `unknown`.
    pub again: bool,
    /// Also those whose last attempt is `unknown`, but not settled ones.
    // A node of the release before does not know it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
    /// The transactions, at most 128.
    pub items: Vec<JobItemAddress>,
}

impl SendItems {
    fn sends(&self) -> Again {
        if self.unknown && !self.again { Again::Unknown } else { self.again.into() }
    }
}

/// What became of a request to send transactions.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct SentItems {
    /// Attempts that were claimed.
    pub claimed: usize,
}

impl Resubmitter {
    /// The transactions of this node that a job of the fleet finds.
    ///
    /// # Errors
    /// The index is behind, or the database fails.
    pub fn find_items(&self, find: &FindItems) -> Result<FoundItems, ResubmitError> {
        let shared = &self.shared;
        // It was parsed when the job was created.
        let Ok(query) = Query::parse(&find.query, find.created) else {
            return Ok(FoundItems { incomplete: true, ..FoundItems::default() });
        };
        let options = (find.to.as_str(), find.again);
        let (found, next, incomplete) = shared.find_page(&query, options, find.after.as_deref())?;
        let items = shared.ledger.write(|db| {
            let item = |one: PreviewItem| {
                let before = blocker(db, one.id, find.again.into(), None)?;
                let reason = one.reason.or(before).map(|reason| reason.code());
                let (lane, position) = one
                    .address
                    .map_or((0, 0), |address| (address.lane, address.position.to_bits()));
                let id = Uuid::from_u128(one.id);
                let item = JobItemAddress { id, lane, position, accepted: false };
                Ok(FoundItem { item, reason: reason.unwrap_or_default() })
            };
            found.into_iter().map(item).collect()
        })?;
        Ok(FoundItems { items, next, incomplete })
    }

    /// Sends transactions of a job of the fleet: those that are claimed, once their attempts are recorded.
    /// Their outcomes are in the database of this node, as those of any attempt.
    ///
    /// # Errors
    /// [`ResubmitError`]; nothing was sent then.
    pub fn send_items(&self, send: &SendItems) -> Result<SentItems, ResubmitError> {
        let shared = &self.shared;
        if shared.fleet_bytes.load(Ordering::Relaxed) >= MAX_IN_FLIGHT_BYTES {
            return Ok(SentItems::default());
        }
        let items: Vec<Item> = send.items.iter().take(MAX_SENT).map(address).collect();
        let (prepared, _) = shared.prepare_all((send.to.as_str(), send.again), &items)?;
        let (mut requests, mut rejected, mut bytes) = (Vec::new(), Vec::new(), 0);
        for ((id, _, accepted), request) in items.iter().zip(prepared) {
            match request {
                // The others stay pending. One that is larger is sent alone.
                Ok(request) if bytes > 0 && bytes + request.body.len() > MAX_SENT_BYTES => break,
                Ok(request) => {
                    bytes += request.body.len();
                    requests.push((request, *accepted));
                }
                Err(reason) => rejected.push((*id, reason.code())),
            }
        }
        let recorded = self.record_items(send, requests, &mut rejected)?;
        failpoint::pass("resubmit.marked");
        let claimed = self.claim_items(send, recorded, rejected)?;
        failpoint::pass("resubmit.claimed");
        let count = claimed.len();
        self.start_items(claimed)?;
        failpoint::pass("resubmit.sent");
        Ok(SentItems { claimed: count })
    }

    /// Records the intents of requests; those with a blocker are rejected.
    fn record_items(
        &self,
        send: &SendItems,
        requests: Vec<(ReplayRequest, bool)>,
        rejected: &mut Vec<(u128, String)>,
    ) -> rusqlite::Result<Vec<ReplayRequest>> {
        let mut recorded = Vec::with_capacity(requests.len());
        self.shared.ledger.write(|db| {
            for (request, accepted) in requests {
                let intent = Intent {
                    id: request.id,
                    original: request.original,
                    job: None,
                    fleet_job: Some(send.job),
                    who: &send.who,
                    destination: &send.to,
                    difference: "",
                    // The claim checks what came after the attempt that the retry is based on.
                    again: if accepted { Again::All } else { send.sends() },
                    base: None,
                };
                match record_intent(db, &intent)? {
                    Ok(()) => recorded.push(request),
                    Err(reason) => rejected.push((request.original, reason.code())),
                }
            }
            Ok(())
        })?;
        Ok(recorded)
    }

    /// Claims recorded requests; those that are not granted are withdrawn.
    fn claim_items(
        &self,
        send: &SendItems,
        mut recorded: Vec<ReplayRequest>,
        rejected: Vec<(u128, String)>,
    ) -> Result<Vec<ReplayRequest>, ResubmitError> {
        let claim = |request: &ReplayRequest| Claim {
            attempt: request.id,
            original: request.original,
            who: send.who.clone(),
            again: send.sends(),
        };
        let claims: Vec<Claim> = recorded.iter().map(claim).collect();
        let part = JobPart { job: send.job, epoch: send.epoch, rejected };
        let claimed = self.shared.claims.claim(&claims, Some(&part));
        let denied: HashSet<u128> = match &claimed {
            Ok(blockers) => {
                let denied = claims.iter().zip(blockers).filter(|(_, blocker)| blocker.is_some());
                denied.map(|(claim, _)| claim.attempt).collect()
            }
            Err(_) => claims.iter().map(|claim| claim.attempt).collect(),
        };
        if !denied.is_empty() {
            self.shared
                .ledger
                .write(|db| denied.iter().try_for_each(|attempt| withdraw_intent(db, *attempt)))?;
        }
        claimed.map_err(ResubmitError::NotClaimed)?;
        recorded.retain(|request| !denied.contains(&request.id));
        Ok(recorded)
    }

    /// Sends claimed requests. Those that the gateway does not accept are withdrawn: with that, their
    /// claims are, too.
    fn start_items(&self, claimed: Vec<ReplayRequest>) -> rusqlite::Result<()> {
        let mut unsent = Vec::new();
        for request in claimed {
            let (attempt, bytes) = (request.id, request.body.len());
            let shared = Arc::clone(&self.shared);
            shared.fleet_bytes.fetch_add(bytes, Ordering::Relaxed);
            let on_done: OnDone = Box::new(move |outcome| {
                shared.fleet_bytes.fetch_sub(bytes, Ordering::Relaxed);
                shared.push_outcome(attempt, outcome);
                shared.wake();
            });
            if (self.shared.gateway.send)(Box::new(request), on_done).is_err() {
                self.shared.fleet_bytes.fetch_sub(bytes, Ordering::Relaxed);
                unsent.push(attempt);
            }
        }
        if unsent.is_empty() {
            return Ok(());
        }
        self.shared
            .ledger
            .write(|db| unsent.iter().try_for_each(|attempt| ledger::withdraw_intent(db, *attempt)))
    }
}

fn address(item: &JobItemAddress) -> Item {
    let position = Position::from_bits(item.position);
    (item.id.as_u128(), Address { lane: item.lane, position }, item.accepted)
}
