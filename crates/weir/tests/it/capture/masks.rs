//! Bodies that are masked before they are recorded, or withheld.

use super::{recorded, shown, start};
use crate::harness::{self, Upstream, files};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use std::io::{Read as _, Write as _};
use weir_journal::{BodyMetadata, Outcome, Withheld};

/// Header fields of a request.
type Fields<'a> = &'a [(&'a str, &'a str)];

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn bodies_are_masked_before_they_are_written() {
    let secret = r#"{"card": {"number": "4111-s3cret", "kind": "visa"}, "pin": "s3cret-pin"}"#;
    let packed = gzip(secret);
    let mut response = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\n\
         content-length: {}\r\n\r\n",
        packed.len()
    )
    .into_bytes();
    response.extend_from_slice(&packed);
    let upstream = Upstream::responding(response);
    let mask = "mask: {body: [\"$.card.number\", \"$..pin\"]}";
    let mut weir = start(upstream.addr, mask, &["path: \"/*\", proxy: up"]);
    let mut client = weir.connect();
    let response = client.post("/json", secret);
    assert_eq!(response.body, packed, "what is forwarded is as it was");
    let form = "card[number]=4111-s3cret&pin=s3cret-pin&kind=visa";
    let urlencoded = [("content-type", "application/x-www-form-urlencoded; charset=utf-8")];
    client.request("POST", "/form", &urlencoded, form);
    // Byte by byte, in chunks, and larger than one read.
    let padded = secret.replace("visa", &"v".repeat(20_000));
    client.send(
        "POST /chunks HTTP/1.1\r\nHost: a\r\ncontent-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\n",
    );
    for piece in padded.as_bytes().chunks(1000) {
        client.send(format!("{:x}\r\n{}\r\n", piece.len(), String::from_utf8_lossy(piece)));
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.response().status, 200);
    let all = recorded(&mut weir);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let masked = r#"{"card":{"number":"***","kind":"visa"},"pin":"***"}"#;
    assert_eq!(text(&all[0].request_body), masked);
    assert_eq!(text(&all[1].request_body), "card[number]=***&pin=***&kind=visa");
    assert_eq!(text(&all[2].request_body), masked.replace("visa", &"v".repeat(20_000)));
    for one in &all {
        let mut plain = String::new();
        GzDecoder::new(one.response_body.as_slice()).read_to_string(&mut plain).expect("gzip");
        assert_eq!(plain, masked, "as sent, but for what is masked");
        assert_eq!((one.response.length, one.response.withheld), (packed.len() as u64, None));
        assert!(!one.request.truncated && !one.response.truncated);
    }
    for file in files(&weir.dir().join("data")) {
        let bytes = std::fs::read(&file).expect("a file");
        let found = memchr::memmem::find(&bytes, b"s3cret");
        assert!(found.is_none(), "in {} at {found:?}", file.display());
    }
}

