//! Messages to Kafka: a CloudEvent for each transaction, in the binary mode of the Kafka protocol
//! binding (section 3.2): attributes are headers, the value is the data.

use std::time::Instant;

use bytes::Bytes;
use weir_model::{TransactionId, UnixMicros};

use super::{Purpose, Shipper, Source, Ticket};
use crate::bulk::ItemVerdict;
use crate::error::ShipError;
use crate::queue::Item;

/// A CloudEvent as a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventMessage {
    /// Key: the id of the transaction.
    pub key: Bytes,
    /// Data of the event as JSON.
    pub value: Bytes,
    /// Attributes of the event.
    pub headers: Vec<(&'static str, String)>,
    /// Time of the receipt of the request in milliseconds since 1970.
    pub time_ms: u64,
}

impl EventMessage {
    fn new(item: &Item, source: &str) -> Self {
        let id = TransactionId(item.id).to_string();
        Self {
            key: id.clone().into(),
            value: Bytes::copy_from_slice(&item.lines),
            headers: vec![
                ("content-type", "application/json".to_owned()),
                ("ce_specversion", "1.0".to_owned()),
                ("ce_id", id.clone()),
                ("ce_source", format!("urn:weir:{source}:tracker")),
                ("ce_type", format!("weir.transaction.{}", item.outcome)),
                ("ce_subject", id),
                ("ce_time", UnixMicros(item.received_us).to_string()),
            ],
            time_ms: item.received_us / 1_000,
        }
    }
}

impl Shipper {
    /// The next messages to Kafka to be sent, if any may be sent now.
    ///
    /// # Errors
    /// The database cannot be read. It can be called again.
    pub fn next_messages(
        &mut self,
        now: Instant,
    ) -> Result<Option<(Ticket, Vec<EventMessage>)>, ShipError> {
        if !self.may_send(now) || self.queue.waiting_docs() == 0 {
            return Ok(None);
        }
        // It changes when this node joins a fleet, or turns out to be a copy of another one.
        let source = self.records.event_source()?;
        let (docs, bytes) = self.pace.limits();
        let items = self.queue.take(docs, bytes);
        let messages = items.iter().map(|item| EventMessage::new(item, &source)).collect();
        self.in_flight += 1;
        Ok(Some((Ticket(Purpose::Bulk(Source::Live, items)), messages)))
    }

    /// Takes what happened to each message, in their order.
    ///
    /// # Errors
    /// The database cannot be written: rejected messages are sent again.
    pub fn settle_messages(
        &mut self,
        ticket: Ticket,
        verdicts: Vec<ItemVerdict>,
        now: Instant,
    ) -> Result<(), ShipError> {
        self.in_flight -= 1;
        match ticket.0 {
            Purpose::Bulk(source, items) => self.settle_items(source, items, verdicts, now),
            Purpose::Upkeep(_) => Ok(()),
        }
    }
}
