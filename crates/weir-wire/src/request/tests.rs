//! Every request that is refused, with its reason, and every form that is accepted.

use super::{Method, RequestHead};
use crate::scan::{HeadError, HeadLimits, Scan};
use crate::{Framing, Version};

fn parse(text: &[u8]) -> Result<RequestHead, HeadError> {
    let mut head = RequestHead::default();
    let taken = head.parse(text, &mut Scan::new(), &HeadLimits::default())?;
    assert_eq!(taken, Some(text.len()), "not the whole head");
    Ok(head)
}

/// A GET on HTTP/1.1 with these lines after its Host.
fn with(lines: &str) -> Result<RequestHead, HeadError> {
    parse(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").as_bytes())
}

#[test]
fn ambiguous_framing_is_refused() {
    use HeadError::{EncodingInvalid, LengthAndEncoding, LengthInvalid, LengthRepeated};
    for (lines, error) in [
        ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", LengthAndEncoding),
        ("transfer-encoding: chunked\r\ncontent-length: 5\r\n", LengthAndEncoding),
        ("Content-Length: 5\r\nTransfer-Encoding: identity\r\n", LengthAndEncoding),
        ("Content-Length: 0\r\nTransfer-Encoding:\r\n", LengthAndEncoding),
        ("Content-Length: 5\r\nContent-Length: 5\r\n", LengthRepeated),
        ("Content-Length: 5\r\nCONTENT-LENGTH: 6\r\n", LengthRepeated),
        ("Content-Length: 5, 5\r\n", LengthInvalid),
        ("Content-Length: 5,6\r\n", LengthInvalid),
        ("Content-Length:\r\n", LengthInvalid),
        ("Content-Length: +5\r\n", LengthInvalid),
        ("Content-Length: -5\r\n", LengthInvalid),
        ("Content-Length: 0x5\r\n", LengthInvalid),
        ("Content-Length: 5 0\r\n", LengthInvalid),
        ("Content-Length: 5;\r\n", LengthInvalid),
        ("Content-Length: \"5\"\r\n", LengthInvalid),
        ("Content-Length: 5.0\r\n", LengthInvalid),
        ("Content-Length: ٥\r\n", LengthInvalid),
        ("Content-Length: 10000000000000000000\r\n", LengthInvalid),
        ("Content-Length: 18446744073709551621\r\n", LengthInvalid),
        ("Transfer-Encoding: identity\r\n", EncodingInvalid),
        ("Transfer-Encoding:\r\n", EncodingInvalid),
        ("Transfer-Encoding: gzip, chunked\r\n", EncodingInvalid),
        ("Transfer-Encoding: chunked, identity\r\n", EncodingInvalid),
        ("Transfer-Encoding: chunked, chunked\r\n", EncodingInvalid),
        ("Transfer-Encoding: chunked,\r\n", EncodingInvalid),
        ("Transfer-Encoding: ,chunked\r\n", EncodingInvalid),
        ("Transfer-Encoding: xchunked\r\n", EncodingInvalid),
        ("Transfer-Encoding: chunked;q=1\r\n", EncodingInvalid),
        ("Transfer-Encoding: \"chunked\"\r\n", EncodingInvalid),
        ("Transfer-Encoding: chunked\u{a0}\r\n", EncodingInvalid),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", EncodingInvalid),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", EncodingInvalid),
        ("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", EncodingInvalid),
    ] {
        assert_eq!(with(lines).unwrap_err(), error, "{lines:?}");
    }
    let old = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(parse(old).unwrap_err(), EncodingInvalid);
}

