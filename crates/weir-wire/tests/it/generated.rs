//! Messages as clients and upstreams send them, then with a few bytes changed.

use crate::properties;
use proptest::prelude::*;
use proptest::sample::select;

fn field() -> impl Strategy<Value = String> {
    let framing = select(vec![
        "Content-Length: 5",
        "content-length:0",
        "Content-Length: 00012",
        "Content-Length: 5, 5",
        "Transfer-Encoding: chunked",
        "transfer-encoding:\tCHUNKED ",
        "Transfer-Encoding: gzip, chunked",
        "Connection: close",
        "Connection: keep-alive",
        "Expect: 100-continue",
        "Host: a.example:80",
        "Trailer: Digest",
    ]);
    prop_oneof![
        3 => framing.prop_map(String::from),
        2 => "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}:[ \t]{0,2}[ -~\t\u{80}-\u{ff}]{0,20}",
    ]
}

fn fields() -> impl Strategy<Value = String> {
    prop::collection::vec(field(), 0..5)
        .prop_map(|fields| fields.iter().map(|field| format!("{field}\r\n")).collect())
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    let chunk = (bytes(), "(;[a-z=\"]{0,5})?").prop_map(|(data, extension)| {
        let mut chunk = format!("{:x}{extension}\r\n", data.len()).into_bytes();
        chunk.extend_from_slice(&data);
        chunk.extend_from_slice(b"\r\n");
        chunk
    });
    let last = select(vec!["0\r\n\r\n", "0\r\nDigest: abc\r\n\r\n", "0\r\n", "0;a\r\n\r\n"]);
    let chunks = (prop::collection::vec(chunk, 0..4), last)
        .prop_map(|(chunks, last)| [chunks.concat(), last.as_bytes().to_vec()].concat());
    prop_oneof![bytes(), chunks, Just(b"hello".to_vec())]
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let method = select(vec!["GET", "HEAD", "POST", "PUT", "OPTIONS", "CONNECT", "get"]);
    let target = prop_oneof![
        3 => "/[!-~]{0,30}",
        1 => select(vec!["*", "http://b:81/c?d", "https://[::1]", "b:443", "x"]).prop_map(String::from),
    ];
    let version = select(vec!["HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.2"]);
    let host = select(vec!["Host: a\r\n", "Host: a\r\n", "host:[::1]:8080\r\n", ""]);
    (method, target, version, host, fields(), body()).prop_map(
        |(method, target, version, host, fields, body)| {
            let head = format!("{method} {target} {version}\r\n{host}{fields}\r\n");
            [head.into_bytes(), body].concat()
        },
    )
}

fn answer() -> impl Strategy<Value = Vec<u8>> {
    let version = select(vec!["HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/2"]);
    let status = select(vec!["200 OK", "100 Continue", "103", "204 ", "304 X", "500 \u{fc}", "42"]);
    (version, status, fields(), body()).prop_map(|(version, status, fields, body)| {
        let head = format!("{version} {status}\r\n{fields}\r\n");
        [head.into_bytes(), body].concat()
    })
}

/// Some bytes of a message replaced, inserted or taken away.
fn damaged(messages: impl Strategy<Value = Vec<Vec<u8>>>) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![select(b"\r\n \t:;,\0\x0b0aF".to_vec()), any::<u8>(),];
    let damage = prop::collection::vec((any::<prop::sample::Index>(), 0..3, byte), 0..4);
    (messages, damage).prop_map(|(messages, damage)| {
        let mut bytes = messages.concat();
        for (index, kind, byte) in damage {
            if bytes.is_empty() {
                break;
            }
            let at = index.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => {
                    bytes.remove(at);
                }
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn requests_hold_every_property(bytes in prop::collection::vec(request(), 1..4)) {
        properties::requests(&bytes.concat());
    }

    #[test]
    fn damaged_requests_hold_every_property(
        bytes in damaged(prop::collection::vec(request(), 1..3))
    ) {
        properties::requests(&bytes);
    }

    #[test]
    fn answers_hold_every_property(bytes in prop::collection::vec(answer(), 1..4)) {
        properties::answers(&bytes.concat());
    }

    #[test]
    fn damaged_answers_hold_every_property(
        bytes in damaged(prop::collection::vec(answer(), 1..3))
    ) {
        properties::answers(&bytes);
    }

    #[test]
    fn any_bytes_hold_every_property(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        properties::requests(&bytes);
        properties::answers(&bytes);
    }
}
