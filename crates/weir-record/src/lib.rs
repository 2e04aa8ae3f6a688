//! Recording of transactions: the request as policies and observers read it, redaction, the records
//! of the journal, lines of the access log.
//!
//! Nothing in this crate affects how a request is served.

pub mod access_log;
pub mod capture;
pub mod client_request;
pub mod redaction;
pub mod transaction;
pub mod transaction_id;
