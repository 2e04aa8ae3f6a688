//! What is kept of bodies, and what a record says beside them.

mod masks;

use crate::harness::{self, Server, Upstream, Weir, eventually, transactions};
use crate::recording::head;
use std::net::SocketAddr;
use weir_journal::{BodyMetadata, Outcome, Transaction, Withheld};
use weir_model::stage;

/// A server with these settings of the Tracker and these routes, in front of an upstream.
fn start(upstream: SocketAddr, tracker: &str, routes: &[&str]) -> Server {
    let routes: String = routes.iter().map(|route| format!("      - {{{route}}}\n")).collect();
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n\
         tracker: {{enabled: true, {tracker}}}\n\
         upstreams: {{up: {{targets: [\"http://{upstream}\"]}}}}\n\
         auth: {{keys: {{api_key: {{header: x-key}}}}}}\n\
         apis:\n  all:\n    base: /\n    routes:\n{routes}",
    ))
    .start()
}

/// Ends the server and reads what it recorded.
fn recorded(weir: &mut Server) -> Vec<Transaction> {
    weir.kill();
    transactions(&weir.dir().join("data"))
}

/// What `weir show` says of a transaction to whoever looks into the data folder.
fn shown(weir: &Server, one: &Transaction) -> String {
    let id: String = one.id.iter().map(|byte| format!("{byte:02x}")).collect();
    let output = harness::weir(weir.dir(), &["show", &id, "--data", "data"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    told
}

/// A frame of HTTP/2 (RFC 9113 section 4.1) on the first stream, or on the connection if it is of
/// kind 4.
fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let [_, length @ ..] = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let stream = u8::from(kind != 4);
    [&length[..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

/// A POST over HTTP/2 that says that it has a body of so many bytes, and brings these.
fn http2_post(path: &str, length: usize, body: &str) -> Vec<u8> {
    const END: u8 = 1;
    const END_HEADERS: u8 = 4;
    let end = if body.len() == length { END } else { 0 };
    // `:method: POST` and `:scheme: http` by their numbers, the rest as they are (RFC 7541).
    let mut head = vec![0x83, 0x86];
    let length = length.to_string();
    let fields = [
        (&[4][..], path),
        (&[1][..], "localhost"),
        (&[15, 13][..], length.as_str()),
        (&[15, 16][..], "application/json"),
    ];
    for (name, value) in fields {
        head.extend_from_slice(name);
        head.push(u8::try_from(value.len()).expect("short"));
        head.extend_from_slice(value.as_bytes());
    }
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, &[]));
    bytes.extend(frame(1, END_HEADERS, &head));
    bytes.extend(frame(0, end, body.as_bytes()));
    bytes
}

#[test]
fn bodies_that_come_by_http2_are_recorded_wherever_they_go() {
    let echo = harness::echo(&[]);
    let routes = ["post: /hosted, reply: {text: taken}", "path: \"/*\", proxy: up"];
    let mut weir = start(echo.listen[0], "capture: body", &routes);
    let open: Vec<_> = ["/hosted", "/proxied"]
        .into_iter()
        .map(|path| {
            let mut client = weir.connect();
            client.send(http2_post(path, 8, "{\"a\": 1}"));
            client
        })
        .collect();
    eventually("both are answered", || {
        weir.metric("weir_index_transactions", &[]) == open.len() as f64
    });
    for one in &recorded(&mut weir) {
        assert_eq!(one.request_body, b"{\"a\": 1}", "{}", one.target);
        assert_eq!((one.request.length, one.request.truncated), (8, false), "{}", one.target);
    }
}

#[test]
fn what_was_not_read_to_its_end_is_not_taken_for_whole() {
    // Answers before the body has come.
    let upstream = Upstream::start(|_, peer| {
        if peer.head().is_some() {
            peer.some();
            peer.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n");
            peer.hang();
        }
    });
    let routes = [
        "path: /hosted, reply: {text: taken}",
        "path: /meta, capture: meta, reply: {text: taken}",
        "path: \"/*\", proxy: up",
    ];
    let (length, chunked) = ("content-length: 20000", "transfer-encoding: chunked");
    let json = "content-type: application/json";
    let sent = "{\"pin\": \"s3cret\"}, ";
    let settings = [("body_limit: 10B", &sent[..10]), ("mask: {body: [\"$.pin\"]}", "")];
    for (tracker, body) in settings {
        let mut weir = start(upstream.addr, tracker, &routes);
        for (path, framing) in [
            ("/hosted", length),
            ("/meta", length),
            ("/proxied", length),
            ("/hosted", chunked),
            ("/proxied", chunked),
        ] {
            let mut client = weir.connect();
            let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\n{json}\r\n{framing}\r\n\r\n");
            let framed = if framing == chunked {
                format!("{:x}\r\n{sent}\r\n", sent.len())
            } else {
                sent.to_owned()
            };
            client.send(head + &framed);
            assert!(matches!(client.response().status, 200 | 401));
        }
        let mut client = weir.connect();
        client.send(http2_post("/hosted", 100, sent));
        eventually("all are answered", || weir.metric("weir_index_transactions", &[]) == 6.0);
        let all = recorded(&mut weir);
        let lengths: Vec<u64> = all.iter().map(|one| one.request.length).collect();
        let came = sent.len() as u64;
        assert_eq!(lengths, [20_000, 20_000, 20_000, came, came, 100]);
        for (number, one) in all.iter().enumerate() {
            let facts = one.request;
            assert!(facts.truncated && !facts.aborted, "{number}: {one:?}");
            assert_eq!(facts.hash, [0; 16], "a part of the rest has no hash");
            let text = String::from_utf8_lossy(&one.request_body);
            let meta = one.target == "/meta";
            assert_eq!(text, if meta { "" } else { body }, "{number}");
            let withheld = (body.is_empty() && !meta).then_some(Withheld::Aborted);
            assert_eq!(facts.withheld, withheld, "{number}");
        }
    }
}

#[test]
fn what_an_unreachable_upstream_did_not_get_is_recorded() {
    let mut weir = start(harness::nobody(), "capture: body", &["path: \"/*\", proxy: up"]);
    assert_eq!(weir.connect().post("/a", "{\"a\": 1}").status, 502);
    let all = recorded(&mut weir);
    assert_eq!(all[0].request_body, b"{\"a\": 1}");
    assert!(all[0].request.length == 8 && !all[0].request.truncated);
}

#[test]
fn headers_and_bodies_stay_only_where_something_went_wrong() {
    let echo = harness::echo(&[]);
    let mut weir = start(
        echo.listen[0],
        "capture: {level: body, when: [error, slow], slow: 300ms}",
        &[
            "path: \"/*\", proxy: up",
            "get: /hosted, reply: {text: hosted}",
            "get: /failing, reply: {status: 500, text: failing}",
            "post: /errors, capture: {when: error}, proxy: up",
            "post: /always, capture: body, proxy: up",
        ],
    );
    let mut client = weir.connect();
    for path in ["/status/200", "/status/404", "/status/503", "/errors", "/always"] {
        client.post(path, "{\"a\": 1}");
    }
    client.get("/hosted");
    client.get("/failing");
    client.get("/delay/400ms");
    let long = "x".repeat(100_000);
    client.post("/status/200", &long);
    let all = recorded(&mut weir);
    let kept: Vec<bool> = all.iter().map(|one| !one.request_head.is_empty()).collect();
    assert_eq!(kept, [false, true, true, false, true, false, true, true, false], "{all:?}");
    for one in &all {
        let kept = !one.request_head.is_empty();
        assert_eq!(one.response_head.is_empty(), !kept, "{}", one.target);
        assert_eq!(one.response_body.is_empty(), !kept, "{}", one.target);
        assert!(kept || one.request_body.is_empty());
        assert!(!one.damaged && !one.shortened && !one.target.is_empty());
    }
    let cut = BodyMetadata { length: 100_000, truncated: true, ..BodyMetadata::default() };
    assert_eq!((all[8].request, all[8].response), (cut, cut), "true lengths stay");
    assert!(all[8].discarded && !all[1].discarded);
    assert_eq!(all[1].request_body, b"{\"a\": 1}");
    assert_eq!(all[6].response_body, b"failing");
}

#[test]
fn without_a_route_neither_headers_nor_bodies_are_recorded() {
    let routes = ["get: /hosted, reply: {text: hosted}"];
    let mut weir = start(harness::nobody(), "capture: body", &routes);
    let mut client = weir.connect();
    assert_eq!(client.post("/nowhere", "{\"a\": 1}").status, 404);
    assert_eq!(client.get("/hosted").status, 200);
    let all = recorded(&mut weir);
    assert_eq!((all[0].target.as_str(), all[0].status), ("/nowhere", 404));
    let [nowhere, hosted] = [&all[0], &all[1]].map(|one| {
        [&one.request_head, &one.request_body, &one.response_head, &one.response_body]
            .map(Vec::is_empty)
    });
    assert_eq!(nowhere, [true; 4], "{:?}", all[0]);
    assert_eq!(hosted, [false, true, false, false], "{:?}", all[1]);
}

#[test]
fn what_is_not_stored_of_a_long_body_is_told_apart_by_its_hash() {
    let echo = harness::echo(&[]);
    let mut weir = start(echo.listen[0], "body_limit: 4KiB", &["path: \"/*\", proxy: up"]);
    let mut client = weir.connect();
    let (one, other) = ("a".repeat(50_000), "a".repeat(49_999) + "b");
    for body in [&one, &one, &other, &one[..4096].to_owned()] {
        assert_eq!(client.post("/a", body).text().len(), body.len());
    }
    client.send("POST /a HTTP/1.1\r\nHost: a\r\ntransfer-encoding: chunked\r\n\r\n");
    for piece in one.as_bytes().chunks(4500) {
        client.send(format!("{:x}\r\n{}\r\n", piece.len(), String::from_utf8_lossy(piece)));
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.response().body.len(), one.len());
    let all = recorded(&mut weir);
    let hashes: Vec<[u8; 16]> = all.iter().map(|one| one.request.hash).collect();
    assert_ne!(hashes[0], [0; 16]);
    assert_eq!(hashes[0], hashes[1]);
    let told = shown(&weir, &all[0]);
    let hash: String = hashes[0].iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(told.contains(&hash) && told.contains("4096 of 50000 bytes"), "{told}");
    assert_ne!(hashes[0], hashes[2], "the last byte is hashed, too");
    assert_eq!(hashes[3], [0; 16], "all of it is stored");
    assert_eq!(hashes[0], hashes[4], "however it came");
    assert!(all.iter().all(|one| one.request.hash == one.response.hash), "and both ways");
}

#[test]
fn every_stage_that_did_something_is_timed() {
    let echo = harness::echo(&[]);
    let map = "request: {map: {b: \"$.a\"}}, response: {map: {c: \"$.b\"}}";
    let mut weir = start(
        echo.listen[0],
        "capture: meta",
        &[
            "get: /hosted, reply: {text: hosted}",
            "get: /limited, limit: {rate: 1000/s, key: address}, reply: {text: hosted}",
            "get: /guarded, auth: [keys, anonymous], reply: {text: hosted}",
            &format!("post: /mapped, {map}, proxy: up"),
            "get: \"/delay/*\", proxy: up",
        ],
    );
    let mut client = weir.connect();
    for path in ["/hosted", "/limited", "/guarded"] {
        assert_eq!(client.get(path).status, 200);
    }
    assert_eq!(client.post("/mapped", "{\"a\": 1}").text(), "{\"c\":1}");
    client.get("/delay/100ms");
    let all = recorded(&mut weir);
    let codes = |one: &Transaction| one.stages.iter().map(|(code, _)| *code).collect::<Vec<_>>();
    assert_eq!(codes(&all[0]), [stage::TOTAL]);
    assert_eq!(codes(&all[1]), [stage::LIMIT, stage::TOTAL]);
    assert_eq!(codes(&all[2]), [stage::AUTH, stage::TOTAL]);
    let mapped = [
        stage::REQUEST_MAP,
        stage::CONNECT,
        stage::FIRST_BYTE,
        stage::RESPONSE_MAP,
        stage::ANSWER,
        stage::TOTAL,
    ];
    assert_eq!(codes(&all[3]), mapped);
    assert_eq!(codes(&all[4]), [stage::FIRST_BYTE, stage::ANSWER, stage::TOTAL], "kept alive");
    let took = |one: &Transaction, wanted| {
        one.stages.iter().find(|(code, _)| *code == wanted).map_or(0, |(_, took)| *took)
    };
    assert!(took(&all[4], stage::FIRST_BYTE) >= 100_000, "{:?}", all[4].stages);
    let told = shown(&weir, &all[3]);
    for name in ["request-map", "connect", "first-byte", "response-map", "answer", "total"] {
        assert!(told.contains(name), "{name} is not in {told}");
    }
    for one in &all {
        let parts: u32 = one.stages.iter().map(|(_, took)| *took).max().unwrap_or_default();
        assert_eq!(parts, took(one, stage::TOTAL), "no stage takes longer than all of it");
    }
}

#[test]
fn what_cannot_be_read_is_not_made_up_and_what_was_not_sent_is_not_kept() {
    let half = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nZZ\r\n";
    let upstream = Upstream::responding(half);
    let mut weir = start(upstream.addr, "capture: body", &["path: \"/*\", proxy: up"]);
    let mut client = weir.connect();
    client.send("BAD REQUEST\r\n\r\n");
    assert_eq!(client.response().status, 400);
    let response = weir.connect().get("/half");
    assert_eq!(response.status, 502, "{}", response.text());
    let all = recorded(&mut weir);
    assert_eq!((all[0].method.as_str(), all[0].target.as_str(), all[0].status), ("", "", 400));
    assert_eq!((all[1].status, all[1].outcome), (502, Outcome::Failed));
    assert_eq!(all[1].response_body, response.body, "{}", head(&all[1]).1);
    assert_eq!(all[1].response.length, response.body.len() as u64);
}

#[test]
fn streams_and_binaries_are_recorded_and_a_stream_that_ends_is_completed() {
    let upstream = Upstream::by_hand();
    let mut weir = start(upstream.addr, "capture: body", &["path: \"/*\", proxy: up"]);
    let events = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
                  connection: close\r\ntransfer-encoding: chunked\r\n\r\n8\r\ndata: a\n\r\n";
    let ask = || {
        let mut client = weir.connect();
        client.send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut peer = upstream.accept();
        peer.head().expect("a request");
        assert!(peer.send(events));
        (client, peer)
    };
    let (mut ends, mut peer) = ask();
    assert!(peer.send("0\r\n\r\n"));
    assert_eq!(ends.response().text(), "data: a\n");
    let (leaves, mut peer) = ask();
    drop(leaves);
    eventually("it is noticed that the client left", || {
        peer.send("2\r\n.\n\r\n");
        weir.metric("weir_aborted_requests_total", &[]) >= 1.0
    });
    let (mut open, _peer) = ask();
    assert!(open.rest_of(1) > 0, "it is being answered");
    let addr = weir.listen[0];
    let client = std::thread::spawn(move || harness::Client::connect(addr).get("/image").body);
    let mut peer = upstream.accept();
    peer.head().expect("a request");
    let image = "HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 4\r\n\r\n";
    assert!(peer.send([image.as_bytes(), b"\x89PNG"].concat()));
    assert_eq!(client.join().expect("an answer"), b"\x89PNG");
    let all = recorded(&mut weir);
    let told: Vec<_> = all.iter().map(|one| (one.target.as_str(), one.outcome)).collect();
    let expected = [
        ("/events", Outcome::Completed),
        ("/events", Outcome::Interrupted),
        ("/events", Outcome::Interrupted),
        ("/image", Outcome::Completed),
    ];
    assert_eq!(told, expected);
    assert!(all[..3].iter().all(|one| one.response_body.starts_with(b"data: a\n")), "{all:?}");
    assert_eq!(all[3].response_body, b"\x89PNG");
    assert!(all[1].response.aborted);
}

#[test]
fn only_text_is_searched() {
    let echo = harness::echo(&[]);
    let tracker = "tracker: {enabled: true}\n";
    let mut weir = Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n{tracker}\
         upstreams: {{up: {{targets: [\"http://{}\"]}}}}\n\
         apis: {{all: {{base: /, routes: [{{path: \"/*\", proxy: up}}]}}}}\n",
        echo.listen[0],
    ))
    .start();
    let mut client = weir.connect();
    let types = [
        "text/plain",
        "application/json",
        "text/event-stream",
        "image/png",
        "application/octet-stream",
        "video/mp4",
    ];
    for (number, kind) in types.iter().enumerate() {
        // Of a type that says nothing the bytes decide.
        let body = if kind.ends_with("octet-stream") { "\0\"needle\"" } else { "\"needle\"" };
        client.request("POST", &format!("/{number}"), &[("content-type", kind)], body);
    }
    weir.kill();
    let found = harness::weir(weir.dir(), &["search", "body:needle", "--data", "data", "--json"]);
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    let mut paths: Vec<String> = found
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
        .map(|hit| hit["path"].as_str().unwrap_or_default().to_owned())
        .collect();
    paths.sort();
    assert_eq!(paths, ["/0", "/1"], "{found}");
}

#[test]
fn a_long_hosted_response_is_recorded_in_chunks() {
    let long = "0123456789abcdef".repeat(1 << 17);
    let reply = format!("get: /long, reply: {{text: \"{long}\"}}");
    let nobody = SocketAddr::from(([127, 0, 0, 1], 9));
    let mut weir = start(nobody, "body_limit: 32MiB", &[&reply]);
    let mut client = weir.connect();
    assert_eq!(client.get("/long").body.len(), long.len());
    let all = recorded(&mut weir);
    let [one] = all.as_slice() else { panic!("{} records", all.len()) };
    assert!(one.response_body == long.as_bytes() && !one.shortened && !one.response.truncated);
    assert_eq!(one.response.length, long.len() as u64);
}
