//! Heads of requests: HTTP/1.1 and HTTP/2 agree on which are good.

use crate::harness::frames::{END_STREAM, Frames, HEADERS, RST_STREAM};
use crate::harness::{Server, Weir};

/// One head for both protocols. An empty authority means none.
struct Case {
    name: &'static str,
    method: &'static str,
    target: &'static [u8],
    /// The Host of HTTP/1.1 and the authority of HTTP/2.
    authority: &'static str,
    /// Fields beside it; of HTTP/2 they may be Host as well.
    fields: &'static [(&'static str, &'static [u8])],
    good: bool,
}

const fn good(name: &'static str, method: &'static str, target: &'static [u8]) -> Case {
    Case { name, method, target, authority: "localhost", fields: &[], good: true }
}

const fn bad(name: &'static str, target: &'static [u8]) -> Case {
    Case { good: false, ..good(name, "GET", target) }
}

const fn host(name: &'static str, authority: &'static str, good: bool) -> Case {
    Case { name, method: "GET", target: b"/x", authority, fields: &[], good }
}

const fn fields(
    name: &'static str,
    fields: &'static [(&'static str, &'static [u8])],
    good: bool,
) -> Case {
    Case { name, method: "GET", target: b"/x", authority: "localhost", fields, good }
}

const CASES: &[Case] = &[
    good("a path", "GET", b"/x"),
    good("a path with a query", "GET", b"/x?a=b&c=%20"),
    good("the server as a whole", "OPTIONS", b"*"),
    bad("the server as a whole by another method", b"*"),
    bad("raw UTF-8", "/x\u{e9}".as_bytes()),
    bad("raw UTF-8 in the query", "/x?a=\u{e9}".as_bytes()),
    bad("raw bytes that are no UTF-8", b"/x\xff"),
    bad("a control character", b"/x\x01"),
    bad("DEL", b"/x\x7f"),
    bad("NUL", b"/x\0"),
    bad("a tab", b"/x\ty"),
    bad("a space", b"/x y"),
    bad("a line break", b"/x\r\nx: y"),
    bad("no slash in front", b"x"),
    bad("a query only", b"?a=b"),
    host("a name", "shop.example", true),
    host("a name with a port", "shop.example:8080", true),
    host("an IPv6 address", "[::1]:80", true),
    host("no host", "", false),
    host("a user", "me@private", false),
    host("a user with a password that looks like a port", "public:80@private", false),
    host("a space in the host", "a b", false),
    host("a path in the host", "a/b", false),
    host("a query in the host", "a?b", false),
    host("two hosts in one", "a,b", false),
    host("a port that is none", "a:99999", false),
    host("a port of letters", "a:http", false),
    host("half an IPv6 address", "[::1", false),
    fields("two Hosts", &[("host", b"localhost"), ("host", b"localhost")], false),
    fields("two different Hosts", &[("host", b"localhost"), ("host", b"private")], false),
    fields("another Host", &[("host", b"private")], false),
    fields("a Host with a space", &[("host", b"localhost x")], false),
    fields("two lengths", &[("content-length", b"0"), ("content-length", b"0")], false),
    fields("a length with a sign", &[("content-length", b"+0")], false),
    fields("a list of lengths", &[("content-length", b"0, 0")], false),
    fields("an encoding", &[("transfer-encoding", b"gzip, chunked")], false),
    fields("a control character in a value", &[("x", b"a\x01b")], false),
    fields("NUL in a value", &[("x", b"a\0b")], false),
    fields("white space around a value", &[("x", b" a\t")], true),
    fields("a space in a name", &[("a b", b"c")], false),
];

/// The status over HTTP/1.1.
fn over_http1(server: &Server, case: &Case) -> u16 {
    let mut client = server.connect();
    let mut head = format!("{} ", case.method).into_bytes();
    head.extend(case.target);
    head.extend(b" HTTP/1.1\r\n");
    // What HTTP/2 has in a field of its own is the first Host.
    if !case.authority.is_empty() {
        head.extend(format!("Host: {}\r\n", case.authority).bytes());
    }
    for (name, value) in case.fields {
        head.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    client.send([&head[..], b"\r\n"].concat());
    client.response().status
}

/// The status over HTTP/2; `None` if the stream is reset, as malformed heads may be as well
/// (RFC 9113 section 8.1.1).
fn over_http2(server: &Server, case: &Case, pseudo: bool) -> Option<u16> {
    let mut client = Frames::connect(server.listen[0], 65_535);
    let mut head: Vec<(&str, &[u8])> =
        vec![(":method", case.method.as_bytes()), (":scheme", b"http"), (":path", case.target)];
    if !case.authority.is_empty() {
        let name = if pseudo { ":authority" } else { "host" };
        head.push((name, case.authority.as_bytes()));
    }
    head.extend(case.fields);
    client.head(1, &head, END_STREAM);
    let frame = client.next()?;
    match frame.kind {
        HEADERS => Some(frame.status()),
        RST_STREAM => None,
        _ => panic!("{}: {frame:?}", case.name),
    }
}

#[test]
fn both_protocols_agree_on_which_heads_are_good() {
    let server = Weir::new(
        "listen: [127.0.0.1:0]\nworkers: 1\napis: {api: {base: /, routes: [{path: \"/*\", reply: {text: hello}}]}}\n",
    )
    .start();
    for case in CASES {
        let first = over_http1(&server, case);
        // By its authority, and by a Host alone, which HTTP/2 allows as well.
        for pseudo in [true, false] {
            let second = over_http2(&server, case, pseudo);
            let name = case.name;
            if case.good {
                assert!(matches!(first, 200 | 204), "{name}: {first}");
                assert_eq!(second, Some(first), "{name}, by authority: {pseudo}");
            } else {
                assert_eq!(first, 400, "{name}");
                assert!(
                    matches!(second, Some(400) | None),
                    "{name}, by authority: {pseudo}: {second:?}"
                );
            }
        }
    }
    // What libraries let through is answered, so that clients learn why.
    for name in ["raw UTF-8", "a user with a password that looks like a port", "another Host"] {
        let case = CASES.iter().find(|case| case.name == name).unwrap();
        assert_eq!(over_http2(&server, case, true), Some(400), "{name}");
    }
}
