//! OpenTelemetry's protocol (OTLP): the messages that weir exports, and metrics in them.

pub(crate) mod attributes;
pub(crate) mod messages;
pub(crate) mod points;
