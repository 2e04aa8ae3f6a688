//! Which transactions the query of a job finds, and their requests.

use crate::context::{Context, new_id};
use crate::request::{self, Edit};
use std::collections::HashMap;
use weir_config::Config;
use weir_journal::{Address, Transaction};
use weir_model::{RejectionReason, ReplayRequest};
use weir_store::ledger::PreviewItem;
use weir_tracker::{Error, Page, Query, payload_bytes};

/// Largest size of the bodies of attempts of jobs in flight.
pub(crate) const MAX_IN_FLIGHT_BYTES: usize = 64 << 20;
/// Transactions of a page of a preview.
const PREVIEW_PAGE: usize = 256;

/// A transaction of a job: its id, its address, and whether the job that is retried accepted its state.
pub(crate) type Item = (u128, Address, bool);

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
        items: &[Item],
    ) -> Result<(Vec<Request>, Option<usize>), Error> {
        let config = (self.gateway.config)();
        let mut addresses: Vec<_> = items.iter().map(|(_, address, _)| *address).collect();
        addresses.sort_by_key(|address| (address.lane, address.position));
        // Items without an address have the same one.
        addresses.dedup();
        let mut read: HashMap<u128, Transaction> = HashMap::with_capacity(items.len());
        for one in self.index.read_at(&addresses)? {
            read.insert(u128::from_be_bytes(one.id), one);
        }
        let bytes: usize = read.values().map(payload_bytes).sum();
        let mean = bytes.checked_div(read.len());
        let mut prepared = Vec::with_capacity(items.len());
        for (id, _, accepted) in items {
            let options = (options.0, options.1 || *accepted);
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
            PreviewItem { id: hit.row.id, address, reason, base: None }
        });
        let items = items.collect();
        Ok((items, hits.next.map(|cursor| cursor.to_string()), hits.incomplete))
    }
}
