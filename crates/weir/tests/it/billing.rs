//! Who is throttled, what calls cost, and what is told of it: quotas that roll, invoices, events.

mod sink;
mod standings;
mod triggers;
