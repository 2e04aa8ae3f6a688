//! Compressed forms: siblings, and what weir compresses itself.

use super::{noise, public, put, serve};
use crate::harness::{Response, eventually};
use flate2::read::GzDecoder;
use std::io::Read;

fn gunzip(response: &Response) -> Vec<u8> {
    assert_eq!(response.header("content-encoding"), Some("gzip"));
    let mut bytes = Vec::new();
    GzDecoder::new(&response.body[..]).read_to_end(&mut bytes).expect("gzip");
    bytes
}

#[test]
fn the_sibling_that_a_client_prefers_is_sent() {
    let server = serve(
        "{get: \"/*\", files: public}",
        &[
            ("a.js", b"plain"),
            ("a.js.br", b"br"),
            ("a.js.zst", b"zst"),
            ("a.js.gz", b"gz"),
            ("b.js", b"plain"),
            ("b.js.gz", b"gz"),
            ("index.html", b"plain"),
            ("index.html.br", b"br"),
            ("c.js.gz", b"gz"),
        ],
    );
    let mut client = server.connect();
    let mut tags = std::collections::HashSet::new();
    for (path, accept, body) in [
        ("/a.js", "gzip, deflate, br, zstd", "br"),
        ("/a.js", "gzip, deflate, zstd", "zst"),
        ("/a.js", "gzip", "gz"),
        ("/a.js", "GZIP;q=1.0, br;q=0.9", "gz"),
        ("/a.js", "*", "br"),
        ("/a.js", "*, br;q=0", "zst"),
        ("/a.js", "gzip;q=0, br;q=0, zstd;q=0", "plain"),
        ("/a.js", "identity, gzip;q=0.5", "plain"),
        ("/a.js", "identity;q=0.5, gzip;q=0.5", "gz"),
        ("/a.js", "", "plain"),
        ("/b.js", "br, gzip;q=0.1", "gz"),
        ("/b.js", "br", "plain"),
        ("/", "br", "br"),
    ] {
        let fields = [("accept-encoding", accept)];
        let response = client.request("GET", path, &fields, "");
        assert_eq!(response.text(), body, "{path} {accept}");
        let coding = match body {
            "plain" => None,
            "zst" => Some("zstd"),
            "gz" => Some("gzip"),
            other => Some(other),
        };
        assert_eq!(response.header("content-encoding"), coding, "{path} {accept}");
        assert_eq!(response.header("vary"), Some("accept-encoding"), "{path} {accept}");
        let text = if path == "/" { "text/html" } else { "text/javascript" };
        assert!(response.header("content-type").unwrap().starts_with(text));
        let tag = response.header("etag").unwrap().to_owned();
        let again = [("accept-encoding", accept), ("if-none-match", tag.as_str())];
        let not_modified = client.request("GET", path, &again, "");
        assert_eq!(
            (not_modified.status, not_modified.header("vary")),
            (304, Some("accept-encoding"))
        );
        assert_eq!(not_modified.header("content-encoding"), None);
        let head = client.request("HEAD", path, &fields, "");
        for name in ["content-encoding", "content-length", "etag"] {
            assert_eq!(head.header(name), response.header(name), "{path} {accept}");
        }
        if path == "/a.js" {
            tags.insert(tag);
        }
    }
    assert_eq!(tags.len(), 4, "each form has a tag of its own: {tags:?}");
    let part = [("accept-encoding", "zstd"), ("range", "bytes=1-")];
    let part = client.request("GET", "/a.js", &part, "");
    assert_eq!((part.status, part.text().as_str()), (206, "st"), "ranges count bytes of the form");
    assert_eq!(part.header("content-range"), Some("bytes 1-2/3"));
    let lone = client.request("GET", "/c.js", &[("accept-encoding", "gzip")], "");
    assert_eq!(lone.status, 404, "a sibling of nothing");
    let itself = client.request("GET", "/c.js.gz", &[("accept-encoding", "gzip")], "");
    assert_eq!(itself.header("content-encoding"), None);
    assert_eq!(itself.header("content-type"), Some("application/gzip"));
}