#[test]
fn bad_lines_are_refused() {
    use HeadError::{BareCr, BareLf, FieldName, FieldValue, Folded};
    for (lines, error) in [
        ("A: b\n", BareLf),
        ("A: b\nB: c\r\n", BareLf),
        ("A: b\rB: c\r\n", BareCr),
        ("A: b\r\r\n", BareCr),
        ("A: b\r\n c\r\n", Folded),
        ("A: b\r\n\tc\r\n", Folded),
        ("A: b\r\n \r\n", Folded),
        ("A : b\r\n", FieldName),
        ("A\t: b\r\n", FieldName),
        ("Content-Length : 5\r\n", FieldName),
        ("Transfer-Encoding : chunked\r\n", FieldName),
        (": b\r\n", FieldName),
        ("A\r\n", FieldName),
        ("A b: c\r\n", FieldName),
        ("A\0: b\r\n", FieldName),
        ("A\x01: b\r\n", FieldName),
        ("\x0bA: b\r\n", FieldName),
        ("A\x7f: b\r\n", FieldName),
        ("(A): b\r\n", FieldName),
        ("A@: b\r\n", FieldName),
        ("Ä: b\r\n", FieldName),
        ("A: b\0\r\n", FieldValue),
        ("A: \0\r\n", FieldValue),
        ("A: b\x01c\r\n", FieldValue),
        ("A: b\x0bc\r\n", FieldValue),
        ("A: b\x1fc\r\n", FieldValue),
        ("A: b\x7fc\r\n", FieldValue),
        ("Transfer-Encoding: \x0bchunked\r\n", FieldValue),
        ("Transfer-Encoding:\x0cchunked\r\n", FieldValue),
    ] {
        assert_eq!(with(lines).unwrap_err(), error, "{lines:?}");
    }
}

#[test]
fn every_control_character_in_a_value_is_refused_but_the_tab() {
    for byte in (0u8..32).chain([127]) {
        let mut text = b"GET / HTTP/1.1\r\nHost: a\r\nA: b".to_vec();
        text.extend_from_slice(&[byte, b'c', b'\r', b'\n', b'\r', b'\n']);
        assert_eq!(parse(&text).is_ok(), byte == b'\t', "byte {byte:#04x}");
    }
    let every_other: Vec<u8> = (32..127).chain(128..=255).collect();
    let mut text = b"GET / HTTP/1.1\r\nHost: a\r\nA: x".to_vec();
    text.extend_from_slice(&every_other);
    text.extend_from_slice(b"x\r\n\r\n");
    assert_eq!(parse(&text).unwrap().headers.get("a").unwrap().len(), every_other.len() + 2);
}

#[test]
fn hosts_are_judged() {
    use HeadError::{HostInvalid, HostMissing, HostRepeated};
    for (lines, error) in [
        ("", HostMissing),
        ("Host: a\r\nHost: a\r\n", HostRepeated),
        ("Host: a\r\nhost: b\r\n", HostRepeated),
        ("Host:\r\n", HostInvalid),
        ("Host: a b\r\n", HostInvalid),
        ("Host: a, b\r\n", HostInvalid),
        ("Host: a/b\r\n", HostInvalid),
        ("Host: a?b\r\n", HostInvalid),
        ("Host: a\\b\r\n", HostInvalid),
        ("Host: me@a\r\n", HostInvalid),
        ("Host: http://a\r\n", HostInvalid),
        ("Host: a:b\r\n", HostInvalid),
        ("Host: a:1:2\r\n", HostInvalid),
        ("Host: a:65536\r\n", HostInvalid),
        ("Host: a:000080\r\n", HostInvalid),
        ("Host: a:-1\r\n", HostInvalid),
        ("Host: :80\r\n", HostInvalid),
        ("Host: ::1\r\n", HostInvalid),
        ("Host: [::1\r\n", HostInvalid),
        ("Host: []\r\n", HostInvalid),
        ("Host: [::1]80\r\n", HostInvalid),
        ("Host: [::1]:b\r\n", HostInvalid),
        ("Host: [127.0.0.1]\r\n", HostInvalid),
        ("Host: [v1.a]\r\n", HostInvalid),
        ("Host: [fe80::1%25eth0]\r\n", HostInvalid),
        ("Host: ä\r\n", HostInvalid),
        ("Host: a\u{ff0e}b\r\n", HostInvalid),
    ] {
        let text = format!("GET / HTTP/1.1\r\n{lines}\r\n");
        assert_eq!(parse(text.as_bytes()).unwrap_err(), error, "{lines:?}");
        // Of these, HTTP/1.0 may only leave it out.
        let old = parse(format!("GET / HTTP/1.0\r\n{lines}\r\n").as_bytes());
        assert_eq!(old.is_ok(), lines.is_empty(), "{lines:?} on HTTP/1.0");
    }
    let long = format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", "a".repeat(256));
    assert_eq!(parse(long.as_bytes()).unwrap_err(), HostInvalid);
    for host in [
        "a",
        "a.b-c.example.",
        "a_b",
        "127.0.0.1:8080",
        "a:",
        "a:0",
        "a:65535",
        "[::1]",
        "[::1]:80",
    ] {
        let text = format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n");
        assert_eq!(parse(text.as_bytes()).unwrap().authority(), host);
    }
}

