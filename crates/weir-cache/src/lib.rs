//! Response cache: store, and rules of freshness (a subset of RFC 9111).

pub mod rules;
mod store;

pub use store::{Entry, FillGuard, Store, StoreLookup, StoredResponse};