#[test]
fn siblings_can_be_left_alone() {
    let server = serve(
        "{get: \"/*\", files: {root: public, precompressed: false}}",
        &[("a.js", b"plain"), ("a.js.gz", b"gz")],
    );
    let response = server.connect().request("GET", "/a.js", &[("accept-encoding", "gzip")], "");
    assert_eq!((response.text().as_str(), response.header("vary")), ("plain", None));
}

/// In memory (4 KB), on a thread (300 KB), as it is sent (3 MB): one answer.
#[test]
fn weir_compresses_what_has_no_sibling() {
    let text = |length: usize| -> Vec<u8> {
        b"{\"a\": [1, 2, 3]}\n".iter().copied().cycle().take(length).collect()
    };
    let (small, middle, large) = (text(4_000), text(300_000), text(3_000_000));
    let server = serve(
        "{get: \"/*\", compress: true, files: public}",
        &[
            ("small.json", &small),
            ("middle.json", &middle),
            ("large.json", &large),
            ("tiny.json", b"{}"),
            ("noise.png", &noise(4_000)),
        ],
    );
    let mut client = server.connect();
    for (path, bytes) in
        [("/small.json", &small), ("/middle.json", &middle), ("/large.json", &large)]
    {
        let plain = client.get(path);
        assert!(plain.body == *bytes && plain.header("vary") == Some("accept-encoding"));
        let tag = plain.header("etag").unwrap().to_owned();
        for _ in 0..3 {
            let response = client.request("GET", path, &[("accept-encoding", "gzip")], "");
            assert!(gunzip(&response) == *bytes, "{path}");
            assert_eq!(response.header("vary"), Some("accept-encoding"));
            assert_eq!(response.header("etag"), Some(&*format!("W/{tag}")), "{path}");
            assert_eq!(response.header("accept-ranges"), None);
        }
        let kept = client.request("GET", path, &[("accept-encoding", "gzip")], "");
        let length = kept.header("content-length");
        assert_eq!(length.is_some(), path != "/large.json", "kept: its length is known");
        for tag in [format!("W/{tag}"), tag.clone()] {
            let fields = [("accept-encoding", "gzip"), ("if-none-match", tag.as_str())];
            assert_eq!(client.request("GET", path, &fields, "").status, 304);
        }
        let fields = [("accept-encoding", "gzip"), ("range", "bytes=0-99")];
        let part = client.request("GET", path, &fields, "");
        assert_eq!((part.status, part.header("content-encoding")), (206, None));
        assert!(part.body == bytes[..100], "a part of the plain file");
        assert_eq!(part.header("etag"), Some(tag.as_str()));
        assert_eq!(part.header("vary"), Some("accept-encoding"));
    }
    let head = client.request("HEAD", "/small.json", &[("accept-encoding", "gzip")], "");
    assert_eq!(head.header("content-encoding"), Some("gzip"));
    for path in ["/tiny.json", "/noise.png"] {
        let response = client.request("GET", path, &[("accept-encoding", "gzip")], "");
        assert_eq!(response.header("content-encoding"), None, "{path}");
        assert_eq!(response.header("vary"), None, "{path}");
    }
}

#[test]
fn a_compressed_form_follows_its_file() {
    let server = serve(
        "{get: \"/*\", compress: {min_size: 1B}, files: public}",
        &[("a.txt", &[b'a'; 3000]), ("b.txt", &[b'b'; 100]), ("b.txt.gz", b"old")],
    );
    let mut client = server.connect();
    let mut ask = |path: &str| client.request("GET", path, &[("accept-encoding", "gzip")], "");
    assert_eq!(gunzip(&ask("/a.txt")), [b'a'; 3000]);
    server.replace("public/a.txt", [b'c'; 2000]);
    eventually("the new file", || gunzip(&ask("/a.txt")) == [b'c'; 2000]);
    assert_eq!(ask("/b.txt").text(), "old");
    // Newer than its sibling by an hour.
    server.replace("public/b.txt", [b'd'; 100]);
    eventually("the sibling is of an earlier file", || {
        let response = ask("/b.txt");
        response.body != b"old" && gunzip(&response) == [b'd'; 100]
    });
    put(&public(&server), "b.txt", &[b'e'; 90]);
    eventually("as old as its sibling again", || ask("/b.txt").text() == "old");
}
