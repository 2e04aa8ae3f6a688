//! What an upstream is told by a resubmission, and what its answer makes of it.

use super::{Backend, KEY, ROUTE, TRACKER, as_it_was, call, place, post, resubmit, show, succeeds};
use crate::harness::{Certificate, Client, Weir};
use serde_json::json;

#[test]
fn it_goes_as_https_if_weir_itself_ended_that() {
    let backend = Backend::start();
    let certificate = Certificate::of("orders.example.com");
    let both = "listen:\n  - {addr: \"127.0.0.1:0\"}\n  \
                - {addr: \"127.0.0.1:0\", tls: {cert: \"file:c.pem\", key: \"file:k.pem\"}}\n";
    let config = backend.config("", ROUTE, TRACKER);
    let config = config.replacen("listen: [{addr: \"127.0.0.1:0\"}]\n", both, 1);
    let weir =
        Weir::new(&config).file("c.pem", &certificate.cert).file("k.pem", &certificate.key).start();
    let mut client =
        Client::connect_tls(weir.listen[1], b"", "orders.example.com", &[&certificate.cert])
            .unwrap();
    let secure = client.request("POST", "/orders/1", &[("x-api-key", KEY)], "{}");
    let secure = crate::admin_api::id(&secure);
    let live = backend.last();
    assert_eq!(live.header("x-forwarded-proto"), Some("https"));
    let plain = place(&weir, "{}");
    backend.response(200);
    succeeds(&weir, &secure, &as_it_was());
    let again = backend.last();
    for name in ["x-forwarded-proto", "x-forwarded-host", "forwarded"] {
        assert_eq!(again.header(name), live.header(name), "{name}");
    }
    succeeds(&weir, &plain, &as_it_was());
    assert_eq!(backend.last().header("x-forwarded-proto"), Some("http"));
}

#[test]
fn what_a_trusted_proxy_passed_on_is_not_believed_when_it_is_sent_again() {
    let backend = Backend::start();
    let config = backend.config("", ROUTE, TRACKER);
    let with = |headers: &str| {
        let listen = format!("listen: [{{addr: \"127.0.0.1:0\", trust: [127.0.0.1]{headers}}}]");
        config.replacen("listen: [{addr: \"127.0.0.1:0\"}]", &listen, 1)
    };
    let told = [("forwarded", "for=1.2.3.4;host=bank.example")];
    let listed = ", trust_headers: [forwarded, x-forwarded-host]";
    for (headers, host) in [("", "localhost"), (listed, "bank.example")] {
        backend.response(503);
        let weir = Weir::new(&with(headers)).start();
        let sent = call(&weir, "POST", "/orders/17", &told, "{}");
        let live = backend.last();
        assert_eq!(live.header("x-forwarded-host"), Some(host), "{headers}");
        backend.response(200);
        succeeds(&weir, &sent, &as_it_was());
        let again = backend.last();
        assert_eq!(again.header("x-forwarded-host"), Some(host), "{headers}");
        let forwarded = again.header("forwarded").expect("a header").to_owned();
        assert!(forwarded.contains(host), "{headers}: {forwarded}");
        assert_eq!(forwarded.contains("bank"), host.contains("bank"), "{forwarded}");

        // Whoever tries a request is no proxy, although it comes from a trusted address.
        let fields =
            [told[0], ("x-forwarded-for", "1.2.3.4"), ("host", "localhost"), ("x-api-key", KEY)];
        let fields = fields.map(|(name, value)| json!({"name": name, "value": value}));
        let tried = post(&weir, "/v1/try", &json!({"target": "/orders/1", "headers": fields}));
        assert_eq!((tried.status, &tried.json()["status"]), (200, &json!(200)), "{}", tried.text());
        let tried = backend.last();
        assert_eq!(tried.header("x-forwarded-host"), Some("localhost"), "{headers}");
        assert_eq!(tried.header("x-forwarded-for"), Some("127.0.0.1"), "{headers}");
    }
}

#[test]
fn an_upstream_that_sends_it_elsewhere_has_not_done_it() {
    let backend = Backend::start();
    let weir = Weir::new(&backend.config("", ROUTE, TRACKER)).start();
    let sent = place(&weir, "{}");
    for status in [300, 301, 302, 307, 308] {
        backend.response(status);
        let attempt = resubmit(&weir, &sent, &as_it_was()).json();
        assert_eq!(
            (&attempt["state"], &attempt["status"]),
            (&json!("failed"), &json!(status)),
            "{attempt}"
        );
        assert_eq!(show(&weir, &sent)["resolution"], "open", "{status}");
    }
    for status in [303, 304, 299] {
        backend.response(status);
        succeeds(&weir, &sent, &json!({"again": true}));
        assert_eq!(show(&weir, &sent)["resolution"], "resubmitted", "{status}");
    }
}

#[test]
fn another_request_never_has_the_key_of_the_first() {
    let backend = Backend::start();
    let routes = "      - {op: place, post: \"/{id}\", proxy: back, resubmit: {targets: [repair]}}\n      \
        - {op: repair, put: \"/{id}\", proxy: back}\n";
    let api = "    resubmit: {idempotency_key: true}\n";
    let weir = Weir::new(&backend.config(api, routes, TRACKER)).start();
    let own = [("idempotency-key", "\"of the client\"")];
    let keyed = call(&weir, "POST", "/orders/17", &own, "{}");
    let plain = place(&weir, "{}");
    let key = |id: &str, wish: &serde_json::Value| {
        backend.response(500);
        assert_eq!(resubmit(&weir, id, wish).json()["state"], "failed");
        backend.last().header("idempotency-key").map(str::to_owned).expect("a key")
    };
    let elsewhere = json!({"to": "repair"});
    assert_eq!(key(&keyed, &as_it_was()), "\"of the client\"");
    assert_eq!(key(&plain, &as_it_was()), format!("\"{plain}\""));
    // Each attempt at the same request has the same, and no other request has it.
    let to = |id: &str| format!("\"{id}/repair\"");
    for _ in 0..2 {
        assert_eq!(key(&keyed, &elsewhere), to(&keyed));
        assert_eq!(key(&plain, &elsewhere), to(&plain));
    }
    let edited = key(&keyed, &json!({"body": "[]"}));
    assert!(!edited.contains("client") && !edited.contains(&keyed), "{edited}");
    let set = json!({"headers": {"set": [{"name": "Idempotency-Key", "value": "mine"}]},
                     "to": "repair"});
    assert_eq!(key(&keyed, &set), "mine", "whoever edits knows best");
}
