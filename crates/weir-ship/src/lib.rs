//! Shipping of transactions to OpenSearch and Kafka.
//!
//! A [`Shipper`] is a follower of the journal with a bounded backlog. It makes requests and judges
//! the responses; the caller sends them, and decides how long it waits. A transaction is settled once
//! the sink has its document, or has rejected it and the database knows that. The checkpoint
//! advances only over settled transactions: after a crash documents are sent again. OpenSearch finds
//! that they exist, by index and id; a topic of Kafka has them twice, with the same id.
//!
//! The modules in the order of a transaction: `destination` is OpenSearch or Kafka, `queue` has documents
//! that are not settled, `pace` how many are sent and when, `bulk` makes requests and reads responses,
//! `records` keeps what was not sent, `backfill` reads it again, `upkeep` installs the template and
//! deletes old indexes. `shipper` combines them and makes messages for Kafka; `sinks` is the access of
//! the admin API.

mod backfill;
mod bulk;
mod destination;
mod error;
mod pace;
mod queue;
mod records;
mod request;
mod shipper;
mod sinks;
mod statistics;
mod upkeep;

pub use backfill::{BackfillOptions, BackfillProgress, BackfillState};
pub use bulk::ItemVerdict;
pub use destination::{Destination, SinkKind};
pub use error::ShipError;
pub use records::{GapFilled, RejectedDocument, ShipGap, gaps, rejected};
pub use request::{
    MAX_RESPONSE_BYTES, MAX_SEARCH_RESPONSE_BYTES, Request, Response, search_request,
};
pub use shipper::{EventMessage, Settings, Shipper, Ticket, remove_other_followers};
pub use sinks::{Sending, SinkLag, SinkState, Sinks};
pub use statistics::Statistics;

#[cfg(test)]
mod tests;
