//! Attributes, resource and scope of exported telemetry.

use super::messages::{AnyValue, InstrumentationScope, KeyValue, Resource, Value};
use std::time::Duration;

/// Version of the conventions.
pub(crate) const SCHEMA: &str = "https://opentelemetry.io/schemas/1.37.0";

/// A text attribute.
pub(crate) fn text(key: &str, value: impl Into<String>) -> KeyValue {
    attribute(key, Value::StringValue(value.into()))
}

/// A number attribute.
pub(crate) fn number(key: &str, value: impl Into<i64>) -> KeyValue {
    attribute(key, Value::IntValue(value.into()))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value }
}

/// The resource: configured attributes, and those of this process.
pub(crate) fn resource(configured: &[(String, String)], instance: &str) -> Resource {
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
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The instrumentation scope.
pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope { name: "weir".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() }
}
