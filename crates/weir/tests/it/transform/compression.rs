//! zstd, brotli and gzip, negotiated.

use crate::harness::{Response, Server, Upstream, Weir};
use flate2::read::GzDecoder;
use std::io::Read;

fn gunzip(response: &Response) -> String {
    let mut text = String::new();
    GzDecoder::new(&response.body[..]).read_to_string(&mut text).expect("gzip of a text");
    text
}

fn server(upstream: &Upstream) -> Server {
    Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\n\
         upstreams: {{up: {{targets: [\"http://{}\"]}}}}\n\
         apis:\n  api:\n    base: /\n    compress: true\n    routes:\n      \
         - {{get: /large, reply: {{text: \"{}\"}}}}\n      \
         - {{get: /small, reply: {{text: \"small\"}}}}\n      \
         - {{get: /off, compress: false, reply: {{text: \"{}\"}}}}\n      \
         - {{get: /up, proxy: up}}\n",
        upstream.addr,
        large(),
        large(),
    ))
    .start()
}

fn large() -> String {
    "abcdefgh".repeat(1000)
}

#[test]
fn large_texts_are_compressed_for_those_who_want_it() {
    let server = server(&Upstream::by_hand());
    let mut client = server.connect();
    for accept in ["gzip", "deflate, gzip;q=0.5", "br;q=0, gzip, zstd;q=0.1", "x-gzip"] {
        let response = client.request("GET", "/large", &[("accept-encoding", accept)], "");
        assert_eq!(response.header("content-encoding"), Some("gzip"), "{accept}");
        assert_eq!(response.header("vary"), Some("accept-encoding"));
        assert!(response.body.len() < 1000);
        assert_eq!(gunzip(&response), large());
    }
    for accept in ["", "identity", "gzip;q=0", "compress", "*;q=0", "gzip;q=0.1, identity"] {
        let response = client.request("GET", "/large", &[("accept-encoding", accept)], "");
        assert_eq!(response.header("content-encoding"), None, "{accept}");
        assert_eq!(response.header("vary"), Some("accept-encoding"), "caches must know");
        assert_eq!(response.text(), large());
    }
    for path in ["/small", "/off"] {
        let response = client.request("GET", path, &[("accept-encoding", "gzip")], "");
        assert_eq!(response.header("content-encoding"), None, "{path}");
    }
    let head = client.request("HEAD", "/large", &[("accept-encoding", "gzip")], "");
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[test]
fn the_coding_that_is_wanted_most_is_sent_and_nothing_else() {
    let server = server(&Upstream::by_hand());
    let mut client = server.connect();
    let mut get =
        |accept: &str| client.request("GET", "/large", &[("accept-encoding", accept)], "");
    for (accept, coding) in [
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip;q=0.8, br", "br"),
        ("br;q=0.5, zstd;q=0.7", "zstd"),
        ("*", "zstd"),
    ] {
        let response = get(accept);
        assert_eq!(response.header("content-encoding"), Some(coding), "{accept}");
        assert_eq!(response.header("vary"), Some("accept-encoding"));
        let plain = match coding {
            "zstd" => zstd::decode_all(&response.body[..]).expect("zstd"),
            _ => {
                let mut plain = Vec::new();
                let mut decoder = brotli_decompressor::Decompressor::new(&response.body[..], 4096);
                decoder.read_to_end(&mut plain).expect("brotli");
                plain
            }
        };
        assert_eq!(String::from_utf8(plain).unwrap(), large(), "{accept}");
        assert!(response.body.len() < 1000);
    }
    let server = Weir::new(&format!(
        "listen: [{{addr: \"127.0.0.1:0\"}}]\nworkers: 1\napis:\n  api:\n    base: /\n    \
         compress: {{codings: [gzip, br], level: 4}}\n    routes: [{{get: /, reply: {{text: \"{}\"}}}}]\n",
        large()
    ))
    .start();
    for (accept, coding) in [("zstd", None), ("br, gzip, zstd", Some("gzip")), ("br", Some("br"))] {
        let response = server.connect().request("GET", "/", &[("accept-encoding", accept)], "");
        assert_eq!(response.header("content-encoding"), coding, "{accept}");
    }
}

#[test]
fn responses_of_upstreams_are_compressed_where_that_does_no_harm() {
    let upstream = Upstream::by_hand();
    let server = server(&upstream);
    let response = |fields: &str, chunked: bool| {
        let mut client = server.connect();
        client.send("GET /up HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n");
        let mut peer = upstream.accept();
        peer.head();
        let body = large();
        let (framing, body) = match chunked {
            true => {
                ("Transfer-Encoding: chunked".to_owned(), format!("1f40\r\n{body}\r\n0\r\n\r\n"))
            }
            false => (format!("Content-Length: {}", body.len()), body),
        };
        peer.send(format!(
            "HTTP/1.1 200 OK\r\n{framing}\r\nConnection: close\r\n{fields}\r\n\r\n{body}"
        ));
        client.response()
    };
    for chunked in [true, false] {
        let text = response("Content-Type: text/plain\r\nETag: \"1\"", chunked);
        assert_eq!(text.header("content-encoding"), Some("gzip"));
        assert_eq!(text.header("etag"), Some("W/\"1\""), "not the same bytes any more");
        assert_eq!(gunzip(&text), large());
    }
    for fields in [
        "Content-Type: image/png",
        "Content-Type: text/plain\r\nContent-Encoding: br",
        "Content-Type: text/event-stream",
        "Content-Type: text/plain\r\nCache-Control: public, no-transform",
        "Content-Type: text/plain\r\nContent-Digest: sha-256=:AA==:",
    ] {
        let left_alone = response(fields, false);
        assert_ne!(left_alone.header("content-encoding"), Some("gzip"), "{fields}");
        assert_eq!(left_alone.text(), large(), "{fields}");
    }
}
