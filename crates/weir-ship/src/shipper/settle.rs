//! What the responses to requests mean for documents.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use weir_model::TransactionId;
use weir_model::search_sink::Content;
use weir_tracker::read_keys;

use super::{Shipper, Source, lines};
use crate::bulk::{self, ItemVerdict, Verdict};
use crate::error::ShipError;
use crate::queue::Item;
use crate::records::NewRejected;
use crate::request::Response;
use crate::upkeep::{Step, StepVerdict};

/// Shortest interval between two messages about documents that wait.
const NOTE_INTERVAL: Duration = Duration::from_secs(60);
/// If all documents of so many or more are rejected, the index is at fault, not the documents.
const MIN_INDEX_FAULT: usize = 50;

impl Shipper {
    pub(super) fn settle_step(
        &mut self,
        step: Step,
        response: Result<Response, String>,
        now: Instant,
    ) {
        self.keeping_up = false;
        let Some(upkeep) = &mut self.upkeep else { return };
        match upkeep.settle(step, response, Timestamp::now()) {
            StepVerdict::Done if self.template_at_fault && upkeep.is_ready() => {
                self.succeeded();
            }
            StepVerdict::Done => self.pace.succeeded(),
            StepVerdict::Retry(reason) => self.failed(&reason, now),
            StepVerdict::Pause(reason) => {
                self.template_at_fault = true;
                self.pause(reason, now);
            }
            StepVerdict::Note(note) => self.notes.push(note),
        }
    }

    pub(super) fn settle_bulk(
        &mut self,
        source: Source,
        items: Vec<Item>,
        response: Result<Response, String>,
        now: Instant,
    ) -> Result<(), ShipError> {
        match bulk::judge(response, items.len()) {
            Verdict::Items(verdicts) => self.settle_items(source, items, verdicts, now),
            Verdict::Retry(reason) => {
                self.put_back(source, items);
                self.failed(&reason, now);
                Ok(())
            }
            Verdict::Divide(status, reason) => {
                if items.len() == 1 {
                    let verdicts = vec![ItemVerdict::Rejected(status, reason)];
                    return self.settle_items(source, items, verdicts, now);
                }
                let bytes = items.iter().map(|item| item.lines.len()).sum();
                self.pace.too_large(items.len(), bytes);
                self.statistics.retries += 1;
                self.put_back(source, items);
                Ok(())
            }
            Verdict::Pause(reason) => {
                self.put_back(source, items);
                self.pause(reason, now);
                Ok(())
            }
        }
    }

    pub(super) fn settle_items(
        &mut self,
        source: Source,
        items: Vec<Item>,
        verdicts: Vec<ItemVerdict>,
        now: Instant,
    ) -> Result<(), ShipError> {
        let count = items.len();
        let (mut again, mut reject, mut done) = (Vec::new(), Vec::new(), Vec::new());
        let (mut retry, mut pause, mut unread) = (None, None, Ok(()));
        for (mut item, verdict) in items.into_iter().zip(verdicts) {
            match verdict {
                ItemVerdict::Done => done.push(item.order),
                ItemVerdict::Retry(reason) => {
                    retry = Some(reason);
                    again.push(item);
                }
                ItemVerdict::Pause(reason) => {
                    pause = Some(reason);
                    again.push(item);
                }
                ItemVerdict::Rejected(status, reason) => match self.reduce(&mut item) {
                    Ok(true) => again.push(item),
                    Ok(false) => reject.push((item, status, reason)),
                    Err(error) => {
                        unread = Err(error);
                        again.push(item);
                    }
                },
            }
        }
        if let Some((_, _, reason)) = reject.first().filter(|_| reject.len() == count)
            && count >= MIN_INDEX_FAULT
        {
            pause = Some(format!("all of {count} documents were rejected: {reason}"));
            again.extend(reject.drain(..).map(|(item, _, _)| item));
        }
        self.statistics.docs += done.len() as u64;
        self.settle_all(source, done);
        let rejected = self.reject(source, reject);
        self.put_back(source, again);
        match (pause, retry) {
            (Some(reason), _) => self.pause(reason, now),
            (None, Some(reason)) => self.failed(&reason, now),
            (None, None) => self.succeeded(),
        }
        rejected.and(unread)
    }

    /// Replaces a rejected document by one without payload, once. False if there is none.
    fn reduce(&mut self, item: &mut Item) -> Result<bool, ShipError> {
        let Some(address) =
            item.address.filter(|_| self.settings.content == Content::Payload && !item.reduced)
        else {
            return Ok(false);
        };
        let found = self.journal.get(address).map_err(ShipError::Journal)?;
        let Some(mut transaction) = found else { return Ok(false) };
        read_keys(&self.settings.keys, &mut transaction);
        item.lines = lines(&transaction, &self.settings, Content::Keys, &mut self.scratch);
        item.reduced = true;
        Ok(true)
    }

    /// Notes rejected documents; if that fails, they are sent again.
    fn reject(
        &mut self,
        source: Source,
        documents: Vec<(Item, u16, String)>,
    ) -> Result<(), ShipError> {
        if documents.is_empty() {
            return Ok(());
        }
        let note = |(item, status, reason): &(Item, u16, String)| NewRejected {
            id: item.id,
            address: item.address,
            status: *status,
            reason: reason.clone(),
        };
        let notes: Vec<_> = documents.iter().map(note).collect();
        match self.records.reject(&notes) {
            Ok(dropped) => {
                self.statistics.rejected += documents.len() as u64;
                self.statistics.rejected_dropped += dropped;
                let (item, _, reason) = &documents[0];
                let (id, count) = (TransactionId(item.id), documents.len());
                self.notes.push(format!("{count} documents were rejected, {id} first: {reason}"));
                if let (Source::Backfill, Some(backfill)) = (source, &mut self.backfill) {
                    backfill.rejected(documents.len());
                }
                self.settle_all(source, documents.iter().map(|(item, ..)| item.order).collect());
                Ok(())
            }
            Err(error) => {
                self.put_back(source, documents.into_iter().map(|(item, ..)| item).collect());
                Err(error.into())
            }
        }
    }

    fn succeeded(&mut self) {
        self.pace.succeeded();
        self.template_at_fault = false;
        if self.statistics.paused.take().is_some() {
            self.notes.push("documents are accepted again".to_owned());
        }
    }

    fn failed(&mut self, reason: &str, now: Instant) {
        self.statistics.retries += 1;
        let reported =
            self.reported.is_some_and(|reported| now.duration_since(reported) < NOTE_INTERVAL);
        if !self.pace.is_failing() && !reported {
            self.reported = Some(now);
            self.notes.push(format!("documents wait: {reason}"));
        }
        self.pace.failed(now);
    }

    fn pause(&mut self, reason: String, now: Instant) {
        self.statistics.retries += 1;
        if self.statistics.paused.as_ref() != Some(&reason) {
            self.notes.push(format!("paused, documents wait in the journal: {reason}"));
        }
        self.statistics.paused = Some(reason);
        self.pace.paused(now);
        if let Some(upkeep) = &mut self.upkeep {
            upkeep.begin_again();
        }
    }

    fn put_back(&mut self, source: Source, items: Vec<Item>) {
        if let Some(queue) = self.queue_of(source) {
            queue.put_back(items);
        }
    }

    fn settle_all(&mut self, source: Source, orders: Vec<u64>) {
        if let Some(queue) = self.queue_of(source) {
            orders.into_iter().for_each(|order| queue.settle(order));
        }
    }
}