#[test]
fn connection_has_at_most_so_many_options() {
    let with = |count: usize, lines: usize| {
        let options = vec!["x-a"; count / lines].join(", ");
        let lines = format!("Connection: {options}\r\n").repeat(lines);
        parse(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").as_bytes()).map(|_| ())
    };
    assert_eq!(with(32, 1), Ok(()));
    assert_eq!(with(32, 4), Ok(()));
    for (count, lines) in [(33, 1), (36, 4), (5000, 1)] {
        assert_eq!(with(count, lines), Err(HeadError::ConnectionOptions), "{count} in {lines}");
    }
}

#[test]
fn bad_request_lines_are_refused() {
    use HeadError::{HostInvalid, StartLine, Target, Version};
    for (line, error) in [
        ("GET /", StartLine),
        ("GET", StartLine),
        ("GET  / HTTP/1.1", StartLine),
        ("GET\t/ HTTP/1.1", StartLine),
        ("GET / HTTP/1.1 ", StartLine),
        ("GET / HTTP/1.1 HTTP/1.1", StartLine),
        ("GET /\x01 HTTP/1.1", StartLine),
        ("GET /\0 HTTP/1.1", StartLine),
        ("GET /\x7f HTTP/1.1", StartLine),
        ("G(T / HTTP/1.1", StartLine),
        ("GE\0T / HTTP/1.1", StartLine),
        ("GET /a b HTTP/1.1", Version),
        ("GET /  HTTP/1.1", Version),
        ("GET / HTTP/1.2", Version),
        ("GET / HTTP/2.0", Version),
        ("GET / HTTP/0.9", Version),
        ("GET / HTTP/01.1", Version),
        ("GET / HTTP/1.10", StartLine),
        ("GET / http/1.1", Version),
        ("GET / HTTP/1,1", Version),
        ("GET / ICY/1.1", Version),
        ("PRI * HTTP/2.0", Version),
        ("GET * HTTP/1.1", Target),
        ("GET a HTTP/1.1", Target),
        ("GET ?a HTTP/1.1", Target),
        ("GET /a#b HTTP/1.1", Target),
        ("GET /ä HTTP/1.1", Target),
        ("GET a:80 HTTP/1.1", Target),
        ("GET ftp://a/ HTTP/1.1", Target),
        ("GET //: HTTP/1.1\r\nX", HeadError::FieldName),
        ("GET http://me@a/ HTTP/1.1", HostInvalid),
        ("GET http:///a HTTP/1.1", HostInvalid),
        ("GET http://a:x/ HTTP/1.1", HostInvalid),
        ("CONNECT / HTTP/1.1", Target),
        ("CONNECT a HTTP/1.1", Target),
        ("CONNECT a: HTTP/1.1", Target),
        ("CONNECT [::1] HTTP/1.1", Target),
        ("CONNECT http://a:80 HTTP/1.1", Target),
    ] {
        let text = format!("{line}\r\nHost: a\r\n\r\n");
        assert_eq!(parse(text.as_bytes()).unwrap_err(), error, "{line:?}");
    }
}

#[test]
fn limits_are_kept_at_their_exact_value() {
    let limits = HeadLimits { bytes: 200, fields: 2, target: 20 };
    let parse = |target: usize, fields: usize| {
        let text = format!(
            "GET /{} HTTP/1.1\r\nHost: a\r\n{}\r\n",
            "a".repeat(target - 1),
            "A: b\r\n".repeat(fields - 1)
        );
        RequestHead::default().parse(text.as_bytes(), &mut Scan::new(), &limits)
    };
    assert!(parse(20, 2).is_ok());
    assert_eq!(parse(21, 2), Err(HeadError::TargetTooLong));
    assert_eq!(parse(20, 3), Err(HeadError::TooManyFields));
    assert_eq!(parse(300, 1), Err(HeadError::TargetTooLong));
}

#[test]
fn a_limit_over_the_table_is_no_way_around_it() {
    let limits = HeadLimits { bytes: 1 << 20, fields: 10_000, target: 100 };
    let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(300));
    let parsed = RequestHead::default().parse(text.as_bytes(), &mut Scan::new(), &limits);
    assert_eq!(parsed, Err(HeadError::TooManyFields));
}

