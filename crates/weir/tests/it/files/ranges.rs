//! Ranges (RFC 9110 section 14), of files in memory and of files that are read in pieces.

use super::{noise, serve};
use crate::harness::{Client, Response};

const ALL: &str = "{get: \"/*\", files: public}";
const SMALL: usize = 1000;
const LARGE: usize = 300_000;

fn ranged(client: &mut Client, path: &str, range: &str) -> Response {
    client.request("GET", path, &[("range", range)], "")
}

/// The parts of a multipart/byteranges body: Content-Type, Content-Range and bytes of each.
fn parts(response: &Response) -> Vec<(String, String, Vec<u8>)> {
    let content_type = response.header("content-type").expect("a type");
    let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").expect("parts");
    let mut rest = response.body.as_slice();
    let mut parts = Vec::new();
    let mut eat = |expected: &str| {
        let eaten = rest.strip_prefix(expected.as_bytes());
        rest = eaten.unwrap_or_else(|| panic!("no {expected:?} after {} parts", parts.len()));
        let line = |rest: &mut &[u8], name: &str| {
            let end = rest.windows(2).position(|pair| pair == b"\r\n").expect("a line");
            let line = String::from_utf8_lossy(&rest[..end]).into_owned();
            *rest = &rest[end + 2..];
            line.strip_prefix(name).expect("this header").to_owned()
        };
        if rest.starts_with(b"--") {
            return false;
        }
        rest = rest.strip_prefix(b"\r\n").expect("a line break");
        let content_type = line(&mut rest, "content-type: ");
        let range = line(&mut rest, "content-range: ");
        rest = rest.strip_prefix(b"\r\n").expect("an empty line");
        let (bounds, _) = range.strip_prefix("bytes ").and_then(|r| r.split_once('/')).unwrap();
        let (first, last) = bounds.split_once('-').unwrap();
        let length = last.parse::<usize>().unwrap() + 1 - first.parse::<usize>().unwrap();
        let bytes = rest[..length].to_vec();
        rest = &rest[length..];
        parts.push((content_type, range, bytes));
        true
    };
    let mut more = eat(&format!("--{boundary}"));
    while more {
        more = eat(&format!("\r\n--{boundary}"));
    }
    parts
}

#[test]
fn one_range_is_a_part() {
    let (small, large) = (noise(SMALL), noise(LARGE));
    let server = serve(ALL, &[("small.bin", &small), ("large.bin", &large)]);
    let mut client = server.connect();
    for (path, bytes) in [("/small.bin", &small), ("/large.bin", &large)] {
        let length = bytes.len();
        for (range, first, end) in [
            ("bytes=0-0", 0, 1),
            ("bytes=0-99", 0, 100),
            ("bytes=500-", 500, length),
            ("bytes=-7", length - 7, length),
            ("bytes=0-", 0, length),
            ("bytes=900-99999999", 900, length),
            ("bytes=-99999999", 0, length),
            ("bytes=99-99,99999999-", 99, 100),
        ] {
            let part = ranged(&mut client, path, range);
            assert_eq!(part.status, 206, "{path} {range}");
            let told = format!("bytes {first}-{}/{length}", end - 1);
            assert_eq!(part.header("content-range"), Some(told.as_str()), "{path} {range}");
            assert_eq!(part.header("content-type"), Some("application/octet-stream"));
            assert!(part.header("etag").is_some() && part.header("last-modified").is_some());
            assert!(part.body == bytes[first..end], "{path} {range}");
        }
        let none = ranged(&mut client, path, "bytes=99999999-");
        assert_eq!(none.status, 416);
        let told = format!("bytes */{length}");
        assert_eq!(none.header("content-range"), Some(told.as_str()));
        assert_eq!(none.json()["type"], "urn:weir:problem:range-not-satisfiable");
        for ignored in ["lines=0-1", "bytes=x", "bytes=5-2", "bytes=0-,-5", "bytes"] {
            let whole = ranged(&mut client, path, ignored);
            assert_eq!((whole.status, whole.body.len()), (200, length), "{ignored}");
        }
    }
}

#[test]
fn several_ranges_are_several_parts() {
    let (small, large) = (noise(SMALL), noise(LARGE));
    let server = serve(ALL, &[("small.json", &small), ("large.json", &large)]);
    let mut client = server.connect();
    for (path, bytes) in [("/small.json", &small), ("/large.json", &large)] {
        let length = bytes.len();
        let response = ranged(&mut client, path, "bytes=10-19, -300, 0-0 ,99999999-");
        assert_eq!(response.status, 206);
        assert_eq!(response.header("content-range"), None);
        let expected = [10..20, length - 300..length, 0..1].map(|range| {
            let told = format!("bytes {}-{}/{length}", range.start, range.end - 1);
            ("application/json".to_owned(), told, bytes[range].to_vec())
        });
        assert!(parts(&response) == expected, "{path}: {response:?}");
        let many: Vec<String> = (0..64).map(|n| format!("{n}-{n}")).collect();
        let response = ranged(&mut client, path, &format!("bytes={}", many.join(",")));
        assert_eq!(parts(&response).len(), 64);
        let response = ranged(&mut client, path, &format!("bytes={},70-71", many.join(",")));
        assert_eq!((response.status, response.body.len()), (200, length), "too many to be meant");
    }
    // Longer than one piece of a read.
    let response = ranged(&mut client, "/large.json", "bytes=1-99999,150000-299998");
    let parts = parts(&response);
    assert!(parts[0].2 == large[1..100_000] && parts[1].2 == large[150_000..299_999]);
}

#[test]
fn ranges_hold_under_conditions_and_for_get_only() {
    let small = noise(SMALL);
    let server = serve(ALL, &[("a.bin", &small), ("empty.bin", b"")]);
    let mut client = server.connect();
    let whole = client.get("/a.bin");
    let (tag, date) = (whole.header("etag").unwrap(), whole.header("last-modified").unwrap());
    let weak = format!("W/{tag}");
    for (validator, status) in [
        (tag, 206),
        (date, 206),
        (weak.as_str(), 200),
        ("\"x\"", 200),
        ("Sun, 06 Nov 1994 08:49:37 GMT", 200),
        ("", 200),
    ] {
        let fields = [("range", "bytes=0-9"), ("if-range", validator)];
        assert_eq!(client.request("GET", "/a.bin", &fields, "").status, status, "{validator}");
    }
    // What is not there is no part of what is meant (section 14.2: only if all else is 200).
    let fields = [("range", "bytes=99999-"), ("if-range", "\"x\"")];
    assert_eq!(client.request("GET", "/a.bin", &fields, "").status, 200);
    let fields = [("range", "bytes=0-9"), ("if-none-match", tag)];
    assert_eq!(client.request("GET", "/a.bin", &fields, "").status, 304);
    let fields = [("range", "bytes=0-9"), ("if-match", "\"x\"")];
    assert_eq!(client.request("GET", "/a.bin", &fields, "").status, 412);
    let fields = [("range", "bytes=0-9"), ("range", "bytes=3-4")];
    assert_eq!(client.request("GET", "/a.bin", &fields, "").status, 200, "which one is meant?");
    let head = client.request("HEAD", "/a.bin", &[("range", "bytes=0-9")], "");
    assert_eq!((head.status, head.header("content-length")), (200, Some("1000")));
    for (range, status) in [("bytes=0-", 416), ("bytes=-1", 200), ("bytes=0-0", 416)] {
        assert_eq!(ranged(&mut client, "/empty.bin", range).status, status, "{range}");
    }
}
