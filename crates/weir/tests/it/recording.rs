//! What is in the journal after traffic, and after a kill.

use crate::harness::{self, Server, Weir, transactions};
use weir_journal::{Outcome, Transaction};

fn config(echo: &Server, more: &str) -> String {
    format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 2\ntracker: {{enabled: true{more}}}\n\
         upstreams: {{echo: {{targets: [\"http://{}\"]}}}}\n\
         auth: {{keys: {{api_key: {{header: x-key}}}}, asked: {{api_key: {{query: key}}}}}}\n\
         consumers: {{acme: {{api_keys: [\"{}\"]}}}}\n\
         apis:\n  all:\n    base: /\n    routes:\n      \
         - {{get: /hosted, reply: {{json: {{result: OK}}}}}}\n      \
         - {{path: /proxied, op: forward, proxy: echo}}\n      \
         - {{path: /quiet, capture: none, proxy: echo}}\n      \
         - {{path: /silent, capture: none, auth: keys, proxy: echo}}\n      \
         - {{path: /meta, capture: meta, proxy: echo}}\n      \
         - {{path: /heads, capture: headers, proxy: echo}}\n      \
         - {{path: /mine, auth: [keys, asked], proxy: echo}}\n",
        echo.listen[0],
        hash("s3cret-key"),
    )
}

/// A key as `consumers` names it.
fn hash(key: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.as_bytes());
    let digits: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{digits}")
}

pub(crate) fn head(transaction: &Transaction) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_ascii_lowercase();
    (text(&transaction.request_head), text(&transaction.response_head))
}

#[test]
fn every_transaction_is_recorded_as_its_route_says() {
    let echo = harness::echo(&[]);
    let mut weir = Weir::new(&config(&echo, "")).start();
    let mut client = weir.connect();
    let body = "{\"a\": 1}";
    let ids: Vec<String> = [
        client.get("/hosted"),
        client.post("/proxied?x=1", body),
        client.post("/quiet", body),
        client.post("/meta", body),
        client.post("/heads", body),
        client.get("/nowhere"),
        client.get("/mine"),
        client.get("/silent"),
    ]
    .iter()
    .map(|response| response.header("weir-transaction-id").expect("an id").replace('-', ""))
    .collect();
    weir.kill();
    let recorded = transactions(&weir.dir().join("data"));
    let id = |t: &Transaction| t.id.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let found: Vec<String> = recorded.iter().map(id).collect();
    let expected = [&ids[..2], &ids[3..7]].concat();
    assert_eq!(
        found, expected,
        "nothing of `/quiet`, nothing of `/silent` although it was rejected"
    );

    let [hosted, proxied, meta, heads, nowhere, mine] = recorded.as_slice() else {
        panic!("{recorded:?}");
    };
    assert_eq!((hosted.api.as_str(), hosted.operation.as_str()), ("all", "GET /hosted"));
    assert_eq!((hosted.method.as_str(), hosted.status), ("GET", 200));
    assert_eq!(hosted.response_body, b"{\"result\":\"OK\"}");
    assert_eq!(hosted.client, "127.0.0.1");
    assert!(hosted.stages.iter().any(|(code, _)| *code == 1), "{:?}", hosted.stages);

    assert_eq!((proxied.target.as_str(), proxied.upstream.as_str()), ("/proxied?x=1", "echo"));
    assert_eq!(proxied.operation, "forward");
    assert_eq!(proxied.request_body, body.as_bytes());
    assert_eq!(proxied.response_body, body.as_bytes());
    assert_eq!((proxied.request.length, proxied.response.length), (8, 8));
    assert!(head(proxied).0.contains("host: "), "{:?}", head(proxied));
    assert!(head(proxied).1.contains("content-type: "), "{:?}", head(proxied));

    for transaction in [meta, heads] {
        assert!(transaction.request_body.is_empty() && transaction.response_body.is_empty());
        assert_eq!((transaction.request.length, transaction.response.length), (8, 8));
        assert_eq!(transaction.request.stored, 0);
    }
    assert!(meta.request_head.is_empty() && meta.response_head.is_empty());
    assert!(!heads.request_head.is_empty() && !heads.response_head.is_empty());
    for (transaction, status, problem) in
        [(nowhere, 404, "no-route"), (mine, 401, "missing-credential")]
    {
        assert_eq!((transaction.status, transaction.problem.as_str()), (status, problem));
        assert!(transaction.request_head.is_empty() && transaction.response_body.is_empty());
    }
    assert!(recorded.iter().all(|t| t.outcome == Outcome::Completed));
}

#[test]
fn long_bodies_are_cut_off_and_their_true_length_is_kept() {
    let echo = harness::echo(&[]);
    let mut weir = Weir::new(&config(&echo, ", body_limit: 10KiB")).start();
    let mut client = weir.connect();
    let body = "0123456789abcdef".repeat(10_000);
    assert_eq!(client.post("/proxied", &body).text(), body);
    weir.kill();
    let recorded = transactions(&weir.dir().join("data"));
    let [transaction] = recorded.as_slice() else { panic!("{} records", recorded.len()) };
    for (bytes, facts) in [
        (&transaction.request_body, transaction.request),
        (&transaction.response_body, transaction.response),
    ] {
        assert_eq!(bytes.as_slice(), &body.as_bytes()[..10 * 1024]);
        assert_eq!((facts.length, facts.stored), (160_000, 10 * 1024));
        assert!(facts.truncated && !facts.aborted);
    }
}

#[test]
fn what_is_recorded_is_indexed() {
    let echo = harness::echo(&[]);
    let weir = Weir::new(&config(&echo, "")).start();
    let mut client = weir.connect();
    for _ in 0..100 {
        client.get("/hosted");
        client.post("/proxied", "{\"a\": \"needle\"}");
    }
    harness::eventually("everything is indexed", || {
        weir.metric("weir_index_transactions", &[]) == 200.0
            && weir.metric("weir_index_lag_seconds", &[]) == 0.0
    });
    // One record for each hosted reply; three and a part of the request for each proxied one.
    assert!(weir.metric("weir_journal_records_total", &[]) >= 300.0);
    assert_eq!(weir.metric("weir_unrecorded_total", &[]), 0.0);
}

#[test]
fn a_second_weir_on_the_same_data_is_told_who_has_it() {
    let echo = harness::echo(&[]);
    let config = config(&echo, "");
    let first = Weir::new(&config).start();
    let data = first.dir().join("data");
    let second = Weir::new(&config).args(&["--data", data.to_str().expect("UTF-8")]).refused();
    assert_eq!(second.status.code(), Some(1));
    let told = String::from_utf8_lossy(&second.stderr);
    assert!(told.contains(&first.pid().to_string()), "{told}");
}
