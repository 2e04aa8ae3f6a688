//! Requests that two parsers could read differently: refused by weir, whatever stands behind it.

/// What an attacker hopes to get through as a request of its own.
pub(crate) const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";

/// A request that must be refused with 400 and close the connection.
pub(crate) struct Hostile {
    /// What is wrong with it.
    pub(crate) name: &'static str,
    /// Its head, empty line included, and perhaps the start of a body.
    pub(crate) bytes: &'static str,
}

const fn hostile(name: &'static str, bytes: &'static str) -> Hostile {
    Hostile { name, bytes }
}

/// Heads that are refused as soon as they are read. The path is `/x` in all of them.
pub(crate) const HEADS: &[Hostile] = &[
    hostile(
        "length and encoding",
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    hostile(
        "encoding and length",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 35\r\n\r\n0\r\n\r\n",
    ),
    hostile(
        "length and another encoding",
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nTransfer-Encoding: identity\r\n\r\n",
    ),
    hostile(
        "equal lengths",
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n",
    ),
    hostile(
        "different lengths",
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\ncontent-length: 35\r\n\r\n",
    ),
    hostile("list of lengths", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0, 0\r\n\r\n"),
    hostile("signed length", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: +0\r\n\r\n"),
    hostile("negative length", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n"),
    hostile("hexadecimal length", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 0x23\r\n\r\n"),
    hostile("empty length", "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n"),
    hostile(
        "length over 64 bits",
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551616\r\n\r\n",
    ),
    hostile(
        "coding before chunked",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    ),
    hostile(
        "coding after chunked",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    ),
    hostile(
        "chunked twice",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    hostile(
        "chunked and cow",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n\r\n0\r\n\r\n",
    ),
    hostile(
        "nearly chunked",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    ),
    hostile(
        "chunked in quotes",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n",
    ),
    hostile(
        "chunked after a vertical tab",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    ),
    hostile("empty encoding", "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n0\r\n\r\n"),
    hostile(
        "chunked on HTTP/1.0",
        "POST /x HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ),
    hostile(
        "space before the colon of the encoding",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    ),
    hostile(
        "space before the colon of the length",
        "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length : 35\r\n\r\n",
    ),
    hostile(
        "folded encoding",
        "POST /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    ),
    hostile("folded line", "GET /x HTTP/1.1\r\nHost: a\r\nA: b\r\n\tc\r\n\r\n"),
    hostile("space before the first field", "GET /x HTTP/1.1\r\n Host: a\r\nHost: a\r\n\r\n"),
    hostile("bare LF after the request line", "GET /x HTTP/1.1\nHost: a\r\n\r\n"),
    hostile("bare LF after a field", "GET /x HTTP/1.1\r\nHost: a\nA: b\r\n\r\n"),
    hostile("bare LF as the empty line", "GET /x HTTP/1.1\r\nHost: a\r\n\n"),
    hostile(
        "bare LF inside a value",
        "GET /x HTTP/1.1\r\nHost: a\r\nA: b\nContent-Length: 35\r\n\r\n",
    ),
    hostile(
        "bare CR inside a value",
        "GET /x HTTP/1.1\r\nHost: a\r\nA: b\rContent-Length: 35\r\n\r\n",
    ),
    hostile("bare CR before CR LF", "GET /x HTTP/1.1\r\nHost: a\r\nA: b\r\r\n\r\n"),
    hostile("no Host", "GET /x HTTP/1.1\r\n\r\n"),
    hostile("two Hosts", "GET /x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    hostile("empty Host", "GET /x HTTP/1.1\r\nHost:\r\n\r\n"),
    hostile("Host with a path", "GET /x HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    hostile("Host with a user", "GET /x HTTP/1.1\r\nHost: me@a\r\n\r\n"),
    hostile("Host with a space", "GET /x HTTP/1.1\r\nHost: a b\r\n\r\n"),
    hostile("Host with a bad port", "GET /x HTTP/1.1\r\nHost: a:99999\r\n\r\n"),
    hostile("list of Hosts", "GET /x HTTP/1.1\r\nHost: a, b\r\n\r\n"),
    hostile("NUL in a value", "GET /x HTTP/1.1\r\nHost: a\r\nA: b\0c\r\n\r\n"),
    hostile("NUL in a name", "GET /x HTTP/1.1\r\nHost: a\r\nA\0: b\r\n\r\n"),
    hostile("control character in a value", "GET /x HTTP/1.1\r\nHost: a\r\nA: b\x01c\r\n\r\n"),
    hostile("DEL in a value", "GET /x HTTP/1.1\r\nHost: a\r\nA: b\x7fc\r\n\r\n"),
    hostile("space in a name", "GET /x HTTP/1.1\r\nHost: a\r\nA b: c\r\n\r\n"),
    hostile("no name", "GET /x HTTP/1.1\r\nHost: a\r\n: c\r\n\r\n"),
    hostile("no colon", "GET /x HTTP/1.1\r\nHost: a\r\nA\r\n\r\n"),
    hostile("no version", "GET /x\r\nHost: a\r\n\r\n"),
    hostile("another version", "GET /x HTTP/1.2\r\nHost: a\r\n\r\n"),
    hostile("two spaces", "GET  /x HTTP/1.1\r\nHost: a\r\n\r\n"),
    hostile("tab for a space", "GET\t/x HTTP/1.1\r\nHost: a\r\n\r\n"),
    hostile("space in the target", "GET /x y HTTP/1.1\r\nHost: a\r\n\r\n"),
    hostile("fragment in the target", "GET /x#y HTTP/1.1\r\nHost: a\r\n\r\n"),
    hostile("control character in the target", "GET /x\x01 HTTP/1.1\r\nHost: a\r\n\r\n"),
    hostile("space before the method", " GET /x HTTP/1.1\r\nHost: a\r\n\r\n"),
    hostile("no HTTP at all", "\x16\x03\x01\x02\x00\x01\x00\x01"),
];

/// Bodies that are refused when they are read; the start of each is sound.
pub(crate) const BODIES: &[Hostile] = &[
    hostile("no hexadecimal digit", "zz\r\nhello\r\n0\r\n\r\n"),
    hostile("negative size", "-5\r\nhello\r\n0\r\n\r\n"),
    hostile("size with a prefix", "0x5\r\nhello\r\n0\r\n\r\n"),
    hostile("space before the size", " 5\r\nhello\r\n0\r\n\r\n"),
    hostile("space after the size", "5 \r\nhello\r\n0\r\n\r\n"),
    hostile("no size", "\r\nhello\r\n0\r\n\r\n"),
    hostile("size over 64 bits", "10000000000000005\r\nhello\r\n0\r\n\r\n"),
    hostile("bare LF after the size", "5\nhello\r\n0\r\n\r\n"),
    hostile("bare LF in an extension", "5;a\nhello\r\n0\r\n\r\n"),
    hostile("bare CR after the size", "5\rhello\r\n0\r\n\r\n"),
    hostile("NUL in an extension", "5;a\0b\r\nhello\r\n0\r\n\r\n"),
    hostile("bare LF after the data", "5\r\nhello\n0\r\n\r\n"),
    hostile("data longer than the size", "5\r\nhello!\r\n0\r\n\r\n"),
    hostile("data shorter than the size", "5\r\nhell\r\n0\r\n\r\n"),
    hostile("no line end after the data", "5\r\nhello0\r\n\r\n"),
    hostile("bare LF after the last chunk", "5\r\nhello\r\n0\n\n"),
    hostile("bare LF as the empty line", "5\r\nhello\r\n0\r\n\n"),
    hostile("folded trailer", "5\r\nhello\r\n0\r\nA: b\r\n c\r\n\r\n"),
    hostile("a request for a trailer", "5\r\nhello\r\n0\r\nGET /smuggled HTTP/1.1\r\n\r\n"),
    hostile("space before a trailer's colon", "5\r\nhello\r\n0\r\nA : b\r\n\r\n"),
];

/// A chunked POST to `path` with one of [`BODIES`].
pub(crate) fn chunked(path: &str, body: &Hostile) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{}", body.bytes)
}