#[test]
fn targets_are_taken_apart() {
    for (line, target, path, query, authority) in [
        ("GET / ", "/", "/", None, "a"),
        ("GET /x/y?q=1?2 ", "/x/y?q=1?2", "/x/y", Some("q=1?2"), "a"),
        ("GET /? ", "/?", "/", Some(""), "a"),
        ("GET //b/c ", "//b/c", "//b/c", None, "a"),
        ("GET /http://b/c ", "/http://b/c", "/http://b/c", None, "a"),
        ("GET http://b ", "/", "/", None, "b"),
        ("GET http://b:81/c?d ", "/c?d", "/c", Some("d"), "b:81"),
        ("GET HTTPS://b?d ", "/?d", "/", Some("d"), "b"),
        ("GET http://[::1]:81/c ", "/c", "/c", None, "[::1]:81"),
        ("OPTIONS * ", "*", "*", None, "a"),
        ("OPTIONS http://b ", "*", "*", None, "b"),
        ("OPTIONS http://b/ ", "/", "/", None, "b"),
        ("CONNECT b:443 ", "/", "/", None, "b:443"),
    ] {
        let head = parse(format!("{line}HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        assert_eq!(
            (head.target(), head.path(), head.query(), head.authority()),
            (target, path, query, authority),
            "{line:?}"
        );
    }
}

#[test]
fn methods_are_recognised_and_case_counts() {
    for (name, method) in [
        ("GET", Method::Get),
        ("HEAD", Method::Head),
        ("POST", Method::Post),
        ("PUT", Method::Put),
        ("DELETE", Method::Delete),
        ("PATCH", Method::Patch),
        ("OPTIONS", Method::Options),
        ("TRACE", Method::Trace),
        ("get", Method::Other),
        ("M-SEARCH", Method::Other),
    ] {
        let head = parse(format!("{name} / HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
        assert_eq!((head.method, head.method_name()), (method, name));
    }
    assert!(Method::Put.is_idempotent() && Method::Get.is_idempotent());
    assert!(!Method::Post.is_idempotent() && !Method::Patch.is_idempotent());
    assert!(!Method::Other.is_idempotent());
}

#[test]
fn bodies_are_announced() {
    for (lines, framing) in [
        ("", Framing::None),
        ("Content-Length: 0\r\n", Framing::Length(0)),
        ("content-length:5\r\n", Framing::Length(5)),
        ("Content-Length: \t 007 \t\r\n", Framing::Length(7)),
        ("Content-Length: 9999999999999999999\r\n", Framing::Length(9_999_999_999_999_999_999)),
        ("Transfer-Encoding: chunked\r\n", Framing::Chunked),
        ("TRANSFER-ENCODING:CHUNKED \r\n", Framing::Chunked),
        ("X-Content-Length: 5\r\nTransfer-Encodin: gzip\r\n", Framing::None),
    ] {
        assert_eq!(with(lines).unwrap().framing, framing, "{lines:?}");
    }
}

#[test]
fn connections_are_kept_as_each_version_says() {
    for (line, lines, kept) in [
        ("GET / HTTP/1.1", "", true),
        ("GET / HTTP/1.1", "Connection: keep-alive\r\n", true),
        ("GET / HTTP/1.1", "Connection: close\r\n", false),
        ("GET / HTTP/1.1", "Connection: x, CLOSE\r\n", false),
        ("GET / HTTP/1.1", "Connection: keep-alive\r\nConnection: close\r\n", false),
        ("GET / HTTP/1.0", "", false),
        ("GET / HTTP/1.0", "Connection: Keep-Alive\r\n", true),
        ("GET / HTTP/1.0", "Connection: keep-alive, close\r\n", false),
        ("GET / HTTP/1.0", "Proxy-Connection: keep-alive\r\n", false),
    ] {
        let head = parse(format!("{line}\r\nHost: a\r\n{lines}\r\n").as_bytes()).unwrap();
        assert_eq!(head.keep_alive, kept, "{line} {lines:?}");
    }
}

#[test]
fn expectations_are_told() {
    for (line, lines, told) in [
        ("POST / HTTP/1.1", "", None),
        ("POST / HTTP/1.1", "Expect: 100-continue\r\n", Some(true)),
        ("POST / HTTP/1.1", "Expect: 100-Continue\r\n", Some(true)),
        ("POST / HTTP/1.1", "Expect: 200-ok\r\n", Some(false)),
        ("POST / HTTP/1.1", "Expect: 100-continue, x\r\n", Some(false)),
        ("POST / HTTP/1.1", "Expect: 100-continue\r\nExpect: x\r\n", Some(false)),
        ("POST / HTTP/1.1", "Expect: x\r\nExpect: 100-continue\r\n", Some(false)),
        ("POST / HTTP/1.0", "Expect: 100-continue\r\n", None),
    ] {
        let head = parse(format!("{line}\r\nHost: a\r\n{lines}\r\n").as_bytes()).unwrap();
        assert_eq!(head.expects_continue(), told, "{line} {lines:?}");
    }
}

#[test]
fn a_head_as_ab_sends_it() {
    let head = parse(
        b"GET /api HTTP/1.0\r\nConnection: Keep-Alive\r\nHost: localhost:8080\r\n\
          User-Agent: ApacheBench/2.3\r\nAccept: */*\r\n\r\n",
    )
    .unwrap();
    assert_eq!((head.version, head.keep_alive), (Version::Http10, true));
    assert_eq!(head.headers.get("user-agent"), Some(&b"ApacheBench/2.3"[..]));
}

#[test]
fn a_refused_head_leaves_nothing_of_the_one_before() {
    let mut head = parse(
        b"HEAD /secret HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\nContent-Length: 5\r\n\r\n",
    )
    .unwrap();
    for bad in ["GET /\n", "GET /\r\n\r\n", "GET /x HTTP/1.1\r\n\r\n"] {
        assert!(head.parse(bad.as_bytes(), &mut Scan::new(), &HeadLimits::default()).is_err());
        assert_eq!((head.method, head.method_name()), (Method::Get, "GET"), "{bad:?}");
        assert_eq!((head.target(), head.authority()), ("/", ""), "{bad:?}");
        assert!(head.headers.is_empty() && head.framing == Framing::None && !head.keep_alive);
    }
}

#[test]
fn debug_output_tells_no_secret() {
    let head =
        parse(b"GET /a?key=s3cret HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer s3cret\r\n\r\n")
            .unwrap();
    let told = format!("{head:?}");
    assert!(told.contains("Authorization") && !told.contains("s3cret"), "{told}");
}

#[test]
fn a_head_can_be_built_without_bytes() {
    let mut head = RequestHead::default();
    head.set_line("PUT", "/a?b", "c:1");
    assert_eq!((head.method, head.method_name()), (Method::Put, "PUT"));
    assert_eq!((head.path(), head.query(), head.authority()), ("/a", Some("b"), "c:1"));
    head.set_path("/longer");
    assert_eq!((head.target(), head.method_name()), ("/longer?b", "PUT"));
    assert_eq!((head.query(), head.authority()), (Some("b"), "c:1"));
    head.clear();
    assert_eq!((head.method_name(), head.target(), head.authority()), ("GET", "/", ""));
}
