//! curl over both versions, and nginx beside it.

use super::{noise, public, serve, start};
use crate::harness::{Client, RealServer, Server, run};
use std::process::Command;

const ALL: &str = "{get: \"/*\", files: public}";

fn curl(args: &[&str]) -> Vec<u8> {
    let mut command = Command::new("curl");
    command.args(["-sk", "--max-time", "300"]).args(args);
    run(&mut command, b"")
}

#[test]
fn curl_downloads_resumes_and_asks_whether_it_has_the_newest() {
    let large = noise(5_000_000);
    let text = b"a text that is worth its compression. ".repeat(100);
    let server = start(
        "",
        &["{get: \"/*\", compress: true, files: public}"],
        &[("large.bin", &large), ("a.txt", &text)],
    );
    let (url, text_url) = (server.url("/large.bin"), server.url("/a.txt"));
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        assert!(curl(&[version, &url]) == large, "{version}");
        assert!(curl(&[version, "-r", "100-4999999", &url]) == large[100..], "{version}");
        let parts = curl(&[version, "-r", "0-9,4999990-", &url]);
        assert!(parts.windows(10).any(|w| *w == large[4_999_990..]), "{version}");
        assert!(curl(&[version, "--compressed", &text_url]) == text, "{version}");
        assert!(curl(&[version, &text_url]) == text, "{version}");
        let head = String::from_utf8(curl(&[version, "-I", &url])).unwrap().to_ascii_lowercase();
        assert!(head.contains("content-length: 5000000"), "{head}");
        // Half of it is there.
        let half = server.dir().join("half");
        std::fs::write(&half, &large[..2_000_000]).unwrap();
        curl(&[version, "-C", "-", "-o", &half.to_string_lossy(), &url]);
        assert!(std::fs::read(&half).unwrap() == large, "{version}");
        let (etag, out) = (server.dir().join("etag"), server.dir().join("out"));
        let (etag, out) = (etag.to_string_lossy(), out.to_string_lossy());
        let status = ["-o", &*out, "-w", "%{http_code}", version, &text_url];
        assert_eq!(curl(&[&["--etag-save", &*etag][..], &status].concat()), b"200");
        assert_eq!(curl(&[&["--etag-compare", &*etag][..], &status].concat()), b"304");
        assert_eq!(curl(&[&["-z", "Tue, 01 Jan 2030 00:00:00 GMT"][..], &status].concat()), b"304");
    }
}

/// What an answer says, as far as two servers can agree on it.
fn told(client: &mut Client, method: &str, path: &str, fields: &[(&str, &str)]) -> String {
    let response = client.request(method, path, fields, "");
    let header = |name: &str| response.header(name).unwrap_or("-").to_owned();
    let multipart = header("content-type").starts_with("multipart/byteranges");
    let length = if multipart {
        response.body.windows(14).filter(|w| w.eq_ignore_ascii_case(b"content-range:")).count()
    } else {
        response.body.len()
    };
    let body = if response.status >= 300 || multipart { String::new() } else { response.text() };
    let told = ["content-range", "last-modified", "content-encoding", "location"].map(|name| {
        // nginx names itself in front of a path.
        let value = header(name);
        value
            .split_once("://")
            .and_then(|(_, rest)| rest.split_once('/'))
            .map_or(value.clone(), |(_, path)| format!("/{path}"))
    });
    let length = if response.status >= 300 { 0 } else { length };
    format!("{} {told:?} multipart {multipart} {length} {body:?}", response.status)
}

fn both() -> (Server, RealServer) {
    let text = b"0123456789".repeat(10);
    let server = serve(
        ALL,
        &[("a.txt", &text), ("a.txt.gz", b"gz"), ("docs/index.html", b"docs"), ("b.txt", &text)],
    );
    let nginx = RealServer::nginx_files(&public(&server));
    (server, nginx)
}

/// Where RFC 9110 leaves no choice, and where it does and nginx's is as good as any.
#[test]
fn nginx_responds_alike() {
    let (server, nginx) = both();
    let mut weir = server.connect();
    let date = weir.get("/b.txt").header("last-modified").unwrap().to_owned();
    let range = |value: &'static str| vec![("range", value)];
    let mut cases = vec![
        ("GET", "/b.txt", vec![]),
        ("HEAD", "/b.txt", vec![]),
        ("GET", "/a.txt", vec![("accept-encoding", "gzip")]),
        ("GET", "/a.txt", vec![("accept-encoding", "gzip;q=0")]),
        ("GET", "/a.txt", vec![("accept-encoding", "br")]),
        ("GET", "/docs", vec![]),
        ("GET", "/docs/", vec![]),
        ("GET", "/nothing", vec![]),
        ("GET", "/b.txt/", vec![]),
        ("GET", "/b.txt", vec![("if-modified-since", &date)]),
        ("GET", "/b.txt", vec![("if-unmodified-since", &date)]),
        ("GET", "/b.txt", vec![("if-unmodified-since", "Sun, 06 Nov 1994 08:49:37 GMT")]),
        ("GET", "/b.txt", vec![("if-none-match", "\"x\"")]),
        ("GET", "/b.txt", vec![("if-none-match", "*")]),
        ("GET", "/b.txt", vec![("if-match", "\"x\"")]),
        ("GET", "/b.txt", vec![("if-match", "*")]),
        ("GET", "/b.txt", vec![("range", "bytes=0-9"), ("if-range", &date)]),
        ("GET", "/b.txt", vec![("range", "bytes=0-9"), ("if-range", "\"x\"")]),
        ("GET", "/b.txt", vec![("range", "bytes=0-9"), ("if-match", "\"x\"")]),
    ];
    let ranges = [
        "bytes=0-0",
        "bytes=0-",
        "bytes=10-19",
        "bytes=-5",
        "bytes=-1000",
        "bytes=90-1000",
        "bytes=99-",
        "bytes=100-",
        "bytes=1000-2000",
        "bytes=-0",
        "bytes=0-1,5-6",
        "bytes=5-6,0-1",
        "bytes=0-1, 98-,200-",
        "bytes=0-1,200-",
        "bytes=200-,300-",
        "bytes=0-9,0-9",
        "bytes=0-99,0-0",
        "bytes=0-49,50-99",
        "bytes=0-50,50-99",
        "lines=1-2",
        "bytes=-10,0-9",
    ];
    cases.extend(ranges.map(|value| ("GET", "/b.txt", range(value))));
    for (method, path, fields) in cases {
        let ours = told(&mut weir, method, path, &fields);
        // nginx ends some connections with a refusal.
        let theirs = told(&mut Client::connect(nginx.addr), method, path, &fields);
        assert_eq!(ours, theirs, "{method} {path} {fields:?}");
    }
}
