//! What was recorded, as people ask for it: fields, keys, counts, exports, decoded bodies; and who
//! may ask.

mod figures;
mod kept;

use crate::admin_api::{ask, command, data, first_token, get, id, tokens};
use crate::harness::{self, Server, Weir, eventually};
use serde_json::{Value, json};
use std::io::Write;

/// Roles, the least first, as [`tokens`] gives them.
const VIEWER: usize = 0;
const PAYLOAD_VIEWER: usize = 1;
const OPERATOR: usize = 2;

/// A weir before an echo backend; `more` are further keys of its Tracker.
fn start(more: &str) -> (Server, Server) {
    let echo = harness::echo(&[]);
    (Weir::new(&config(&echo, more)).start(), echo)
}

fn config(echo: &Server, more: &str) -> String {
    format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 2\ntracker: {{enabled: true{more}}}\n\
         upstreams: {{echo: {{targets: [\"http://{}\"]}}}}\n\
         apis: {{all: {{base: /, routes: [{{get: /fixed, op: fix, reply: {{text: fixed}}}}, \
         {{path: \"/*\", proxy: echo}}]}}}}\n",
        echo.listen[0],
    )
}

const KEYS: &str = ", keys: {order: \"$.orderId\"}";

fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// Ids of what a query finds.
fn found(server: &Server, token: &str, query: &str) -> Vec<String> {
    let response = get(server, &format!("/v1/transactions?q={}", encode(query)), token);
    assert_eq!(response.status, 200, "{query}: {}", response.text());
    let page = response.json();
    let all = page["transactions"].as_array().unwrap();
    all.iter().map(|hit| hit["id"].as_str().unwrap().to_owned()).collect()
}

fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

/// Posts bytes with a content coding.
fn post_packed(server: &Server, path: &str, body: &[u8]) -> String {
    let mut client = server.connect();
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
         Content-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    request.extend_from_slice(body);
    client.send(request);
    id(&client.response())
}

#[test]
fn every_documented_field_finds_what_it_says() {
    let (server, echo) = start(KEYS);
    let token = first_token(&server);
    let mut client = server.connect();
    let posted =
        id(&client.post("/orders?note=hurry", "{\"orderId\":\"A-17\",\"x\":\"acme corp\"}"));
    let fixed = id(&client.get("/fixed"));
    let failed = id(&client.get("/status/503"));
    for (query, expected) in [
        ("status:503", vec![&failed]),
        ("status:>=500", vec![&failed]),
        ("status:2xx", vec![&fixed, &posted]),
        ("status:*", vec![&failed, &fixed, &posted]),
        ("api:all method:POST", vec![&posted]),
        ("operation:fix", vec![&fixed]),
        ("type:http since:1h", vec![&failed, &fixed, &posted]),
        ("consumer:*", vec![]),
        ("principal:*", vec![]),
        ("client:127.0.0.1 sender:127.* -status:503", vec![&fixed, &posted]),
        ("upstream:echo receiver:echo", vec![&failed, &posted]),
        (&format!("upstream_target:\"{}\"", echo.listen[0]), vec![&failed, &posted]),
        ("upstream_target:127.*", vec![&failed, &posted]),
        ("plan:*", vec![]),
        ("detail:*", vec![]),
        ("target:hurry", vec![&posted]),
        ("target:* status:503", vec![&failed]),
        ("state:failed", vec![&failed]),
        ("resolution:open", vec![&failed]),
        ("-resolution:*", vec![&fixed, &posted]),
        ("problem:*", vec![]),
        ("took:<10m took:*", vec![&failed, &fixed, &posted]),
        ("after:now-1h before:now-30m", vec![]),
        ("after:2026-01-01 before:2999-01-01", vec![&failed, &fixed, &posted]),
        ("time:[now-1h TO now]", vec![&failed, &fixed, &posted]),
        ("key.order:A-17", vec![&posted]),
        ("key.order:*", vec![&posted]),
        ("key.order:a-17", vec![]),
        ("header.content-type:* header:* operation:fix", vec![&fixed]),
        ("body:\"acme corp\"", vec![&posted]),
        ("body:* -body:fixed -status:503", vec![&posted]),
        ("acme", vec![&posted]),
        (&format!("id:{posted}"), vec![&posted]),
    ] {
        let expected: Vec<String> = expected.into_iter().cloned().collect();
        assert_eq!(found(&server, &token, query), expected, "{query}");
    }
    let shown = get(&server, &format!("/v1/transactions/{failed}"), &token).json();
    assert_eq!((&shown["type"], &shown["resolution"]), (&json!("http"), &json!("open")));
    assert_eq!((&shown["sender"], &shown["receiver"]), (&json!("127.0.0.1"), &json!("echo")));
    let states: Vec<_> = shown["history"].as_array().unwrap().iter().collect();
    assert_eq!((&states[0]["state"], &states[1]["state"]), (&json!("received"), &json!("failed")));
    assert_eq!(states[0]["time"], shown["time"]);
    assert!(states[1]["time"].as_str() >= states[0]["time"].as_str(), "{shown}");
    let shown = get(&server, &format!("/v1/transactions/{posted}"), &token).json();
    assert_eq!(shown["payload"]["keys"], json!([{"name": "order", "value": "A-17"}]));
}

#[test]
fn a_wrong_query_is_pointed_at() {
    let (mut server, _echo) = start("");
    let token = first_token(&server);
    let response = get(&server, &format!("/v1/transactions?q={}", encode("é stauts:500")), &token);
    assert_eq!((response.status, &response.json()["place"]), (400, &json!([3, 9])));
    assert!(response.text().contains("did you mean `status`?"), "{}", response.text());
    let pointed = |said: &str| said.contains("  é stauts:500\n    ^^^^^^\n");
    let (ok, _, said) = command(&server, &token, &["search", "é stauts:500"]);
    assert!(!ok && pointed(&said) && said.contains("did you mean"), "{said}");
    server.signal(harness::Signal::KILL);
    server.wait();
    let folder = data(&server).to_str().unwrap().to_owned();
    let output = harness::weir(server.dir(), &["search", "é stauts:500", "--data", &folder]);
    assert!(pointed(&String::from_utf8_lossy(&output.stderr)), "{output:?}");
}

#[test]
fn transactions_are_counted_by_field_and_over_time() {
    let (server, _echo) = start(KEYS);
    let tokens = tokens(&server);
    let mut client = server.connect();
    for order in ["A-1", "A-2", "A-1"] {
        client.post("/orders", &format!("{{\"orderId\": \"{order}\"}}"));
    }
    client.get("/fixed");
    client.get("/status/503");
    let counts = |query: &str, role: usize| {
        get(&server, &format!("/v1/transactions/summary?{query}"), &tokens[role])
    };
    let all = counts("keys=true", PAYLOAD_VIEWER).json();
    assert_eq!((&all["matched"], &all["incomplete"]), (&json!(5), &json!(false)), "{all}");
    let facet = |field: &str| {
        let facets = all["facets"].as_array().unwrap().iter();
        let facet = facets.clone().find(|facet| facet["field"] == field);
        facet.unwrap_or_else(|| panic!("{field}: {all}"))["values"].clone()
    };
    let counted = |pairs: &[(&str, u64)]| {
        pairs
            .iter()
            .map(|(value, count)| json!({"value": value, "count": count}))
            .collect::<Value>()
    };
    assert_eq!(facet("status"), counted(&[("2xx", 4), ("5xx", 1)]));
    assert_eq!(facet("state"), counted(&[("completed", 4), ("failed", 1)]));
    assert_eq!(facet("api"), counted(&[("all", 5)]));
    assert_eq!(facet("method"), counted(&[("POST", 3), ("GET", 2)]));
    assert_eq!(facet("receiver"), counted(&[("echo", 4)]));
    assert_eq!(facet("key.order"), counted(&[("A-1", 2), ("A-2", 1)]));
    let histogram = all["histogram"].as_array().unwrap();
    assert_eq!(histogram.iter().map(|bucket| bucket["count"].as_u64().unwrap()).sum::<u64>(), 5);
    assert_eq!(counts("q=status:5xx", VIEWER).json()["matched"], 1);
    assert!(!counts("", VIEWER).text().contains("key."));
    let (ok, out, said) = command(&server, &tokens[PAYLOAD_VIEWER], &["search", "--facets=keys"]);
    assert!(ok, "{said}");
    assert!(out.contains("key.order") && out.contains("A-2") && out.contains('#'), "{out}");
    let args = ["search", "status:5xx", "--facets", "--json"];
    let (_, out, _) = command(&server, &tokens[VIEWER], &args);
    let out = lines(&out);
    assert_eq!(out[0], json!({"id": "matched", "count": 1}));
    assert!(out.iter().all(|line| line["id"].is_string()), "{out:?}");
}

#[test]
fn an_export_has_everything_once_and_says_when_it_is_cut() {
    let (server, _echo) = start("");
    let tokens = tokens(&server);
    let mut client = server.connect();
    let ids: Vec<String> =
        (0..150).map(|n| id(&client.post("/a", &format!("quokka {n}")))).collect();
    let export = |query: &str, role: usize| {
        let response = get(&server, &format!("/v1/transactions/export?{query}"), &tokens[role]);
        assert_eq!(response.status, 200, "{}", response.text());
        assert_eq!(response.header("content-type"), Some("application/x-ndjson"));
        lines(&response.text())
    };
    let mut all = export("q=quokka", PAYLOAD_VIEWER);
    let end = all.pop().unwrap();
    let wanted = json!({"end": {"transactions": 150, "cut": false, "incomplete": false}});
    assert_eq!(end, wanted);
    let newest_first: Vec<&str> = ids.iter().rev().map(String::as_str).collect();
    let got: Vec<&str> = all.iter().map(|line| line["id"].as_str().unwrap()).collect();
    assert_eq!(got, newest_first);
    assert_eq!(all[0]["payload"]["request_body"]["text"], "quokka 149");
    // In two parts, by the cursor of the first.
    let mut first = export("limit=100", PAYLOAD_VIEWER);
    let end = first.pop().unwrap();
    assert_eq!((&end["end"]["cut"], &end["end"]["transactions"]), (&json!(true), &json!(100)));
    let next = end["end"]["next"].as_str().unwrap();
    let mut rest = export(&format!("limit=100&cursor={next}"), PAYLOAD_VIEWER);
    assert_eq!(rest.pop().unwrap()["end"]["cut"], false);
    assert_eq!([first, rest].concat().len(), 150);
    // Without the right to see payloads there are none.
    let seen = export("limit=1000", VIEWER);
    assert_eq!(seen.len(), 151);
    assert!(seen.iter().all(|line| line["payload"].is_null()), "{:?}", seen[0]);
    let args = ["search", "quokka", "--export", "--limit", "3"];
    let (ok, out, said) = command(&server, &tokens[PAYLOAD_VIEWER], &args);
    assert!(ok && said.contains("cut after 3") && said.contains("--cursor"), "{said}");
    assert_eq!(lines(&out).len(), 3);
    let log = get(&server, "/v1/audit", &tokens[3]).json();
    let exports: Vec<&Value> =
        log.as_array().unwrap().iter().rev().filter(|one| one["action"] == "export").collect();
    assert_eq!(exports.len(), 4, "{log}");
    assert_eq!(
        (&exports[0]["subject"], &exports[0]["role"]),
        (&json!("quokka"), &json!("payload-viewer"))
    );
}

#[test]
fn an_export_of_bodies_that_grow_when_they_are_decoded_takes_little_memory() {
    let (server, _echo) = start("");
    let token = first_token(&server);
    // A mebibyte of a character that takes six bytes in JSON.
    let bomb = gzip(&vec![0; 2 << 20]);
    let count = 64;
    (0..count).for_each(|_| drop(post_packed(&server, "/a", &bomb)));
    eventually("they are indexed", || {
        server.metric("weir_index_transactions", &[]) == f64::from(count)
    });
    let before = server.peak_memory();
    let mut client = server.connect_admin();
    client.send(format!(
        "GET /v1/transactions/export HTTP/1.1\r\nHost: localhost\r\n\
         Authorization: Bearer {token}\r\n\r\n"
    ));
    assert_eq!(client.response_to_head().status, 200);
    let (mut bytes, mut last) = (0, Vec::new());
    loop {
        let chunk = client.chunk();
        if chunk.is_empty() {
            break;
        }
        bytes += chunk.len();
        last = chunk;
    }
    let end = lines(&String::from_utf8_lossy(&last)).pop().unwrap();
    assert_eq!(end["end"]["transactions"], count);
    assert!(bytes >= 6 * count as usize * (1 << 20), "{bytes}");
    // All at once they are 448 MiB; one by one some wait to be sent, and the allocator keeps some.
    let more = server.peak_memory() - before;
    assert!(more < 300 << 10, "{more} KiB more than before");
}

#[test]
fn bodies_are_shown_decoded_and_harmless_and_given_as_they_were_sent() {
    let (server, _echo) = start(KEYS);
    let tokens = tokens(&server);
    let plain = b"{\"orderId\":\"A-17\",\"evil\":\"\\u001b]0;x\\u0007 \xe2\x80\xae\"}";
    let packed = gzip(plain);
    let sent = post_packed(&server, "/a", &packed);
    let bomb = gzip(&vec![b'a'; 20 << 20]);
    let bombed = post_packed(&server, "/b", &bomb);
    let binary: Vec<u8> = (0..=255).cycle().take(1000).collect();
    let mut client = server.connect();
    client.send(b"POST /c HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n");
    client.send(binary.clone());
    let odd = id(&client.response());

    let token = &tokens[PAYLOAD_VIEWER];
    let (ok, out, said) = command(&server, token, &["show", &sent]);
    assert!(ok, "{said}");
    assert!(out.contains("\n  \"orderId\": \"A-17\",\n"), "{out}");
    assert!(out.contains("decoded from gzip") && out.contains("key        order: A-17"), "{out}");
    assert!(!out.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{out:?}");
    assert!(out.contains("history") && out.contains("received 20"), "{out}");
    assert_eq!(found(&server, token, "key.order:A-17"), std::slice::from_ref(&sent));
    let shown = get(&server, &format!("/v1/transactions/{bombed}"), token);
    let body = &shown.json()["payload"]["request_body"];
    assert_eq!((&body["decoded_from"], &body["cut"]), (&json!("gzip"), &json!(true)));
    assert_eq!(body["text"].as_str().unwrap().len(), 1 << 20);
    let (_, out, _) = command(&server, token, &["show", &odd]);
    assert!(out.contains("00000010  10 11 12 13") && out.contains("744 bytes more"), "{out}");

    for (id, bytes) in [(&sent, &packed), (&bombed, &bomb), (&odd, &binary)] {
        let url = format!("http://{}", server.admin.unwrap());
        let output =
            harness::weir(server.dir(), &["show", id, "--raw", "request", "--admin", &url]);
        assert!(output.status.success() && output.stdout == *bytes, "{:?}", output.stderr);
        let raw = get(&server, &format!("/v1/transactions/{id}/request-body"), token);
        assert_eq!((raw.status, &raw.body), (200, bytes));
        assert_eq!(raw.header("content-type"), Some("application/octet-stream"));
        assert_eq!(raw.header("content-disposition"), Some("attachment"));
    }
    let none = get(&server, &format!("/v1/transactions/{sent}/other"), token);
    assert_eq!(none.status, 404);
}

#[test]
fn every_door_to_payloads_is_closed_to_those_who_may_not_see_them() {
    let (server, _echo) = start(KEYS);
    let tokens = tokens(&server);
    let body = "{\"orderId\":\"A-17\",\"x\":\"quokka\"}";
    let posted = id(&server.connect().post("/orders?pin=4711", body));
    let queries = [
        "body:quokka",
        "header:x",
        "header.host:*",
        "key.order:A-17",
        "key.order:*",
        "quokka",
        "target:pin",
        "status:200 OR body:*",
        "-body:quokka",
        "api:all (method:POST -key.order:A)",
    ];
    for role in [VIEWER, PAYLOAD_VIEWER, OPERATOR] {
        let token = &tokens[role];
        let expected = if role == VIEWER { 403 } else { 200 };
        for query in queries.map(encode) {
            for door in [
                "transactions",
                "transactions/summary",
                "transactions/difference",
                "transactions/profile",
                "transactions/export",
            ] {
                let response = get(&server, &format!("/v1/{door}?q={query}"), token);
                assert_eq!(response.status, expected, "{door} {query} {}", response.text());
                if role == VIEWER {
                    assert_eq!(response.header("content-type"), Some("application/problem+json"));
                    assert_eq!(response.json()["type"], "urn:weir:problem:forbidden");
                    assert!(response.text().contains("payload-viewer"), "{}", response.text());
                }
            }
        }
        for path in [
            "/v1/transactions/summary?keys=true".to_owned(),
            "/v1/transactions/difference?q=status:200&keys=true".to_owned(),
            "/v1/transactions/difference?q=status:200&among=body:quokka".to_owned(),
            format!("/v1/transactions/{posted}/request-body"),
            format!("/v1/transactions/{posted}/response-body"),
        ] {
            assert_eq!(get(&server, &path, token).status, expected, "{path}");
        }
        for path in [
            format!("/v1/transactions/{posted}"),
            "/v1/transactions?q=status:200".to_owned(),
            "/v1/transactions/summary?q=status:200".to_owned(),
            "/v1/transactions/difference?q=status:200".to_owned(),
            "/v1/transactions/profile?q=status:200".to_owned(),
            "/v1/transactions/export?q=status:200".to_owned(),
        ] {
            let text = get(&server, &path, token).text();
            let secrets = ["quokka", "4711", "A-17"];
            let shows = secrets.iter().any(|secret| text.contains(secret));
            let may = role != VIEWER && (path.contains(&posted) || path.contains("export"));
            assert_eq!(shows, may, "{path} {text}");
        }
    }
    // A tail has no payload, whoever asks.
    let mut tail = server.connect_admin();
    tail.send(format!(
        "GET /v1/transactions/tail HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n",
        tokens[OPERATOR]
    ));
    assert_eq!(tail.response_to_head().status, 200);
    server.connect().post("/orders?pin=4711", body);
    let mut seen = String::new();
    while !seen.contains("\"POST\"") {
        seen.push_str(&String::from_utf8_lossy(&tail.chunk()));
    }
    assert!(!seen.contains("quokka") && !seen.contains("4711"), "{seen}");
}

#[test]
fn a_search_that_costs_too_much_ends_in_time_and_says_so() {
    let (server, _echo) = start(", index: keys");
    let token = first_token(&server);
    let mut client = server.connect();
    let body = "some words of no meaning ".repeat(1600);
    for _ in 0..600 {
        client.post("/a", &body);
    }
    // What is not indexed yet has a share of the time of its own.
    eventually("all are indexed", || server.metric("weir_index_transactions", &[]) == 600.0);
    // No word of it stands in a row anywhere, so all of each body is looked through for each.
    let query: String = (0..60).map(|n| format!("-\"no meaning {n}\" ")).collect();
    let query = format!("{query} body:absent");
    let response =
        get(&server, &format!("/v1/transactions?timeout=1&q={}", encode(&query)), &token).json();
    assert_eq!(
        (&response["cut"], &response["incomplete"]),
        (&json!(true), &json!(true)),
        "{response}"
    );
    assert!(response["next"].is_string(), "{response}");
    let (ok, _, said) = command(&server, &token, &["search", &query, "--timeout", "1s"]);
    assert!(ok && said.contains("timeout"), "{said}");
    for timeout in ["0", "31", "x"] {
        let response = get(&server, &format!("/v1/transactions?timeout={timeout}"), &token);
        assert_eq!(response.status, 400, "{timeout}");
    }
}

#[test]
fn lag_is_told_by_metrics_and_by_the_state_of_the_journal() {
    let (server, _echo) = start("");
    let token = first_token(&server);
    for _ in 0..10 {
        server.connect().get("/fixed");
    }
    eventually("everything indexed", || {
        server.metric("weir_index_transactions", &[]) == 10.0
            && server.metric("weir_index_lag_seconds", &[]) == 0.0
    });
    assert_eq!(server.metric("weir_index_lag_records", &[]), 0.0);
    let tracker = ["follower=\"tracker\""];
    // What is indexed in memory only is not passed for good.
    assert_eq!(server.metric("weir_journal_follower_lag_records", &tracker), 10.0);
    assert!(server.metric("weir_journal_follower_lag_bytes", &tracker) > 0.0);
    assert!(server.metric("weir_journal_follower_lag_seconds", &tracker) > 0.0);
    let state = get(&server, "/v1/journal", &token).json();
    assert_eq!((&state["index_lag_records"], &state["indexed"]), (&json!(0), &json!(10)));
    let (_, out, _) = command(&server, &token, &["journal", "inspect"]);
    assert!(out.contains("index_lag_records") && out.contains("index_lag_seconds"), "{out}");
}

#[test]
fn tokens_are_made_listed_and_revoked_at_the_command_line() {
    let (server, _echo) = start("");
    let first = first_token(&server);
    let args = ["token", "new", "support", "--role", "payload-viewer"];
    let (ok, out, said) = command(&server, &first, &args);
    assert!(ok, "{said}");
    let made = out.trim();
    assert!(made.starts_with("wadm_") && !said.contains(made), "{out} {said}");
    assert_eq!(get(&server, "/v1/transactions?q=body:a", made).status, 200);
    let (_, out, _) = command(&server, &first, &["token", "list", "--json"]);
    assert!(!out.contains("wadm_"), "{out}");
    let listed = lines(&out).into_iter().find(|token| token["name"] == "support").unwrap();
    assert_eq!(listed["role"], "payload-viewer");
    let (_, out, _) = command(&server, &first, &["token", "list"]);
    assert!(out.contains("support") && out.starts_with("ID"), "{out}");
    let (ok, _, said) = command(&server, made, &["token", "list"]);
    assert!(!ok && said.contains("403"), "{said}");
    let id = listed["id"].as_str().unwrap();
    assert!(command(&server, &first, &["token", "revoke", id]).0);
    assert_eq!(get(&server, "/v1/journal", made).status, 401);
    let (ok, _, said) = command(&server, &first, &["token", "revoke", id]);
    assert!(!ok && said.contains("404"), "{said}");
    let wrong = ask(&server, "GET", "/v1/tokens", None, "");
    assert_eq!(wrong.status, 401);
}
