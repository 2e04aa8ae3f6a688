//! What is written, byte for byte.

use super::{
    chunk, chunk_start, content_length, decimal, fields, reason, request_line, status_line,
};
use crate::Headers;

fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn lines_are_written_as_the_standard_has_them() {
    assert_eq!(written(|out| status_line(out, 200)), "HTTP/1.1 200 OK\r\n");
    assert_eq!(written(|out| status_line(out, 404)), "HTTP/1.1 404 Not Found\r\n");
    assert_eq!(written(|out| status_line(out, 299)), "HTTP/1.1 299 \r\n");
    assert_eq!(written(|out| request_line(out, "PUT", "/a?b")), "PUT /a?b HTTP/1.1\r\n");
    assert_eq!(written(|out| content_length(out, 52)), "content-length: 52\r\n");
    let mut headers = Headers::new();
    headers.push("A", b"b");
    headers.push("Set-Cookie", b"");
    assert_eq!(written(|out| fields(out, &headers)), "A: b\r\nSet-Cookie: \r\n");
}

#[test]
fn numbers_are_written_whole() {
    for number in [0, 7, 10, 99, 100, 65_535, u64::MAX] {
        assert_eq!(written(|out| decimal(out, number)), number.to_string());
    }
    for length in [0, 1, 9, 10, 15, 16, 255, 256, 65_536, usize::MAX] {
        assert_eq!(written(|out| chunk_start(out, length)), format!("{length:x}\r\n"));
    }
}

#[test]
fn an_empty_chunk_would_end_the_body_and_is_left_out() {
    assert_eq!(written(|out| chunk(out, b"")), "");
    assert_eq!(written(|out| chunk(out, b"abc")), "3\r\nabc\r\n");
}

#[test]
fn reasons_are_known_for_what_weir_answers() {
    for status in [100, 200, 204, 304, 400, 401, 403, 404, 405, 406, 408, 411, 413, 414, 415, 417] {
        assert!(!reason(status).is_empty(), "{status}");
    }
    for status in [429, 431, 500, 501, 502, 503, 504, 505] {
        assert!(!reason(status).is_empty(), "{status}");
    }
    assert_eq!(reason(299), "");
}