#[test]
fn a_masked_request_outlives_a_kill_while_its_response_is_awaited() {
    let upstream = Upstream::by_hand();
    let mask = "mask: {body: [\"$.pin\"]}, budget: 4KiB";
    let mut weir = start(upstream.addr, mask, &["path: \"/*\", proxy: up"]);
    let json = ("content-type", "application/json");
    // Each takes most of the budget; none of it once it is over.
    let body = format!("{{\"pin\": \"s3cret\", \"a\": \"{}\"}}", "x".repeat(3000));
    let open: Vec<_> = (0..3)
        .map(|_| {
            let mut client = weir.connect();
            let (name, value) = json;
            client.send(format!(
                "POST /a HTTP/1.1\r\nHost: a\r\n{name}: {value}\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ));
            let mut peer = upstream.accept();
            assert_eq!(peer.request().expect("a request"), body.as_bytes());
            (client, peer)
        })
        .collect();
    let all = recorded(&mut weir);
    assert_eq!(all.len(), open.len());
    for one in &all {
        assert_eq!(one.outcome, Outcome::Interrupted);
        let stored = String::from_utf8_lossy(&one.request_body);
        assert_eq!(stored, body.replace("s3cret", "***"));
    }
}

#[test]
fn what_cannot_be_masked_is_not_written_and_says_why() {
    let echo = harness::echo(&[]);
    let mask = "mask: {body: [\"$.pin\"]}, body_limit: 10KiB, budget: 8KiB";
    let mut weir = start(echo.listen[0], mask, &["path: \"/*\", proxy: up"]);
    let mut client = weir.connect();
    let json = ("content-type", "application/json");
    let long = format!("{{\"pin\": \"s3cret\", \"a\": \"{}\"}}", "x".repeat(20_000));
    let middling = format!("{{\"pin\": \"s3cret\", \"a\": \"{}\"}}", "x".repeat(9_000));
    let form = ("content-type", "application/x-www-form-urlencoded");
    let cases: [(Fields<'_>, &str, Withheld); 8] = [
        // What `curl -d` says of everything.
        (&[form], "{\"pin\": \"s3cret\"}", Withheld::Unreadable),
        (&[form], "pin: s3cret", Withheld::Unreadable),
        (&[("content-type", "application/xml")], "<pin>s3cret</pin>", Withheld::Unreadable),
        (&[], "{\"pin\": \"s3cret\"}", Withheld::Unreadable),
        (&[json], "{\"pin\": \"s3cret\"", Withheld::Unreadable),
        (&[json, ("content-encoding", "br")], "s3cret", Withheld::Coding),
        (&[json], &long, Withheld::Long),
        (&[json], &middling, Withheld::Budget),
    ];
    for (headers, body, _) in &cases {
        assert_eq!(client.request("POST", "/a", headers, body).text(), *body);
    }
    // What there is nothing of is not withheld.
    client.request("POST", "/status/204", &[("content-type", "application/xml")], "");
    // The room that was taken has been given back.
    client.post("/a", "{\"pin\": \"s3cret\"}");
    assert!(weir.metric("weir_capture_withheld_total", &[]) >= 16.0);
    let all = recorded(&mut weir);
    for (one, (_, body, why)) in all.iter().zip(&cases) {
        assert!(one.request_body.is_empty() && one.response_body.is_empty(), "{why:?}");
        assert_eq!((one.request.withheld, one.request.length), (Some(*why), body.len() as u64));
        assert!(!one.request_head.is_empty());
    }
    let told = shown(&weir, &all[5]);
    assert!(told.contains("withheld, in a coding that cannot be decoded"), "{told}");
    assert_eq!(all[8].request, BodyMetadata::default());
    assert_eq!(all[8].response.withheld, None);
    assert_eq!(all[9].request_body, b"{\"pin\": \"***\"}");
    for file in files(&weir.dir().join("data")) {
        let bytes = std::fs::read(&file).expect("a file");
        assert!(memchr::memmem::find(&bytes, b"s3cret").is_none(), "{}", file.display());
    }
}

#[test]
fn what_would_take_much_memory_to_mask_is_not_written() {
    let text = |length: usize| format!("{{\"pin\": 1, \"a\": \"{}\"}}", "x".repeat(length));
    let upstream = Upstream::start(move |_, peer| {
        while let Some(head) = peer.head() {
            let length = head.split('/').nth(2).and_then(|rest| rest.split(' ').next());
            let text = text(length.expect("a length").parse().expect("a number"));
            let (body, coding) = match head.starts_with("GET /gzip") {
                true => (gzip(&text), "gzip"),
                false => (text.into_bytes(), "identity"),
            };
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                 content-encoding: {coding}\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            peer.send([head.as_bytes(), &body].concat());
        }
    });
    let paths = ["/gzip/200000", "/gzip/1000000", "/gzip/2000000", "/plain/300000"];
    let (long, budget) = (Some(Withheld::Long), Some(Withheld::Budget));
    for (mask, room, expected) in [
        ("$.pin", "64MiB", [None, None, long, None]),
        ("$..pin", "64MiB", [None, long, long, long]),
        ("$.pin", "512KiB", [None, budget, budget, None]),
    ] {
        let tracker = format!("mask: {{body: [\"{mask}\"]}}, body_limit: 1MiB, budget: {room}");
        let mut weir = start(upstream.addr, &tracker, &["path: \"/*\", proxy: up"]);
        let mut client = weir.connect();
        for path in paths {
            assert_eq!(client.get(path).status, 200);
        }
        let why: Vec<_> = recorded(&mut weir).iter().map(|one| one.response.withheld).collect();
        assert_eq!(why, expected, "{mask} in {room}");
    }
}

#[test]
fn query_credentials_are_masked_in_every_header_that_holds_a_url() {
    let upstream = Upstream::responding(
        "HTTP/1.1 302 Found\r\nlocation: https://a.example/next?api_key=s3cret&page=2\r\n\
         content-location: /here?api_key=s3cret\r\n\
         link: </a?api_key=s3cret>; rel=next, </b?x=1&api%5Fkey=s3cret>; rel=last\r\n\
         refresh: 5; url=/wait?api_key=s3cret\r\nx-continue: /go#api_key=s3cret\r\n\
         content-length: 0\r\n\r\n",
    );
    let config = format!(
        "listen: [\"127.0.0.1:0\"]\nworkers: 1\ntracker: {{enabled: true, mask: {{query: [session]}}}}\n\
         log: {{access: json, to: access.log}}\n\
         auth: {{keys: {{api_key: {{query: api_key}}}}}}\n\
         consumers: {{one: {{api_keys: [\"{}\"]}}}}\n\
         upstreams: {{up: {{targets: [\"http://{}\"]}}}}\n\
         apis: {{all: {{base: /, auth: keys, routes: [{{path: \"/*\", proxy: up}}]}}}}\n",
        harness::key_hash("s3cret"),
        upstream.addr
    );
    let mut weir = harness::Weir::new(&config).start();
    let target = "/a?api_key=s3cret&to=%2Fb%3Fapi_key%3Ds3cret&session=s3cret";
    let referer = "https://b.example/from?session=s3cret&x=1";
    let sent = [
        ("referer", referer),
        ("x-original-url", "/first?api_key=s3cret"),
        ("destination", "https://c.example/?to=https%3A%2F%2Fd%2F%3Fapi_key%3Ds3cret%26y%3D2"),
    ];
    let redirect = weir.connect().request("GET", target, &sent, "");
    assert_eq!(redirect.status, 302, "{}", redirect.text());
    let location = redirect.header("location").unwrap();
    assert_eq!(location, "https://a.example/next?api_key=s3cret&page=2", "it passes as it is");
    let passed = upstream.heads().remove(0);
    assert!(passed.contains(referer), "{passed}");
    let explained = harness::weir(
        weir.dir(),
        &["explain", "GET", target, "-H", &format!("Referer: {referer}"), "weir.yaml"],
    );
    let explained = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(explained.contains("session=***&x=1"), "{explained}");
    assert!(!explained.contains("s3cret"), "{explained}");
    let all = recorded(&mut weir);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (request, response) = (text(&all[0].request_head), text(&all[0].response_head));
    for kept in [
        "https://b.example/from?session=***&x=1",
        "/first?api_key=***",
        "https://c.example/?to=https%3A%2F%2Fd%2F%3Fapi_key%3D***%26y%3D2",
    ] {
        assert!(request.contains(kept), "{kept}: {request}");
    }
    for kept in [
        "https://a.example/next?api_key=***&page=2",
        "/here?api_key=***",
        "</a?api_key=***>; rel=next, </b?x=1&api%5Fkey=***>; rel=last",
        "5; url=/wait?api_key=***",
        "/go#api_key=***",
    ] {
        assert!(response.contains(kept), "{kept}: {response}");
    }
    let told = shown(&weir, &all[0]);
    assert!(told.contains("to=%2Fb%3Fapi_key%3D***"), "{told}");
    let mut read = files(&weir.dir().join("data"));
    read.push(weir.dir().join("access.log"));
    for file in read {
        let bytes = std::fs::read(&file).unwrap_or_default();
        let found = memchr::memmem::find(&bytes, b"s3cret");
        assert!(found.is_none(), "in {} at {found:?}", file.display());
    }
    assert!(weir.dir().join("access.log").exists());
}
