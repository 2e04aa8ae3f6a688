//! Who is throttled, what calls cost, and what is told of it: quotas that roll, invoices, events.

mod invoices;
mod sink;
mod standings;
mod triggers;
mod usage;
