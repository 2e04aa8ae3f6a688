//! Items of jobs: which transactions a query finds, and their requests. Also for jobs of a fleet, whose
//! items are sent by the node that has the transaction, on request of the node that runs the job.

use crate::claims::{Claim, JobPart};
use crate::context::{Context, new_id};
use crate::request::{self, Edit};
use crate::single::{ResubmitError, Resubmitter};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use utoipa::ToSchema;
use uuid::Uuid;
use weir_config::Config;
use weir_journal::{Address, Position, Transaction, failpoint};
use weir_model::{OnDone, RejectionReason, ReplayRequest};
use weir_store::ledger::{self, Intent, PreviewItem, blocker, record_intent, withdraw_intent};
use weir_tracker::{Error, Page, Query, payload_bytes};

/// Largest size of the bodies of attempts of jobs in flight.
pub(crate) const MAX_IN_FLIGHT_BYTES: usize = 64 << 20;
/// Transactions of a page of a preview.
pub const PREVIEW_PAGE: usize = 256;
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
    /// The transactions, at most 128.
    pub items: Vec<JobItemAddress>,
}

/// What became of a request to send transactions.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct SentItems {
    /// Attempts that were claimed.
    pub claimed: usize,
}

/// A request, or the reason why there is none.
type Request = Result<ReplayRequest, RejectionReason>;

impl Context {
    /// The request for a transaction of a job, if the gateway would accept it.
    pub(crate) fn prepare(
        &self,
        transaction: &Transaction,
        (destination, again): (&str, bool),
        config: &Config,
    ) -> Result<ReplayRequest, RejectionReason> {
        let destination = Some(destination).filter(|name| !name.is_empty());
        let request = request::build(transaction, &Edit::default(), destination, config, new_id())?;
        if !again && request::has_succeeded(transaction) {
            return Err(RejectionReason::Succeeded);
        }
        (self.gateway.check)(&request)?;
        Ok(request)
    }

    /// The requests of transactions, or the reasons why there are none, and the mean size of what was
    /// read.
    pub(crate) fn prepare_all(
        &self,
        options: (&str, bool),
        items: &[(u128, Address)],
    ) -> Result<(Vec<Request>, Option<usize>), Error> {
        let config = (self.gateway.config)();
        let mut addresses: Vec<_> = items.iter().map(|(_, address)| *address).collect();
        addresses.sort_by_key(|address| (address.lane, address.position));
        let mut read: HashMap<u128, Transaction> = HashMap::with_capacity(items.len());
        for one in self.index.read_at(&addresses)? {
            read.insert(u128::from_be_bytes(one.id), one);
        }
        let bytes: usize = read.values().map(payload_bytes).sum();
        let mean = bytes.checked_div(read.len());
        let mut prepared = Vec::with_capacity(items.len());
        for (id, _) in items {
            let found = match read.remove(id) {
                Some(found) => Some(found),
                // It has moved within the journal.
                None => self.index.show(*id)?,
            };
            prepared.push(match found {
                Some(transaction) => self.prepare(&transaction, options, &config),
                None => Err(RejectionReason::NotKept),
            });
        }
        Ok((prepared, mean))
    }

    /// A page of the transactions that a query finds, the cursor of the next one, and whether some may be
    /// missing.
    pub(crate) fn find_page(
        &self,
        query: &Query,
        options: (&str, bool),
        after: Option<&str>,
    ) -> Result<(Vec<PreviewItem>, Option<String>, bool), Error> {
        let after = after.and_then(|after| after.parse().ok());
        let page = Page { limit: PREVIEW_PAGE, after, ..Page::default() };
        let hits = self.index.search(query, &page)?;
        let config = (self.gateway.config)();
        let items = hits.hits.iter().map(|hit| {
            let reason = match &hit.transaction {
                None => Some(RejectionReason::Expired),
                Some(transaction) => self.prepare(transaction, options, &config).err(),
            };
            let address = hit.transaction.as_ref().and_then(|one| one.address);
            PreviewItem { id: hit.row.id, address, reason }
        });
        let items = items.collect();
        Ok((items, hits.next.map(|cursor| cursor.to_string()), hits.incomplete))
    }
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
                let before = blocker(db, one.id, find.again)?;
                let reason = one.reason.or(before).map(|reason| reason.code());
                let (lane, position) = one
                    .address
                    .map_or((0, 0), |address| (address.lane, address.position.to_bits()));
                let item = JobItemAddress { id: Uuid::from_u128(one.id), lane, position };
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
        let items: Vec<(u128, Address)> = send.items.iter().take(MAX_SENT).map(address).collect();
        let (prepared, _) = shared.prepare_all((send.to.as_str(), send.again), &items)?;
        let (mut requests, mut rejected, mut bytes) = (Vec::new(), Vec::new(), 0);
        for ((id, _), request) in items.iter().zip(prepared) {
            match request {
                // The others stay pending. One that is larger is sent alone.
                Ok(request) if bytes > 0 && bytes + request.body.len() > MAX_SENT_BYTES => break,
                Ok(request) => {
                    bytes += request.body.len();
                    requests.push(request);
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
        requests: Vec<ReplayRequest>,
        rejected: &mut Vec<(u128, String)>,
    ) -> rusqlite::Result<Vec<ReplayRequest>> {
        let mut recorded = Vec::with_capacity(requests.len());
        self.shared.ledger.write(|db| {
            for request in requests {
                let intent = Intent {
                    id: request.id,
                    original: request.original,
                    job: None,
                    fleet_job: Some(send.job),
                    who: &send.who,
                    destination: &send.to,
                    difference: "",
                    again: send.again,
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
            again: send.again,
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

fn address(item: &JobItemAddress) -> (u128, Address) {
    let position = Position::from_bits(item.position);
    (item.id.as_u128(), Address { lane: item.lane, position })
}
