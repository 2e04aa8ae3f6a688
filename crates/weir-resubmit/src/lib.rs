//! Resubmission: recorded transactions are sent again, one by one or all that a query finds.
//!
//! The intent of an attempt is durable in the [ledger](weir_store::ledger) before its request is
//! sent, under the transaction id that the attempt has in the journal. An attempt that was being
//! sent when weir ended is `unknown` after the restart, and is sent again only on request; if the
//! journal has its end, its outcome is reconciled from there.
//!
//! The data path, the limits in force and the rights of operators are outside this crate: the caller
//! passes a [`GatewayClient`]; and [`Claims`], which coordinate several nodes.

mod claims;
mod context;
mod items;
mod job;
mod pace;
mod prepare;
mod request;
mod runner;
mod single;
mod statistics;

pub use claims::{Claim, Claims, JobPart, NewResolution, SingleNode};
pub use context::GatewayClient;
pub use items::{FindItems, FoundItem, FoundItems, JobItemAddress, MAX_SENT, SendItems, SentItems};
pub use pace::Pace;
pub use request::{Edit, MAX_BODY_BYTES};
pub use runner::Runner;
pub use single::{Options, ResubmitError, Resubmitter};
pub use statistics::Statistics;
