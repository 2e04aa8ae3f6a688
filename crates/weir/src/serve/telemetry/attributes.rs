//! Attributes, resource and scope of exported telemetry.

use super::otlp::{AnyValue, InstrumentationScope, KeyValue, Resource, Value};
use std::time::Duration;

/// A text attribute.
pub(super) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

/// A number attribute.
pub(super) fn number(key: &str, value: impl Into<i64>) -> KeyValue {
    attribute(key, Value::IntValue(value.into()))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value }
}

/// The resource: configured attributes, and those of this process.
pub(super) fn resource(configured: &[(String, String)], instance: &str) -> Resource {
    let own = [
        ("service.name", "weir"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("service.instance.id", instance),
    ];
    let is_own = |(key, _): &&(&str, &str)| configured.iter().all(|(other, _)| other != key);
    let mut attributes: Vec<_> = own.iter().filter(is_own).map(|(k, v)| text(k, *v)).collect();
    attributes.extend(configured.iter().map(|(key, value)| text(key, value)));
    Resource { attributes }
}

/// Nanoseconds of a time since 1970, or of a duration.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The instrumentation scope.
pub(super) fn scope() -> InstrumentationScope {
    InstrumentationScope { name: "weir".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}
