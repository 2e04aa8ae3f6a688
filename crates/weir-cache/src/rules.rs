//! Freshness of stored responses (RFC 9111): cacheable, fresh or stale. Pure functions.

use jiff::fmt::rfc2822;
use weir_wire::{Headers, Known};

/// Most names of `Vary`.
const MAX_VARY_NAMES: usize = 8;
/// Longest freshness in seconds: a year.
const MAX_FRESH_SECONDS: u64 = 365 * 24 * 60 * 60;

/// Freshness of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// Freshness lifetime in seconds, from the creation of the response.
    pub fresh: u64,
    /// Age in seconds when it arrived (`Age`).
    pub age: u64,
}

/// The directives of `Cache-Control`, names unchanged.
fn directives(headers: &Headers) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    headers.get_all("cache-control").flat_map(|value| value.split(|&b| b == b',')).map(|part| {
        let part = part.trim_ascii();
        match memchr::memchr(b'=', part) {
            None => (part, None),
            Some(at) => (part[..at].trim_ascii(), Some(part[at + 1..].trim_ascii())),
        }
    })
}

/// Whether `Cache-Control` has one of these directives.
pub fn has_directive(headers: &Headers, names: &[&str]) -> bool {
    directives(headers).any(|(name, _)| {
        names.iter().any(|directive| name.eq_ignore_ascii_case(directive.as_bytes()))
    })
}

/// Whether a request requires revalidation (RFC 9111 section 5.2.1).
pub fn requires_revalidation(headers: &Headers) -> bool {
    has_directive(headers, &["no-cache"]) || seconds_of(headers, "max-age") == Some(0)
}

/// The seconds of a directive; of several the minimum, 0 if it is malformed.
fn seconds_of(headers: &Headers, directive: &str) -> Option<u64> {
    let all =
        directives(headers).filter(|(name, _)| name.eq_ignore_ascii_case(directive.as_bytes()));
    all.map(|(_, value)| number(value.unwrap_or_default()).unwrap_or(0)).min()
}

fn number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?.trim_matches('"');
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().unwrap_or(MAX_FRESH_SECONDS))
}

fn date(headers: &Headers, name: &str) -> Option<i64> {
    let text = std::str::from_utf8(headers.get(name)?).ok()?;
    let parsed = rfc2822::DateTimeParser::new().parse_timestamp(text);
    parsed.ok().map(jiff::Timestamp::as_second)
}

/// Freshness of a response to GET; `None` if it must not be stored. `fallback` is the lifetime in
/// seconds without explicit freshness. A response that is never fresh is stored only if it has a
/// validator.
pub fn freshness(status: u16, headers: &Headers, fallback: Option<u64>) -> Option<Freshness> {
    let known = matches!(status, 200 | 203 | 204 | 301 | 308 | 404 | 410);
    let unwanted = has_directive(headers, &["no-store", "private", "no-cache"])
        || headers.known(Known::SetCookie).is_some()
        || headers.get("content-range").is_some();
    if !known || unwanted {
        return None;
    }
    let fallback = fallback.filter(|_| !matches!(status, 404 | 410));
    let expires = || {
        headers.get("expires")?;
        let (expires, dated) = (date(headers, "expires"), date(headers, "date"));
        // An invalid date counts as past (RFC 9111 section 5.3).
        Some(expires.zip(dated).map_or(0, |(expires, dated)| (expires - dated).max(0) as u64))
    };
    let fresh = seconds_of(headers, "s-maxage")
        .or_else(|| seconds_of(headers, "max-age"))
        .or_else(expires)
        .or(fallback)?;
    let age = headers.get("age").and_then(number).unwrap_or(0);
    let fresh = fresh.min(MAX_FRESH_SECONDS);
    (fresh > age || has_validator(headers)).then_some(Freshness { fresh, age })
}

/// Whether the response has a validator: `ETag` or `Last-Modified`.
pub(crate) fn has_validator(headers: &Headers) -> bool {
    headers.known(Known::Etag).is_some() || headers.get("last-modified").is_some()
}

