//! Stored responses, and what HTTP says of their freshness (a subset of RFC 9111).

pub(crate) mod rules;
mod store;

pub(crate) use store::{Entry, FillGuard, Found, Store, StoredResponse};
