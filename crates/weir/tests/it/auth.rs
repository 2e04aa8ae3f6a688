//! Who gets in, and what those who do not are told.

mod addresses;
mod api_keys;
mod certificates;
mod introspection;
mod key_sets;
mod paths;
mod revocation;
mod secrets;
mod throttling;
mod tokens;

use crate::harness::{Response, Server};

/// A GET with this `Authorization`.
fn get_with(server: &Server, path: &str, authorization: &str) -> Response {
    server.connect().request("GET", path, &[("authorization", authorization)], "")
}

/// Asserts a problem document of this type, with the status as its member says.
fn assert_problem(response: &Response, status: u16, slug: &str, what: &str) {
    assert_eq!(response.status, status, "{what}: {}", response.text());
    assert_eq!(response.header("content-type"), Some("application/problem+json"), "{what}");
    let document = response.json();
    assert_eq!(document["type"], format!("urn:weir:problem:{slug}"), "{what}");
    assert_eq!(document["status"], status, "{what}");
    assert_eq!(document["transaction"], response.header("weir-transaction-id").unwrap(), "{what}");
}

/// The `WWW-Authenticate` header.
fn challenge(response: &Response) -> &str {
    response.header("www-authenticate").unwrap_or_default()
}
