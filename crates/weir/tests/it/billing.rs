//! Who is throttled, what calls cost, and what is told of it: quotas that roll, invoices, events.

mod invoices;
pub(crate) mod sink;
mod standings;
mod triggers;
mod unbilled;
mod usage;
