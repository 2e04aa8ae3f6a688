//! Files that are replaced, cut off, grown or removed while they are served; and what is recorded.

use super::{noise, public, serve, start};
use crate::harness::{eventually, transactions};
use std::fs;
use std::io::Write;
use weir_journal::Outcome;

const ALL: &str = "{get: \"/*\", files: public}";
/// More than a connection's buffers hold, so that most of it is not sent before it is read.
const LARGE: usize = 48 << 20;

/// Every answer is of one state, and its tag is of that state.
#[test]
fn a_file_that_is_replaced_again_and_again_is_never_mixed() {
    let server = serve(ALL, &[("a.bin", &[0; 5000])]);
    let mut client = server.connect();
    let mut seen = std::collections::HashMap::new();
    for state in 1..=255_u8 {
        server.replace("public/a.bin", vec![state; 5000 + usize::from(state)]);
        let response = client.get("/a.bin");
        assert_eq!(response.status, 200);
        let first = response.body[0];
        assert!(response.body.iter().all(|&byte| byte == first), "two states in one answer");
        assert_eq!(response.body.len(), 5000 + usize::from(first));
        let tag = response.header("etag").unwrap().trim_start_matches("W/").to_owned();
        assert_eq!(*seen.entry(tag).or_insert(first), first, "one tag for two states");
    }
    eventually("the last state", || client.get("/a.bin").body[0] == 255);
}

#[test]
fn a_download_under_way_goes_on_with_the_file_it_began_with() {
    let bytes = noise(LARGE);
    let server = serve(ALL, &[("a.bin", &bytes)]);
    let mut client = server.connect();
    client.send("GET /a.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    // It has begun, and what follows does not fit into any buffer.
    assert!(!client.is_closed());
    let mut other = server.connect();
    server.replace("public/a.bin", b"new");
    let response = client.response();
    assert!(response.body == bytes, "{} bytes", response.body.len());
    eventually("the new file", || other.get("/a.bin").text() == "new");
    fs::remove_file(public(&server).join("a.bin")).unwrap();
    eventually("it is gone", || other.get("/a.bin").status == 404);
}

/// What a client cannot get whole must not look whole.
#[test]
fn a_file_that_is_truncated_or_overwritten_while_it_is_sent_aborts_the_response() {
    for over in [false, true] {
        let server = serve(ALL, &[("a.bin", &noise(LARGE))]);
        let mut client = server.connect();
        client.send("GET /a.bin HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        assert!(!client.is_closed(), "it has begun");
        let file = fs::File::options().write(true).open(public(&server).join("a.bin")).unwrap();
        if over {
            (&file).write_all(&vec![0; LARGE]).unwrap();
        } else {
            file.set_len(1000).unwrap();
        }
        let (got, _) = client.rest_or_reset();
        assert!(got.len() < LARGE, "{over}: {}", got.len());
        let mut client = server.connect();
        eventually("served as it is now", || {
            let response = client.get("/a.bin");
            response.body.len() == if over { LARGE } else { 1000 }
        });
    }
}

#[test]
fn appended_bytes_do_not_abort_a_response() {
    let bytes = noise(LARGE);
    let server = serve(ALL, &[("log.bin", &bytes)]);
    let mut client = server.connect();
    client.send("GET /log.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(!client.is_closed(), "it has begun");
    let file = fs::File::options().append(true).open(public(&server).join("log.bin"));
    file.unwrap().write_all(b"more").unwrap();
    assert!(client.response().body == bytes);
}

#[test]
fn large_files_do_not_stand_in_memory() {
    let server = serve(ALL, &[]);
    let file = fs::File::create(public(&server).join("a.bin")).unwrap();
    let length: usize = 512 << 20;
    file.set_len(length as u64).unwrap();
    let mut client = server.connect();
    client.send("GET /a.bin HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(client.rest_of(length) >= length);
    assert!(server.peak_memory() < 256 << 10, "{} KiB", server.peak_memory());
}

#[test]
fn files_are_recorded_as_other_responses() {
    let large = noise(100_000);
    let mut server = start(
        "tracker: {enabled: true, body_limit: 1MiB}\n",
        &[ALL],
        &[("small.txt", b"a text"), ("large.bin", &large)],
    );
    let mut client = server.connect();
    client.get("/small.txt");
    client.get("/large.bin");
    client.request("GET", "/large.bin", &[("range", "bytes=10-19")], "");
    client.request("GET", "/small.txt", &[("if-none-match", "*")], "");
    client.request("HEAD", "/small.txt", &[], "");
    client.get("/nothing");
    server.kill();
    let recorded = transactions(&server.data());
    let told: Vec<_> = recorded.iter().map(|t| (t.status, t.response_body.len())).collect();
    assert_eq!(told[..5], [(200, 6), (200, 100_000), (206, 10), (304, 0), (200, 0)]);
    assert_eq!(recorded[0].response_body, b"a text");
    assert!(recorded[1].response_body == large);
    assert!(recorded[2].response_body == large[10..20]);
    assert_eq!((recorded[5].status, recorded[5].problem.as_str()), (404, "no-file"));
    assert!(recorded.iter().all(|t| t.outcome == Outcome::Completed));
}
