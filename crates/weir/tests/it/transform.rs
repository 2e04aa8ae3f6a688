//! What happens to requests and answers on their way.

mod caching;
mod calls;
mod compression;
mod cors;
mod forwarding;
mod instead;
mod maps;
mod mirror;
mod negotiation;
mod upstreams;
mod xml;

use crate::harness::Response;
use serde_json::Value;

/// Asserts a problem document of this type.
fn assert_problem(response: &Response, status: u16, slug: &str, what: &str) {
    assert_eq!(response.status, status, "{what}: {}", response.text());
    assert_eq!(response.json()["type"], format!("urn:weir:problem:{slug}"), "{what}");
}

/// Values of a header as `/headers` of the echo backend tells them.
pub(crate) fn seen(told: &Value, name: &str) -> Vec<String> {
    let fields = told["headers"].as_array().expect("a list of headers");
    let is_it = |field: &&Value| field[0].as_str().expect("a name").eq_ignore_ascii_case(name);
    let value = |field: &Value| field[1].as_str().expect("a value").to_owned();
    fields.iter().filter(is_it).map(value).collect()
}
