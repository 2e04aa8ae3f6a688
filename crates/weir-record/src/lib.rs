//! What is recorded of a transaction: the request as policies and observers read it, redaction, the
//! records of the journal, lines of the access log.
//!
//! Nothing in here decides about a request.

pub mod access_log;
pub mod capture;
pub mod client_request;
pub mod redaction;
pub mod transaction;
pub mod transaction_id;
