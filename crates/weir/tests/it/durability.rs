//! What is promised of records, whatever happens: kills, disks that are full or fail, damage,
//! clocks that jump, bodies of every size.

mod bodies;
mod burst;
pub(crate) mod clock;
mod counts;
mod damage;
mod disk;
mod failpoints;
mod kill;
mod load;
mod missing;
mod repair;
mod secrets;
mod waiting;

use crate::harness::{Response, Server};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

/// A configuration of one or two workers and an upstream `echo`, another that nobody serves; with
/// more lines at its top level and more in `tracker`.
fn config(echo: &Server, workers: u32, tracker: &str, more: &str) -> String {
    format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: {workers}\n\
         tracker: {{enabled: true{tracker}}}\n{more}\
         upstreams:\n  echo: {{targets: [\"http://{}\"]}}\n  \
         dead: {{targets: [\"http://127.0.0.1:1\"], connect_timeout: 1s}}\n\
         apis:\n  all:\n    base: /\n    routes:\n      \
         - {{get: /hosted, reply: {{json: {{result: OK}}}}}}\n      \
         - {{path: /dead, proxy: dead}}\n      \
         - {{path: /quiet, capture: none, proxy: echo}}\n      \
         - {{path: \"/*\", proxy: echo}}\n",
        echo.listen[0],
    )
}

/// Waits until everything in the journal can be found.
fn wait_for_index(weir: &Server) {
    crate::harness::eventually("everything is indexed", || {
        weir.metric("weir_index_lag_seconds", &[]) == 0.0
    });
}

/// The transaction of this id as the admin API shows it.
fn show(weir: &Server, id: &str) -> Option<Value> {
    let response = ask(weir, &format!("/v1/transactions/{id}"));
    match response.status {
        200 => Some(response.json()),
        404 => None,
        status => panic!("{status}: {}", response.text()),
    }
}

/// How many of up to 1000 transactions a query finds.
fn search(weir: &Server, query: &str) -> usize {
    let query = utf8_percent_encode(query, NON_ALPHANUMERIC);
    let response = ask(weir, &format!("/v1/transactions?limit=1000&q={query}"));
    assert_eq!(response.status, 200, "{}", response.text());
    response.json()["transactions"].as_array().expect("a list").len()
}

/// Asks the admin API with the first token.
fn ask(weir: &Server, path: &str) -> Response {
    let token = std::fs::read_to_string(weir.data().join("admin.token")).expect("a token");
    let mut client = weir.connect_admin();
    let token = token.trim();
    client.send(format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n",
    ));
    client.response()
}
