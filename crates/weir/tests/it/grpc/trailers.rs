//! Trailers, which recipients may merge with the head: in both directions they have nothing that
//! belongs there, or that was edited there.

use super::frames::{Call, Connection, call, head, odd};
use crate::harness::{Server, Weir};
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use std::net::SocketAddr;

/// Trailers that pass, and trailers that do not.
const GOOD: [&str; 3] = ["x-checksum", "content-digest", "server-timing"];
const BAD: [&str; 16] = [
    "authorization",
    "cache-control",
    "content-length",
    "content-type",
    "cookie",
    "forwarded",
    "host",
    "if-match",
    "proxy-authorization",
    "set-cookie",
    "trailer",
    "via",
    "weir-consumer",
    "weir-transaction-id",
    "x-forwarded-for",
    "x-removed",
];

/// Answers with the names of the request's trailers, and with all of these as its own.
fn upstream() -> SocketAddr {
    let serve = |_, mut connection: Connection| async move {
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            tokio::task::spawn_local(async move {
                let mut incoming = request.into_body();
                while let Some(Ok(_)) = incoming.data().await {}
                let trailers = incoming.trailers().await.ok().flatten().unwrap_or_default();
                let names: Vec<&str> = trailers.keys().map(HeaderName::as_str).collect();
                let mut body = respond.send_response(head(200), false).expect("it is sent");
                body.send_data(Bytes::from(names.join(" ")), false).expect("it is sent");
                let mut trailers = http::HeaderMap::new();
                for name in GOOD.into_iter().chain(BAD).chain(["x-replaced", "x_own"]) {
                    trailers.insert(HeaderName::from_static(name), HeaderValue::from_static("1"));
                }
                body.send_trailers(trailers).expect("they are sent");
            });
        }
    };
    odd(serve).0
}

fn before(upstream: SocketAddr, more: &str) -> Server {
    let edits = "headers: {remove: [x-removed], set: {x-replaced: of-weir}}";
    Weir::new(&format!(
        "listen: [127.0.0.1:0]\nworkers: 1
upstreams: {{up: {{targets: [\"http://{upstream}\"], protocol: http2, auth: {{header: {{name: x-key, value: of-weir}}}}{more}}}}}
apis:
  api:
    base: /
    request: {{{edits}}}
    response: {{{edits}}}
    routes: [{{path: \"/*\", proxy: {{upstream: up, headers: {{remove: [x-inner]}}}}}}]\n"
    ))
    .start()
}

fn asking() -> Call {
    let names = GOOD.into_iter().chain(BAD).chain(["x-replaced", "x-inner", "x-key", "x_own"]);
    names.fold(Call::new("/x").message("hi"), |call, name| call.trailer(name, "1"))
}

#[test]
fn they_have_nothing_that_belongs_into_a_head_or_was_edited_there() {
    let weir = before(upstream(), "");
    let response = call(&weir, asking());
    assert_eq!(response.status, 200);
    let mut passed = String::from_utf8(response.body.clone()).unwrap();
    assert_eq!(passed, GOOD.join(" "), "of the request");
    for name in GOOD {
        assert_eq!(response.trailer(name), "1", "{name}");
    }
    for name in BAD.into_iter().chain(["x-replaced"]) {
        assert_eq!(response.trailer(name), "", "{name}");
    }
    let weir = before(upstream(), ", underscores_in_headers: x_own");
    passed = String::from_utf8(call(&weir, asking()).body).unwrap();
    assert_eq!(passed, format!("{} x_own", GOOD.join(" ")), "one is listed");
}
