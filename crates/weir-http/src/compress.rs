//! Response compression: whether, and with which coding; `encoder` does it.

mod encoder;

pub use encoder::Gzip;
pub use encoder::{Encoder, EncoderError};

use crate::cors::add_vary;
use crate::headers::is_encoded;
use crate::negotiate;
use weir_config::{Compression, ContentCoding};
use weir_wire::{Headers, Known};

/// Decision about a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Do not compress it.
    Plain,
    /// Do not compress it, but set `Vary`: another client would get it compressed.
    PlainVaries,
    /// Compress it.
    Encode(ContentCoding),
}

/// The properties of a response that the decision needs.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Status code.
    pub status: u16,
    /// Its headers.
    pub headers: &'a Headers,
    /// Body length in bytes where it is known.
    pub length: Option<u64>,
    /// The request's method is HEAD.
    pub head: bool,
}

/// Decides by settings, response, and `Accept-Encoding`.
///
/// Not compressed: responses without a body or with a partial one, encoded responses, those with
/// `no-transform` or a digest of their bytes, small bodies, event streams (each event must be sent
/// at once) and media types that are compressed already.
pub fn decide(settings: &Compression, request: &Headers, response: &Candidate<'_>) -> Decision {
    if !settings.enabled || !is_eligible(settings, response) {
        Decision::Plain
    } else {
        let coding = negotiate::coding(request, &settings.codings);
        coding.map_or(Decision::PlainVaries, Decision::Encode)
    }
}

fn is_eligible(settings: &Compression, response: &Candidate<'_>) -> bool {
    let headers = response.headers;
    // The response to HEAD has the headers of the uncompressed representation.
    let has_entire_body =
        !response.head && !matches!(response.status, 100..=199 | 204 | 205 | 206 | 304);
    has_entire_body
        && response.length.is_none_or(|length| length >= settings.min_size)
        && !is_encoded(headers)
        && headers.known(Known::ContentType).is_some_and(is_worth_it)
        && !headers.get_all("cache-control").any(forbids_transformation)
        && ["content-range", "content-digest", "digest", "content-md5"]
            .iter()
            .all(|name| headers.get(name).is_none())
}

fn forbids_transformation(value: &[u8]) -> bool {
    value.split(|&b| b == b',').any(|d| d.trim_ascii().eq_ignore_ascii_case(b"no-transform"))
}