/// The request headers that select a response (`Vary`), in lower case; `None` for `*`, or too many.
pub fn varies_by(headers: &Headers) -> Option<Vec<String>> {
    let mut names: Vec<String> = Vec::new();
    for name in headers.known_all(Known::Vary).flat_map(|value| value.split(|&b| b == b',')) {
        let name = std::str::from_utf8(name).ok()?.trim().to_ascii_lowercase();
        if name == "*" || names.len() == MAX_VARY_NAMES {
            return None;
        }
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names.sort();
    Some(names)
}

/// The values of a request header that selects a response, joined.
pub(crate) fn value_of(request: &Headers, name: &str) -> Option<Vec<u8>> {
    let mut values = request.get_all(name).map(<[u8]>::trim_ascii);
    let mut joined = values.next()?.to_vec();
    for value in values {
        joined.extend_from_slice(b",");
        joined.extend_from_slice(value);
    }
    Some(joined)
}

/// Whether the conditions of the request match the stored response: 304 (RFC 9110 section 13.2.2).
pub fn is_not_modified(request: &Headers, stored: &Headers) -> bool {
    if request.get("if-none-match").is_some() {
        let bare = |tag: &[u8]| tag.strip_prefix(b"W/").unwrap_or(tag).to_vec();
        let Some(tag) = stored.known(Known::Etag).map(bare) else { return false };
        let listed = |value: &[u8]| {
            value == b"*" || value.split(|&b| b == b',').any(|one| bare(one.trim_ascii()) == tag)
        };
        return request.get_all("if-none-match").any(listed);
    }
    let then = date(request, "if-modified-since");
    then.zip(date(stored, "last-modified")).is_some_and(|(then, modified)| modified <= then)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::new();
        fields.iter().for_each(|(name, value)| headers.push(name, value.as_bytes()));
        headers
    }

    fn fresh(control: &str) -> Option<u64> {
        freshness(200, &headers(&[("cache-control", control)]), Some(7))
            .map(|freshness| freshness.fresh)
    }

    #[test]
    fn an_answer_says_itself_how_long_it_is_fresh() {
        for (control, expected) in [
            ("max-age=60", Some(60)),
            ("public, max-age=60, s-maxage=5", Some(5)),
            ("Max-Age=\"60\"", Some(60)),
            ("max-age=60, max-age=3", Some(3)),
            ("public", Some(7)),
            ("max-age=99999999999999999999999", Some(MAX_FRESH_SECONDS)),
            ("max-age=0", None),
            ("max-age=soon", None),
            ("max-age=60, no-store", None),
            ("max-age=60, private", None),
            ("max-age=60, private=\"set-cookie\"", None),
            ("no-cache, max-age=60", None),
        ] {
            assert_eq!(fresh(control), expected, "{control}");
        }
        let dated = |expires: &str| {
            let fields = [("date", "Sun, 06 Nov 1994 08:49:37 GMT"), ("expires", expires)];
            freshness(200, &headers(&fields), Some(7)).map(|freshness| freshness.fresh)
        };
        assert_eq!(dated("Sun, 06 Nov 1994 08:50:37 GMT"), Some(60));
        assert_eq!(dated("0"), None);
        let aged = [("cache-control", "max-age=60"), ("age", "50")];
        assert_eq!(freshness(200, &headers(&aged), None), Some(Freshness { fresh: 60, age: 50 }));
        let tagged = [("cache-control", "max-age=0"), ("etag", "\"a\"")];
        assert!(freshness(200, &headers(&tagged), None).is_some(), "it can be asked for again");
    }

    #[test]
    fn what_may_not_be_stored_is_not() {
        let with = |status: u16, field: (&str, &str)| {
            freshness(status, &headers(&[("cache-control", "max-age=60"), field]), None)
        };
        assert!(with(200, ("x-a", "b")).is_some() && with(404, ("x-a", "b")).is_some());
        for status in [201, 206, 302, 304, 400, 500, 503] {
            assert_eq!(with(status, ("x-a", "b")), None, "{status}");
        }
        assert_eq!(with(200, ("set-cookie", "a=b")), None);
        assert_eq!(with(200, ("content-range", "bytes 0-1/2")), None);
        assert_eq!(freshness(404, &headers(&[]), Some(60)), None, "an error says itself how long");
        assert_eq!(freshness(200, &headers(&[]), None), None);
    }

    #[test]
    fn answers_vary_by_what_they_name() {
        let vary = |value: &str| varies_by(&headers(&[("vary", value)]));
        assert_eq!(
            vary("Accept-Language, accept"),
            Some(vec!["accept".into(), "accept-language".into()])
        );
        assert_eq!(vary("accept, *"), None);
        assert_eq!(vary("a,b,c,d,e,f,g,h,i"), None);
        assert_eq!(varies_by(&headers(&[])), Some(vec![]));
        let request = headers(&[("accept", "a"), ("Accept", " b ")]);
        assert_eq!(value_of(&request, "accept"), Some(b"a,b".to_vec()));
    }

    #[test]
    fn who_has_it_already_is_told_so() {
        let stored =
            headers(&[("etag", "W/\"a\""), ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT")]);
        let had = |name: &str, value: &str| is_not_modified(&headers(&[(name, value)]), &stored);
        assert!(had("if-none-match", "\"b\", \"a\"") && had("if-none-match", "*"));
        assert!(!had("if-none-match", "\"b\""));
        assert!(had("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT"));
        assert!(!had("if-modified-since", "Sun, 06 Nov 1994 08:49:36 GMT"));
        assert!(!had("x", "y"));
    }
}
