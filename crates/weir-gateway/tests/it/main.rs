//! Tests of the crate from outside.

mod documents;
mod files;
mod golden;
mod summary;
mod tls;
mod written;