/// Types that compress well; not `text/event-stream`, which must not wait in an encoder.
fn is_worth_it(content_type: &[u8]) -> bool {
    const WORTH: [&str; 12] = [
        "application/json",
        "application/xml",
        "application/javascript",
        "application/x-ndjson",
        "application/graphql",
        "application/yaml",
        "application/wasm",
        "application/x-javascript",
        "application/rtf",
        "application/x-www-form-urlencoded",
        "image/svg+xml",
        "image/bmp",
    ];
    let end = memchr::memchr(b';', content_type).unwrap_or(content_type.len());
    let essence = content_type[..end].trim_ascii();
    let starts = |prefix: &[u8]| {
        essence.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    let ends = |suffix: &[u8]| {
        essence.len() > suffix.len()
            && essence[essence.len() - suffix.len()..].eq_ignore_ascii_case(suffix)
    };
    if starts(b"text/") {
        return !essence.eq_ignore_ascii_case(b"text/event-stream");
    }
    ends(b"+json")
        || ends(b"+xml")
        || WORTH.iter().any(|w| essence.eq_ignore_ascii_case(w.as_bytes()))
}

/// Applies a decision to the headers of a response.
///
/// Compressed: `Content-Encoding`, `Vary`, a weak `ETag` (the bytes differ, the content does not,
/// RFC 9110 section 8.8.1), and neither `Content-Length` nor `Accept-Ranges`, which apply to the
/// uncompressed bytes.
pub fn mark(decision: Decision, headers: &mut Headers) {
    match decision {
        Decision::Plain => {}
        Decision::PlainVaries => add_vary(headers, "accept-encoding"),
        Decision::Encode(coding) => {
            add_vary(headers, "accept-encoding");
            headers.remove("content-length");
            headers.remove("accept-ranges");
            weaken_etag(headers);
            headers.set("content-encoding", coding.as_ref().as_bytes());
        }
    }
}

/// Makes a strong `ETag` weak.
pub fn weaken_etag(headers: &mut Headers) {
    if let Some(strong) = headers.known(Known::Etag).filter(|tag| tag.starts_with(b"\"")) {
        let weak = [b"W/", strong].concat();
        headers.set("etag", &weak);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: Compression = Compression {
        enabled: true,
        min_size: 100,
        level: 1,
        codings: [Some(ContentCoding::Gzip), Some(ContentCoding::Zstd), None],
    };
    const GZIP: Decision = Decision::Encode(ContentCoding::Gzip);

    fn headers(fields: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::new();
        for (name, value) in fields {
            headers.push(name, value.as_bytes());
        }
        headers
    }

    fn decided(fields: &[(&str, &str)], change: impl FnOnce(&mut Candidate<'_>)) -> Decision {
        let headers = headers(fields);
        let mut response =
            Candidate { status: 200, headers: &headers, length: Some(100), head: false };
        change(&mut response);
        decide(&ON, &self::headers(&[("accept-encoding", "gzip")]), &response)
    }

    const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");

    #[test]
    fn worthwhile_answers_are_compressed() {
        for good in [
            "application/json",
            "text/html",
            "Text/Plain;charset=x",
            "application/problem+json",
            "application/atom+XML",
            "image/svg+xml",
            "application/javascript",
        ] {
            assert_eq!(decided(&[("content-type", good)], |_| {}), GZIP, "{good}");
        }
        assert_eq!(decided(&[JSON], |a| a.length = None), GZIP);
        assert_eq!(decided(&[JSON, ("content-encoding", "identity")], |_| {}), GZIP);
        assert_eq!(decided(&[JSON], |a| a.status = 404), GZIP);
    }

    #[test]
    fn others_are_left_alone() {
        for bad in [
            "image/png",
            "text/event-stream",
            "text/event-stream; charset=utf-8",
            "application/zip",
            "application/octet-stream",
            "video/mp4",
            "+json",
            "",
        ] {
            assert_eq!(decided(&[("content-type", bad)], |_| {}), Decision::Plain, "{bad}");
        }
        assert_eq!(decided(&[], |_| {}), Decision::Plain);
        assert_eq!(decided(&[JSON], |a| a.length = Some(99)), Decision::Plain);
        assert_eq!(decided(&[JSON], |a| a.head = true), Decision::Plain);
        for status in [101, 204, 205, 206, 304] {
            assert_eq!(decided(&[JSON], |a| a.status = status), Decision::Plain, "{status}");
        }
        for field in [
            ("content-encoding", "br"),
            ("cache-control", "max-age=1, No-Transform"),
            ("content-range", "bytes 0-1/2"),
            ("content-digest", "sha-256=:x:"),
        ] {
            assert_eq!(decided(&[JSON, field], |_| {}), Decision::Plain, "{field:?}");
        }
    }

    #[test]
    fn settings_and_the_client_have_their_say() {
        let response = headers(&[JSON]);
        let response =
            Candidate { status: 200, headers: &response, length: Some(100), head: false };
        let off = Compression { enabled: false, ..ON };
        assert_eq!(
            decide(&off, &headers(&[("accept-encoding", "gzip")]), &response),
            Decision::Plain
        );
        assert_eq!(
            decide(&ON, &headers(&[("accept-encoding", "br")]), &response),
            Decision::PlainVaries
        );
        assert_eq!(decide(&ON, &Headers::new(), &response), Decision::PlainVaries);
    }

    #[test]
    fn headers_say_what_was_done() {
        let mut marked =
            headers(&[("content-length", "9"), ("ETag", "\"a\""), ("accept-ranges", "bytes")]);
        mark(GZIP, &mut marked);
        let fields: Vec<_> =
            marked.iter().map(|(_, n, v)| (n, std::str::from_utf8(v).unwrap())).collect();
        assert_eq!(
            fields,
            [("vary", "accept-encoding"), ("etag", "W/\"a\""), ("content-encoding", "gzip")]
        );
        weaken_etag(&mut marked);
        assert_eq!(marked.get("etag"), Some(&b"W/\"a\""[..]));
        let mut plain = headers(&[("etag", "\"a\"")]);
        mark(Decision::PlainVaries, &mut plain);
        assert_eq!(plain.get("etag"), Some(&b"\"a\""[..]));
        assert_eq!(plain.get("vary"), Some(&b"accept-encoding"[..]));
    }
}
