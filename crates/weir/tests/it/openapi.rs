//! APIs that an OpenAPI document describes: requests and answers compared with it, its security,
//! its examples, the document itself, and configurations made of it.

mod budget;
mod import;
mod peers;
mod responses;

use crate::harness::{Response, Server, Weir, transactions};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The example.
fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/openapi")
}

const KEY: (&str, &str) = ("x-api-key", "example");

/// The example on a free port, with these settings.
fn shop(settings: &[&str]) -> Server {
    let config = std::fs::read_to_string(example().join("weir.yaml")).expect("the example");
    let document = std::fs::read(example().join("orders.openapi.yaml")).expect("its document");
    let mut args = vec!["--set", "listen.0.addr=127.0.0.1:0", "--set", "workers=1"];
    for setting in settings {
        args.extend(["--set", setting]);
    }
    Weir::new(&config).file("orders.openapi.yaml", document).args(&args).start()
}

/// `in`, name and pointer of what a problem says is wrong.
fn errors(response: &Response) -> Vec<(String, String, String)> {
    assert_eq!(response.status, 400, "{}", response.text());
    let problem = response.json();
    assert_eq!(problem["type"], "urn:weir:problem:invalid-request", "{problem}");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let errors = problem["errors"].as_array().expect("errors").iter();
    errors.map(|e| (text(&e["in"]), text(&e["name"]), text(&e["pointer"]))).collect()
}

fn error(place: &str, name: &str, pointer: &str) -> (String, String, String) {
    (place.to_owned(), name.to_owned(), pointer.to_owned())
}

const ORDER: &str = r#"{"sku": "A-100", "quantity": 2}"#;

