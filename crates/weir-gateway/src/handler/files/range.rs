//! The Range header (RFC 9110 section 14.2): the requested bytes of a file.

use std::ops::Range;

/// Maximum number of ranges of one request. More indicate an attack (RFC 9110 section 17.15).
const MAX_RANGES: usize = 64;

/// The ranges of a Range header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Requested {
    /// The entire file: the header is ignored.
    Whole,
    /// These byte ranges, in this order. Neither the list nor a range is empty.
    Parts(Vec<Range<u64>>),
    /// No byte of the file.
    Unsatisfiable,
}

/// Parses the Range header of a file of `length` bytes.
///
/// The header is ignored if it has another unit, a malformed range, too many ranges, or ranges of
/// more bytes in total than the file has. Ranges beyond the end are omitted, unless all are.
pub(super) fn parse(value: &[u8], length: u64) -> Requested {
    let Some(set) = value
        .split_at_checked(b"bytes=".len())
        .and_then(|(unit, set)| unit.eq_ignore_ascii_case(b"bytes=").then_some(set))
    else {
        return Requested::Whole;
    };
    let mut parts = Vec::new();
    let mut total: u64 = 0;
    let elements = set.split(|&b| b == b',').map(<[u8]>::trim_ascii).filter(|e| !e.is_empty());
    let mut seen = 0;
    for element in elements {
        seen += 1;
        let Some(part) = one(element, length).filter(|_| seen <= MAX_RANGES) else {
            return Requested::Whole;
        };
        if part.is_empty() {
            continue;
        }
        total = total.saturating_add(part.end - part.start);
        parts.push(part);
    }
    match (seen, parts.len()) {
        (0, _) => Requested::Whole,
        // A suffix range of an empty file is the entire file.
        (_, 0) if length == 0 && set.starts_with(b"-") => Requested::Whole,
        (_, 0) => Requested::Unsatisfiable,
        (_, 1) => Requested::Parts(parts),
        _ if total > length => Requested::Whole,
        _ => Requested::Parts(parts),
    }
}

/// Parses one range, limited to the file; empty if beyond its end. `None` if malformed.
fn one(text: &[u8], length: u64) -> Option<Range<u64>> {
    let dash = memchr::memchr(b'-', text)?;
    let (first, last) = (text[..dash].trim_ascii(), text[dash + 1..].trim_ascii());
    if first.is_empty() {
        let count = position(last)?;
        return Some(length.saturating_sub(count)..length);
    }
    let first = position(first)?;
    let end = match last {
        b"" => length,
        last => {
            let last = position(last)?;
            if last < first {
                return None;
            }
            last.saturating_add(1).min(length)
        }
    };
    Some(first.min(end)..end)
}

/// Parses a position; a number too large is beyond every end.
fn position(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |sum: u64, b: &u8| sum.saturating_mul(10).saturating_add(u64::from(b - b'0'));
    Some(text.iter().fold(0, digit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of_ten(text: &str) -> Requested {
        parse(text.as_bytes(), 10)
    }

    #[test]
    fn ranges_are_cut_to_what_is_there() {
        for (text, range) in [
            ("bytes=0-0", 0..1),
            ("bytes=0-9", 0..10),
            ("bytes=0-", 0..10),
            ("bytes=3-99999999999999999999999", 3..10),
            ("bytes=9-", 9..10),
            ("bytes=-1", 9..10),
            ("bytes=-10", 0..10),
            ("bytes=-99999999999999999999999", 0..10),
            ("Bytes=2-3", 2..4),
            ("bytes= , 2 - 3 ,,", 2..4),
            ("bytes=2-3,10-", 2..4),
            ("bytes=-0,1-1", 1..2),
        ] {
            assert_eq!(of_ten(text), Requested::Parts(vec![range]), "{text}");
        }
        assert_eq!(of_ten("bytes=0-1,-1, 4-5"), Requested::Parts(vec![0..2, 9..10, 4..6]));
        assert_eq!(of_ten("bytes=0-3,2-5"), Requested::Parts(vec![0..4, 2..6]));
    }

    #[test]
    fn nothing_that_is_there_is_unsatisfiable() {
        for text in ["bytes=10-", "bytes=10-12,99-", "bytes=-0", "bytes=99999999999999999999999-"] {
            assert_eq!(of_ten(text), Requested::Unsatisfiable, "{text}");
        }
        assert_eq!(parse(b"bytes=0-", 0), Requested::Unsatisfiable);
        assert_eq!(parse(b"bytes=-5", 0), Requested::Whole);
    }

    #[test]
    fn what_is_malformed_or_too_much_is_ignored() {
        for text in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=a-b",
            "bytes=5-2",
            "bytes=1-2-3",
            "bytes=0x1-2",
            "bytes=+1-2",
            "bytes 0-1",
            "lines=0-1",
            "bytes=0-1;2-3",
            "bytes=1",
            "bytes=0-9,0-0",
            "bytes=0-,-5",
        ] {
            assert_eq!(of_ten(text), Requested::Whole, "{text}");
        }
        let many = |count| format!("bytes={}", vec!["1-1"; count].join(","));
        assert_eq!(parse(many(MAX_RANGES + 1).as_bytes(), 1000), Requested::Whole);
        assert!(
            matches!(parse(many(MAX_RANGES).as_bytes(), 1000), Requested::Parts(p) if p.len() == MAX_RANGES)
        );
    }

    proptest! {
        #[test]
        fn parts_are_never_empty_nor_beyond_the_end(
            text in "bytes=[-0-9, ]{0,40}",
            length in 0u64..30,
        ) {
            if let Requested::Parts(parts) = parse(text.as_bytes(), length) {
                prop_assert!(!parts.is_empty());
                prop_assert!(parts.iter().all(|p| p.start < p.end && p.end <= length));
                prop_assert!(parts.len() == 1 || parts.iter().map(|p| p.end - p.start).sum::<u64>() <= length);
            }
        }
    }
}
