//! Shipping of transactions to OpenSearch and Kafka.
//!
//! A [`Shipper`] is a follower of the journal with a bounded backlog. It makes requests and judges
//! the responses; the caller sends them, and decides how long it waits. A transaction is settled once
//! the sink has its document, or has rejected it and the database knows that. The checkpoint
//! advances only over settled transactions: after a crash documents are sent again, with the same
//! index and id, and found to exist.
//!
//! The modules in the order of a transaction: `queue` has documents that are not settled, `pace` how
//! many are sent and when, `bulk` makes requests and reads responses, `records` keeps what was not
//! sent, `upkeep` installs the template and deletes old indexes. `shipper` combines them.

mod bulk;
mod pace;
mod queue;
mod records;
mod request;
mod shipper;
mod statistics;
mod upkeep;

pub use bulk::ItemVerdict;
pub use records::{RejectedDocument, ShipGap, gaps, rejected};
pub use request::{MAX_RESPONSE_BYTES, Request, Response, search_request};
pub use shipper::{
    Destination, EventMessage, Settings, ShipError, Shipper, Ticket, follower_name,
    remove_other_followers,
};
pub use statistics::Statistics;

#[cfg(test)]
mod tests;
