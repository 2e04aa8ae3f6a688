//! Answers of upstreams: what frames them, what is refused, when a connection is used again.

use super::ResponseHead;
use crate::scan::{HeadError, HeadLimits, Scan};
use crate::{Framing, Method, Version};

fn parse_to(method: Method, text: &[u8]) -> Result<ResponseHead, HeadError> {
    let mut head = ResponseHead::default();
    let taken = head.parse(text, method, &mut Scan::new(), &HeadLimits::default())?;
    assert_eq!(taken, Some(text.len()), "not the whole head");
    Ok(head)
}

fn parse(text: &str) -> Result<ResponseHead, HeadError> {
    parse_to(Method::Get, text.as_bytes())
}

#[test]
fn bad_answers_are_refused() {
    use HeadError::{
        BareCr, BareLf, EncodingInvalid, FieldName, FieldValue, Folded, LengthAndEncoding,
        LengthInvalid, LengthRepeated, StartLine, Version,
    };
    for (text, error) in [
        ("HTTP/1.1 200 OK\n\r\n", BareLf),
        ("HTTP/1.1 200 OK\rX\r\n\r\n", BareCr),
        ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", Folded),
        ("\r\nHTTP/1.1 200 OK\r\n\r\n", StartLine),
        ("HTTP/1.1 20 OK\r\n\r\n", StartLine),
        ("HTTP/1.1 2000 OK\r\n\r\n", StartLine),
        ("HTTP/1.1 099 Low\r\n\r\n", StartLine),
        ("HTTP/1.1 abc\r\n\r\n", StartLine),
        ("HTTP/1.1  200 OK\r\n\r\n", StartLine),
        ("HTTP/1.1\r\n\r\n", StartLine),
        ("HTTP/1.1 200 O\x01K\r\n\r\n", StartLine),
        ("HTTP/2 200\r\n\r\n", Version),
        ("HTTP/1.2 200 OK\r\n\r\n", Version),
        ("SSH-2.0-OpenSSH_9\r\n\r\n", Version),
        ("garbage\r\n\r\n", Version),
        ("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", FieldName),
        ("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", FieldName),
        ("HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n", FieldValue),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            LengthAndEncoding,
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", LengthRepeated),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\n", LengthInvalid),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", LengthInvalid),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", EncodingInvalid),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\n", EncodingInvalid),
        ("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", EncodingInvalid),
    ] {
        assert_eq!(parse(text).unwrap_err(), error, "{text:?}");
    }
}

#[test]
fn status_lines_are_read() {
    for (text, status, version) in [
        ("HTTP/1.1 200 OK\r\n\r\n", 200, Version::Http11),
        ("HTTP/1.0 404 Not Found\r\n\r\n", 404, Version::Http10),
        ("HTTP/1.1 204\r\n\r\n", 204, Version::Http11),
        ("HTTP/1.1 204 \r\n\r\n", 204, Version::Http11),
        ("HTTP/1.1 500 Pr\u{fc}fung\r\n\r\n", 500, Version::Http11),
        ("HTTP/1.1 999 Anything\r\n\r\n", 999, Version::Http11),
        ("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 103, Version::Http11),
    ] {
        let head = parse(text).unwrap();
        assert_eq!((head.status, head.version), (status, version), "{text:?}");
    }
}

#[test]
fn a_long_reason_is_no_long_target() {
    let limits = HeadLimits { bytes: 500, fields: 10, target: 0 };
    let text = format!("HTTP/1.1 200 {}\r\n\r\n", "a".repeat(400));
    let taken =
        ResponseHead::default().parse(text.as_bytes(), Method::Get, &mut Scan::new(), &limits);
    assert_eq!(taken, Ok(Some(text.len())));
}

#[test]
fn bodies_are_framed_as_method_and_status_say() {
    use Framing::{Chunked, Length, None, UntilClose};
    use Method::{Get, Head};
    for (method, status, lines, framing, kept) in [
        (Get, 200, "", UntilClose, false),
        (Get, 200, "Connection: keep-alive\r\n", UntilClose, false),
        (Get, 200, "Content-Length: 5\r\n", Length(5), true),
        (Get, 200, "Content-Length: 0\r\n", Length(0), true),
        (Get, 200, "Content-Length: 5\r\nConnection: close\r\n", Length(5), false),
        (Get, 200, "Transfer-Encoding: chunked\r\n", Chunked, true),
        (Get, 404, "Content-Length: 5\r\n", Length(5), true),
        (Head, 200, "", None, true),
        (Head, 200, "Content-Length: 5\r\n", None, true),
        (Head, 200, "Transfer-Encoding: chunked\r\n", None, true),
        (Get, 304, "Content-Length: 5\r\n", None, true),
        (Get, 304, "", None, true),
        (Get, 204, "", None, true),
        (Get, 204, "Content-Length: 0\r\n", None, true),
        // A body that may not be: if it comes, it is not read as the next answer.
        (Get, 204, "Content-Length: 5\r\n", None, false),
        (Get, 204, "Transfer-Encoding: chunked\r\n", None, false),
        (Get, 100, "", None, true),
        (Get, 103, "Link: </a>\r\n", None, true),
        (Get, 205, "Content-Length: 0\r\n", Length(0), true),
    ] {
        let text = format!("HTTP/1.1 {status} X\r\n{lines}\r\n");
        let head = parse_to(method, text.as_bytes()).unwrap();
        assert_eq!((head.framing, head.keep_alive), (framing, kept), "{method:?} {text:?}");
    }
}

#[test]
fn an_old_server_keeps_the_connection_only_when_it_says_so() {
    for (lines, kept) in [
        ("Content-Length: 1\r\n", false),
        ("Content-Length: 1\r\nConnection: keep-alive\r\n", true),
        ("Connection: keep-alive\r\n", false),
    ] {
        let head = parse(&format!("HTTP/1.0 200 OK\r\n{lines}\r\n")).unwrap();
        assert_eq!(head.keep_alive, kept, "{lines:?}");
    }
}

#[test]
fn clearing_forgets_everything() {
    let mut head = parse("HTTP/1.0 404 X\r\nA: b\r\n\r\n").unwrap();
    head.clear();
    assert_eq!((head.status, head.version, head.framing), (0, Version::Http11, Framing::None));
    assert!(head.headers.is_empty());
}
