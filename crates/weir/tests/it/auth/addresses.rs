//! Requests from addresses that are not let in.

use crate::harness::{Server, Weir};

/// Requests come from a trusted hop, which says whose they are.
fn start(clients: &str) -> Server {
    let config = format!(
        "listen: [{{addr: \"127.0.0.1:0\", trust: [127.0.0.1]}}]\n\
         auth: {{keys: {{api_key: {{header: x-key}}}}}}\n\
         apis:\n  a:\n    base: /\n    clients: {clients}\n    routes:\n\
         \x20     - {{get: /open, reply: {{text: in}}}}\n\
         \x20     - {{get: /narrow, clients: {{deny: 10.9.0.0/16}}, reply: {{text: in}}}}\n\
         \x20     - {{get: /key, auth: keys, reply: {{text: in}}}}\n"
    );
    Weir::new(&config).start()
}

#[test]
fn only_those_are_let_in_that_api_and_route_let_in() {
    let server = start("{allow: [10.0.0.0/8, \"2001:db8::/32\"], deny: 10.6.6.6}");
    let mut client = server.connect();
    for (address, path, status) in [
        ("10.1.2.3", "/open", 200),
        ("10.9.2.3", "/open", 200),
        ("10.6.6.6", "/open", 403),
        ("10.6.6.7", "/open", 200),
        ("11.0.0.1", "/open", 403),
        ("2001:db8::1", "/open", 200),
        ("2001:db9::1", "/open", 403),
        ("::ffff:10.1.2.3", "/open", 200),
        ("::ffff:10.6.6.6", "/open", 403),
        ("10.9.2.3", "/narrow", 403),
        ("10.8.2.3", "/narrow", 200),
        ("11.0.0.1", "/narrow", 403),
        // Nobody is asked for a key who would not be let in with one.
        ("11.0.0.1", "/key", 403),
        ("10.1.2.3", "/key", 401),
    ] {
        let response = client.request("GET", path, &[("x-forwarded-for", address)], "");
        assert_eq!(response.status, status, "{address} to {path}: {}", response.text());
        if status == 403 {
            assert_eq!(response.json()["type"], "urn:weir:problem:address-refused");
        }
    }
    // The hop itself is nobody that is let in, and is not believed about nonsense.
    assert_eq!(client.get("/open").status, 403);
    let nonsense = [("x-forwarded-for", "10.1.2.3, unknown")];
    assert_eq!(client.request("GET", "/open", &nonsense, "").status, 403);
}

#[test]
fn who_is_not_trusted_cannot_say_who_he_is() {
    let server = start("{allow: 10.0.0.0/8}");
    let config = std::fs::read_to_string(server.dir().join("weir.yaml")).unwrap();
    let server = Weir::new(&config.replace(", trust: [127.0.0.1]", "")).start();
    let told = [("x-forwarded-for", "10.1.2.3"), ("forwarded", "for=10.1.2.3")];
    assert_eq!(server.connect().request("GET", "/open", &told, "").status, 403);
    let server = start("{deny: 127.0.0.0/8}");
    assert_eq!(server.connect().get("/open").status, 403);
    let server = start("{deny: 10.0.0.0/8}");
    assert_eq!(server.connect().get("/open").text(), "in");
}
