//! Retention.
