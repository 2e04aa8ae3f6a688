//! What is promised of records, whatever happens: kills, disks that are full or fail, damage,
//! clocks that jump, bodies of every size.

mod failpoints;
mod kill;
mod load;

use crate::harness::{Server, Weir};

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
fn show(weir: &Server, id: &str) -> Option<serde_json::Value> {
    let token = std::fs::read_to_string(weir.data().join("admin.token")).expect("a token");
    let mut client = weir.connect_admin();
    client.send(format!(
        "GET /v1/transactions/{id} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
        token.trim()
    ));
    let response = client.response();
    match response.status {
        200 => Some(response.json()),
        404 => None,
        status => panic!("{status}: {}", response.text()),
    }
}
