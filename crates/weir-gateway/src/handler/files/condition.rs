//! Conditional requests (RFC 9110 section 13): whether the client has the current representation.

use jiff::fmt::{rfc2822, strtime};
use weir_wire::{Headers, Known};

/// The validators of a representation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Validators<'a> {
    /// The entity tag, with quotes, without `W/`.
    pub(super) tag: &'a str,
    /// The tag is weak: other bytes may have the same tag.
    pub(super) weak: bool,
    /// `Last-Modified` as sent.
    pub(super) last_modified: &'a str,
    /// The same time in seconds since 1970.
    pub(super) modified: i64,
}

/// Result of the conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Respond as without conditions.
    Proceed,
    /// 304: the client has the current representation.
    NotModified,
    /// 412: a precondition failed.
    Failed,
}

/// Evaluates the conditions of a GET or HEAD in the order of RFC 9110 section 13.2.2.
pub(super) fn evaluate(request: &Headers, validators: &Validators<'_>) -> Verdict {
    let begins = |name: &[u8]| name.get(..3).is_some_and(|n| n.eq_ignore_ascii_case(b"if-"));
    if !request.names().any(|(known, name)| known == Known::Other && begins(name)) {
        return Verdict::Proceed;
    }
    if request.get("if-match").is_some() {
        if !matches_any(request, "if-match", validators, Comparison::Strong) {
            return Verdict::Failed;
        }
    } else if let Some(then) = request.get("if-unmodified-since").and_then(seconds)
        && validators.modified > then
    {
        return Verdict::Failed;
    }
    if request.get("if-none-match").is_some() {
        if matches_any(request, "if-none-match", validators, Comparison::Weak) {
            return Verdict::NotModified;
        }
    } else if let Some(then) = request.get("if-modified-since")
        && (then == validators.last_modified.as_bytes()
            || seconds(then).is_some_and(|then| validators.modified <= then))
    {
        return Verdict::NotModified;
    }
    Verdict::Proceed
}

/// Whether a Range header applies, by If-Range (RFC 9110 section 13.1.5). `settled`: the time of
/// the last change identifies one state only.
pub(super) fn range_holds(request: &Headers, validators: &Validators<'_>, settled: bool) -> bool {
    let mut values = request.get_all("if-range");
    match (values.next(), values.next()) {
        (None, _) => true,
        (Some(_), Some(_)) => false,
        (Some(tag), None) if tag.starts_with(b"\"") => {
            !validators.weak && tag == validators.tag.as_bytes()
        }
        (Some(date), None) => settled && seconds(date) == Some(validators.modified),
    }
}

/// Comparison of entity tags (RFC 9110 section 8.8.3.2).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// Whether any tag in the fields of this name matches the current tag.
fn matches_any(
    request: &Headers,
    name: &str,
    validators: &Validators<'_>,
    comparison: Comparison,
) -> bool {
    let strong = comparison == Comparison::Strong;
    let is_it = |(weak, tag): (bool, &[u8])| {
        tag == validators.tag.as_bytes() && !(strong && (weak || validators.weak))
    };
    request.get_all(name).any(|value| value == b"*" || tags(value).any(is_it))
}

/// The tags of a list, and whether they are weak. An invalid tag ends the list.
fn tags(value: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
    let mut rest = value;
    std::iter::from_fn(move || {
        while let [b' ' | b'\t' | b',', tail @ ..] = rest {
            rest = tail;
        }
        let weak = rest.starts_with(b"W/");
        let tag = if weak { &rest[2..] } else { rest };
        let end = memchr::memchr(b'"', tag.strip_prefix(b"\"")?)? + 2;
        rest = &tag[end..];
        Some((weak, &tag[..end]))
    })
}