#[test]
fn requests_that_match_pass_and_others_are_told_what_is_wrong_and_where() {
    let server = shop(&[]);
    let mut client = server.connect();
    let json = [KEY, ("content-type", "application/json")];
    let mut post = |body: &str| client.request("POST", "/shop/v1/orders", &json, body);
    // `id` is required but read-only: requests need not have it.
    let placed = post(ORDER);
    assert_eq!((placed.status, &placed.json()["state"]), (201, &json!("open")));
    let wrong = post(r#"{"sku": "", "quantity": 1001, "note": 5, "placed": "soon", "x": 1}"#);
    let mut found = errors(&wrong);
    found.sort();
    let pointers = ["#", "#/note", "#/placed", "#/quantity", "#/sku"];
    assert_eq!(found, pointers.map(|pointer| error("body", "", pointer)));
    assert!(!wrong.text().contains("soon"), "{}", wrong.text());
    assert_eq!(errors(&post("")), [error("body", "", "#")]);
    assert_eq!(errors(&post("[]")), [error("body", "", "#")]);
    for malformed in ["{", r#"{"sku": "a", "sku": "b", "quantity": 1}"#] {
        let refused = post(malformed);
        assert_eq!(
            (refused.status, &refused.json()["type"]),
            (400, &json!("urn:weir:problem:malformed-json"))
        );
    }
    let deep = post(&format!("{}{}", "[".repeat(70), "]".repeat(70)));
    assert_eq!(deep.json()["type"], "urn:weir:problem:malformed-json");
    let text = [KEY, ("content-type", "text/plain")];
    let refused = client.request("POST", "/shop/v1/orders", &text, ORDER);
    assert_eq!(refused.status, 415);
    assert_eq!(refused.json()["detail"], "the body must be application/json");
    let compressed = [KEY, ("content-type", "application/json"), ("content-encoding", "gzip")];
    assert_eq!(client.request("POST", "/shop/v1/orders", &compressed, ORDER).status, 415);
    assert_eq!(server.metric("weir_invalid_requests_total", &[]), 8.0);
}

#[test]
fn parameters_of_every_place_are_checked() {
    let server = shop(&[]);
    let mut client = server.connect();
    let mut get = |target: &str, more: &[(&str, &str)]| {
        client.request("GET", target, &[&[KEY], more].concat(), "")
    };
    assert_eq!(get("/shop/v1/orders?limit=5&state=open&state=sent", &[]).status, 200);
    assert_eq!(errors(&get("/shop/v1/orders?limit=0", &[])), [error("query", "limit", "#")]);
    assert_eq!(errors(&get("/shop/v1/orders?limit=x", &[])), [error("query", "limit", "#")]);
    assert_eq!(
        errors(&get("/shop/v1/orders?limit=1&limit=2", &[])),
        [error("query", "limit", "#")]
    );
    let state = "/shop/v1/orders?state=open&state=lost";
    assert_eq!(errors(&get(state, &[])), [error("query", "state", "#/1")]);
    let tagged = get("/shop/v1/orders", &[("X-Request-Tag", "not this")]);
    assert_eq!(errors(&tagged), [error("header", "x-request-tag", "#")]);
    assert_eq!(errors(&get("/shop/v1/orders/7", &[])), [error("path", "id", "#")]);
    let order = "/shop/v1/orders/8d7c0d5e-55b8-4b1b-8b1c-0f3e0d6f7a11";
    assert_eq!(get(order, &[]).status, 200);
    let xml = get("/shop/v1/orders/7", &[("accept", "application/problem+xml")]);
    let listed = "<errors><i><in>path</in><name>id</name><detail>";
    assert!(xml.text().contains(listed), "{}", xml.text());
}

#[test]
fn bodies_in_pieces_and_awaited_ones_are_checked_whole_and_go_on_whole() {
    let echo = crate::harness::echo(&[]);
    let server = shop(&[
        &format!("upstreams.up={{targets: [\"http://{}\"]}}", echo.listen[0]),
        "apis.shop.validate.responses=off",
        "apis.shop.routes.1={op: placeOrder, proxy: up}",
    ]);
    let mut client = server.connect();
    let head = "POST /shop/v1/orders HTTP/1.1\r\nHost: a\r\nx-api-key: example\r\n\
        Content-Type: application/json\r\n";
    let (first, rest) = ORDER.split_at(5);
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n5\r\n{first}\r\n");
    client.send(chunked);
    std::thread::sleep(std::time::Duration::from_millis(20));
    client.send(format!("{:x}\r\n{rest}\r\n0\r\n\r\n", rest.len()));
    let response = client.response();
    assert_eq!((response.status, response.text().as_str()), (200, ORDER));
    // A body that is too long is refused before it is looked at.
    let long = format!("{head}Content-Length: 999999999\r\n\r\n");
    client.send(long);
    assert_eq!(client.response().status, 413);
}

#[test]
fn what_is_only_noted_passes_and_can_be_found() {
    let mut server = shop(&["apis.shop.validate.requests=log", "tracker.enabled=true"]);
    let mut client = server.connect();
    let json = [KEY, ("content-type", "application/json")];
    let passed = client.request("POST", "/shop/v1/orders?limit=0", &json, r#"{"quantity": 1}"#);
    assert_eq!(passed.status, 201);
    let passed = client.request("POST", "/shop/v1/orders", &json, "{");
    assert_eq!(passed.status, 201);
    assert_eq!(server.metric("weir_invalid_requests_total", &[]), 2.0);
    server.kill();
    let logs = transactions(&server.dir().join("data")).into_iter().flat_map(|t| t.logs);
    let logs: Vec<String> = logs.collect();
    assert_eq!(logs.len(), 2, "{logs:?}");
    assert_eq!(logs[0], "invalid request: body: \"sku\" is a required property");
    assert!(logs[1].starts_with("invalid request: not JSON at line 1"), "{logs:?}");
}

#[test]
fn the_security_of_the_document_holds() {
    let server = shop(&[]);
    let mut client = server.connect();
    assert_eq!(client.get("/shop/v1/orders").status, 401);
    let wrong = [("x-api-key", "other")];
    assert_eq!(client.request("GET", "/shop/v1/orders", &wrong, "").status, 401);
    assert_eq!(client.request("GET", "/shop/v1/orders", &[KEY], "").status, 200);
    // Who calls comes first: nobody learns what would be wrong without a credential.
    assert_eq!(client.get("/shop/v1/orders?limit=0").status, 401);
    assert_eq!(client.get("/shop/v1/openapi.json").status, 401);
}

#[test]
fn an_api_serves_its_own_description_and_nothing_that_it_does_not_offer() {
    let server = shop(&[]);
    let response = server.connect().request("GET", "/shop/v1/openapi.json", &[KEY], "");
    assert_eq!(response.header("content-type"), Some("application/json"));
    let document = response.json();
    assert_eq!(document["servers"], json!([{"url": "/shop/v1"}]));
    assert_eq!(document["openapi"], "3.1.0");
    let paths: Vec<&String> = document["paths"].as_object().expect("paths").keys().collect();
    assert_eq!(paths, ["/orders", "/orders/{id}"]);
    let elsewhere = shop(&["apis.shop.openapi.serve=/about"]);
    let mut client = elsewhere.connect();
    assert_eq!(client.request("GET", "/shop/v1/about", &[KEY], "").json(), document);
    assert_eq!(client.request("GET", "/shop/v1/openapi.json", &[KEY], "").status, 404);
}

#[test]
fn mocks_respond_with_examples_or_what_schemas_allow() {
    let server = shop(&[]);
    let mut client = server.connect();
    let listed = client.request("GET", "/shop/v1/orders", &[KEY], "").json();
    let order = &listed["orders"][0];
    assert_eq!(order["quantity"], 1, "{listed}");
    assert_eq!(order["state"], "open");
    let path = "/shop/v1/orders/8d7c0d5e-55b8-4b1b-8b1c-0f3e0d6f7a11";
    let gone = client.request("DELETE", path, &[KEY], "");
    assert_eq!((gone.status, gone.body.len()), (204, 0));
}

#[test]
fn a_reload_takes_another_document_or_nothing() {
    let server = shop(&[]);
    let document = server.dir().join("orders.openapi.yaml");
    let text = std::fs::read_to_string(&document).expect("the document");
    let mut client = server.connect();
    let mut status = || client.request("GET", "/shop/v1/orders?limit=50", &[KEY], "").status;
    assert_eq!(status(), 200);
    std::fs::write(&document, text.replace("maximum: 100", "maximum: 10")).expect("written");
    crate::harness::eventually("the new document holds", || status() == 400);
    std::fs::write(&document, text.replace("type: string, format: uuid", "type: strin"))
        .expect("written");
    crate::harness::eventually("the broken one is refused", || {
        server.metric("weir_config_reloads_total", &["result=\"refused\""]) >= 1.0
    });
    assert_eq!(status(), 400);
}