/// A date in any of the three forms of RFC 9110 section 5.6.7, in seconds since 1970.
fn seconds(date: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(date).ok()?;
    let parsed = rfc2822::DateTimeParser::new().parse_timestamp(text).or_else(|_| {
        let old = ["%A, %d-%b-%y %H:%M:%S GMT", "%a %b %e %H:%M:%S %Y"];
        let mut parsed = old.iter().filter_map(|format| strtime::parse(format, text).ok());
        let time = parsed.next().and_then(|time| time.to_datetime().ok());
        time.ok_or(())
            .and_then(|time| time.in_tz("UTC").map_err(drop))
            .map(|zoned| zoned.timestamp())
    });
    parsed.ok().map(jiff::Timestamp::as_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODIFIED: i64 = 784_111_777;
    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const STRONG: Validators<'_> =
        Validators { tag: "\"a,b\"", weak: false, last_modified: DATE, modified: MODIFIED };
    const WEAK: Validators<'_> = Validators { weak: true, ..STRONG };

    fn verdict(validators: &Validators<'_>, fields: &[(&str, &str)]) -> Verdict {
        evaluate(&headers(fields), validators)
    }

    fn headers(fields: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::new();
        fields.iter().for_each(|(name, value)| headers.push(name, value.as_bytes()));
        headers
    }

    #[test]
    fn tags_are_compared_weakly_for_what_the_client_has() {
        for value in
            ["\"a,b\"", "W/\"a,b\"", "*", "\"x\", W/\"a,b\"", " ,\"a\",\"a,b\"", "\"x\"\"a,b\""]
        {
            for validators in [&STRONG, &WEAK] {
                let found = verdict(validators, &[("If-None-Match", value)]);
                assert_eq!(found, Verdict::NotModified, "{value}");
            }
        }
        for value in ["\"a\"", "\"b\"", "a,b", "\"a,b", "W/", "w/\"a,b\"", ""] {
            assert_eq!(verdict(&STRONG, &[("if-none-match", value)]), Verdict::Proceed, "{value}");
        }
        let two = [("if-none-match", "\"x\""), ("if-none-match", "\"a,b\"")];
        assert_eq!(verdict(&STRONG, &two), Verdict::NotModified);
    }

    #[test]
    fn tags_are_compared_strongly_for_what_the_client_means() {
        for (validators, value, expected) in [
            (&STRONG, "\"a,b\"", Verdict::Proceed),
            (&STRONG, "*", Verdict::Proceed),
            (&STRONG, "W/\"a,b\"", Verdict::Failed),
            (&STRONG, "\"x\"", Verdict::Failed),
            (&WEAK, "\"a,b\"", Verdict::Failed),
        ] {
            assert_eq!(verdict(validators, &[("if-match", value)]), expected, "{value}");
        }
    }

    #[test]
    fn dates_count_where_no_tags_are_told() {
        for (name, value, expected) in [
            ("if-modified-since", DATE, Verdict::NotModified),
            ("if-modified-since", BEFORE, Verdict::Proceed),
            ("if-modified-since", "Mon, 07 Nov 1994 08:49:37 GMT", Verdict::NotModified),
            ("if-modified-since", "Sunday, 06-Nov-94 08:49:37 GMT", Verdict::NotModified),
            ("if-modified-since", "Sun Nov  6 08:49:37 1994", Verdict::NotModified),
            ("if-modified-since", "Sun Nov  6 08:49:36 1994", Verdict::Proceed),
            ("if-modified-since", "yesterday", Verdict::Proceed),
            ("if-unmodified-since", DATE, Verdict::Proceed),
            ("if-unmodified-since", BEFORE, Verdict::Failed),
            ("if-unmodified-since", "never", Verdict::Proceed),
        ] {
            assert_eq!(verdict(&STRONG, &[(name, value)]), expected, "{name}: {value}");
        }
        let both = [("if-none-match", "\"x\""), ("if-modified-since", DATE)];
        assert_eq!(verdict(&STRONG, &both), Verdict::Proceed);
        let both = [("if-match", "\"a,b\""), ("if-unmodified-since", BEFORE)];
        assert_eq!(verdict(&STRONG, &both), Verdict::Proceed);
        let both = [("if-match", "\"x\""), ("if-none-match", "\"a,b\"")];
        assert_eq!(verdict(&STRONG, &both), Verdict::Failed, "what must match comes first");
    }

    #[test]
    fn a_range_holds_only_for_the_very_bytes() {
        let holds = |validators: &Validators<'_>, value: &str, settled: bool| {
            range_holds(&headers(&[("If-Range", value)]), validators, settled)
        };
        assert!(range_holds(&Headers::new(), &STRONG, false));
        assert!(holds(&STRONG, "\"a,b\"", true));
        assert!(holds(&STRONG, DATE, true));
        assert!(!holds(&STRONG, DATE, false), "it may have changed again");
        for value in ["\"x\"", "W/\"a,b\"", BEFORE, "Mon, 07 Nov 1994 08:49:37 GMT", "*", ""] {
            assert!(!holds(&STRONG, value, true), "{value}");
        }
        assert!(!holds(&WEAK, "\"a,b\"", true));
    }
}
