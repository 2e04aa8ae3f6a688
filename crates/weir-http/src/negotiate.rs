//! Content negotiation (RFC 9110 sections 12.5.1 and 12.5.3), without allocation.

use crate::list::Split;
use weir_config::ContentCoding;
use weir_wire::{Headers, Known};

/// Weight in thousandths: 0 (not acceptable) to 1000.
type Weight = u16;

/// Chooses among content types offered in order of preference; returns the index.
///
/// Without an `Accept` header the first is chosen. Of equal weights the first wins. A browser,
/// detected by ranking `text/html` above every offered type, gets the first: otherwise it would get
/// XML, which it ranks above `*/*`. `None` means 406.
///
/// The most specific range determines the weight of a type, in any order (RFC 9110 section 12.5.1).
/// A malformed range is ignored. `charset` is not compared: clients send `application/json;
/// charset=utf-8` and mean JSON.
pub fn content_type<'o, I>(headers: &Headers, offered: I) -> Option<usize>
where
    I: IntoIterator<Item = &'o str>,
{
    if accepts_anything(headers) || ranges(headers).next().is_none() {
        return Some(0);
    }
    let mut best: Option<(usize, Weight)> = None;
    for (index, name) in offered.into_iter().enumerate() {
        let weight = weight_of(headers, name);
        if best.is_none_or(|(_, top)| weight > top) {
            best = Some((index, weight));
        }
    }
    let (index, weight) = best?;
    if html_weight(headers).is_some_and(|html| html > weight) {
        return Some(0);
    }
    (weight > 0).then_some(index)
}

/// Whether the header is the one of most programs, without parsing it.
fn accepts_anything(headers: &Headers) -> bool {
    let mut values = headers.known_all(Known::Accept);
    match (values.next(), values.next()) {
        (None, _) => true,
        (Some(value), None) => value == b"*/*",
        (Some(_), Some(_)) => false,
    }
}

/// The offered coding that the client prefers, if its weight is at least that of `identity`; of
/// equal weights the first.
///
/// Without `Accept-Encoding` there is no coding. `*` matches every coding that is not named, but
/// not `identity`.
pub fn coding(headers: &Headers, offered: &[Option<ContentCoding>]) -> Option<ContentCoding> {
    let weights = Codings::of(headers);
    let best = offered.iter().rev().flatten().max_by_key(|coding| weights.weight(**coding))?;
    let weight = weights.weight(*best);
    (weight > 0 && weight >= weights.identity).then_some(*best)
}

/// Weights of a client for each content coding, in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Codings {
    /// Of each named coding, by its place in the enumeration.
    named: [Weight; ContentCoding::ALL.len()],
    /// No coding. Without mention it is acceptable, but the named codings are preferred: 0.
    pub identity: u16,
}

impl Codings {
    /// Parses the weights of a request.
    pub fn of(headers: &Headers) -> Self {
        let mut named = [None; ContentCoding::ALL.len()];
        let (mut identity, mut any) = (None, None);
        for value in headers.known_all(Known::AcceptEncoding) {
            for element in Split::new(value, b',') {
                let mut parts = Split::new(element, b';');
                let coding = parts.next().unwrap_or_default();
                let Some(weight) = weight_parameter(parts) else { continue };
                let slot = match coding.len() {
                    1 if coding == b"*" => &mut any,
                    2 if is(coding, "br") => &mut named[ContentCoding::Br as usize],
                    4 if is(coding, "zstd") => &mut named[ContentCoding::Zstd as usize],
                    4 if is(coding, "gzip") => &mut named[ContentCoding::Gzip as usize],
                    6 if is(coding, "x-gzip") => &mut named[ContentCoding::Gzip as usize],
                    8 if is(coding, "identity") => &mut identity,
                    _ => continue,
                };
                *slot = Some(weight);
            }
        }
        let weight = |named: Option<Weight>| named.or(any).unwrap_or(0);
        Self { named: named.map(weight), identity: identity.unwrap_or(0) }
    }

    /// The weight of a coding.
    pub fn weight(self, coding: ContentCoding) -> u16 {
        self.named[coding as usize]
    }
}

/// The media ranges of all Accept lines, each with its parameters; empty elements are omitted.
fn ranges(headers: &Headers) -> impl Iterator<Item = &[u8]> {
    headers.known_all(Known::Accept).flat_map(|value| Split::new(value, b','))
}

/// The weight of the most specific range that matches an offered type; 0 if none matches.
fn weight_of(headers: &Headers, offered: &str) -> Weight {
    let mut best = (0u32, 0);
    for range in ranges(headers) {
        let Some((specificity, weight)) = matching(range, offered) else { continue };
        // Of two equally specific ranges the first counts.
        if specificity > best.0 {
            best = (specificity, weight);
        }
    }
    best.1
}

/// The specificity of a range for an offered type (1 `*/*`, 2 `type/*`, 3 and more `type/subtype`
/// with its parameters), and its weight; `None` if the range does not match or is malformed.
fn matching(range: &[u8], offered: &str) -> Option<(u32, Weight)> {
    let mut parts = Split::new(range, b';');
    let name = parts.next()?;
    let offered_name = offered.split(';').next().unwrap_or_default().trim_ascii();
    let (kind, subtype) = split_type(name)?;
    let (offered_kind, offered_subtype) = split_type(offered_name.as_bytes())?;
    let mut specificity = if kind == b"*" {
        if subtype != b"*" {
            return None;
        }
        1
    } else if !kind.eq_ignore_ascii_case(offered_kind) {
        return None;
    } else if subtype == b"*" {
        2
    } else if subtype.eq_ignore_ascii_case(offered_subtype) {
        3
    } else {
        return None;
    };
    let mut weight = 1000;
    for parameter in parts {
        let (name, value) = split_parameter(parameter)?;
        if is(name, "q") {
            weight = parse_weight(value)?;
        } else if !is(name, "charset") {
            if !offers(offered, parameter) {
                return None;
            }
            specificity += 1;
        }
    }
    Some((specificity, weight))
}

/// Whether the offered type has this parameter.
fn offers(offered: &str, parameter: &[u8]) -> bool {
    Split::new(offered.as_bytes(), b';').skip(1).any(|p| p.eq_ignore_ascii_case(parameter))
}

/// The weight of `text/html` if it is named: the sign of a browser.
fn html_weight(headers: &Headers) -> Option<Weight> {
    ranges(headers).find_map(|range| {
        let mut parts = Split::new(range, b';');
        parts.next().filter(|name| is(name, "text/html"))?;
        weight_parameter(parts)
    })
}

/// The `q` parameter; 1000 if absent, `None` if malformed.
fn weight_parameter(parameters: Split<'_>) -> Option<Weight> {
    for parameter in parameters {
        let (name, value) = split_parameter(parameter)?;
        if is(name, "q") {
            return parse_weight(value);
        }
    }
    Some(1000)
}

fn split_type(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let slash = memchr::memchr(b'/', name)?;
    let (kind, subtype) = (&name[..slash], &name[slash + 1..]);
    (!kind.is_empty() && !subtype.is_empty()).then_some((kind, subtype))
}

fn split_parameter(parameter: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = memchr::memchr(b'=', parameter)?;
    Some((parameter[..equals].trim_ascii(), parameter[equals + 1..].trim_ascii()))
}

/// `qvalue` of RFC 9110 section 12.4.2: `0` or `1` with up to three decimals.
fn parse_weight(text: &[u8]) -> Option<Weight> {
    let (integer, decimals) = match text {
        [integer @ (b'0' | b'1')] => (integer, &[][..]),
        [integer @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.len() <= 3 => {
            (integer, decimals)
        }
        _ => return None,
    };
    let mut weight = Weight::from(integer - b'0') * 1000;
    for (digit, scale) in decimals.iter().zip([100, 10, 1]) {
        weight += Weight::from(digit.checked_sub(b'0').filter(|d| *d <= 9)?) * scale;
    }
    (weight <= 1000).then_some(weight)
}

fn is(text: &[u8], name: &str) -> bool {
    text.eq_ignore_ascii_case(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOTH: [&str; 2] = ["application/json", "application/xml"];

    fn accept(value: &str) -> Headers {
        let mut headers = Headers::new();
        headers.push("Accept", value.as_bytes());
        headers
    }

    fn chosen(value: &str) -> Option<usize> {
        content_type(&accept(value), BOTH)
    }

    fn takes_gzip(value: &str) -> bool {
        let mut headers = Headers::new();
        headers.push("Accept-Encoding", value.as_bytes());
        coding(&headers, &[Some(ContentCoding::Gzip)]).is_some()
    }

    fn best(value: &str, offered: &[ContentCoding]) -> Option<ContentCoding> {
        let mut headers = Headers::new();
        headers.push("Accept-Encoding", value.as_bytes());
        let offered: Vec<_> = offered.iter().copied().map(Some).chain([None]).collect();
        coding(&headers, &offered)
    }

    #[test]
    fn the_coding_that_is_wanted_most_and_of_equal_ones_the_first_on_offer() {
        use ContentCoding::{Br, Gzip, Zstd};
        let all = ContentCoding::ALL;
        assert_eq!(best("gzip, deflate, br, zstd", &all), Some(Zstd));
        assert_eq!(best("gzip, deflate, br, zstd", &[Gzip, Br]), Some(Gzip));
        assert_eq!(best("gzip;q=0.5, br;q=0.9, zstd;q=0.1", &all), Some(Br));
        assert_eq!(best("*, zstd;q=0", &all), Some(Br));
        assert_eq!(best("gzip, br;q=0, zstd;q=0", &all), Some(Gzip));
        assert_eq!(best("identity, br;q=0.9", &all), None);
        assert_eq!(best("zstd", &[]), None);
    }

    #[test]
    fn no_accept_gets_the_first() {
        assert_eq!(content_type(&Headers::new(), BOTH), Some(0));
        assert_eq!(chosen(""), Some(0));
        assert_eq!(chosen(" , "), Some(0));
        assert_eq!(chosen("*/*"), Some(0));
    }

    #[test]
    fn the_higher_weight_wins_and_equal_weights_keep_the_order() {
        assert_eq!(chosen("application/xml"), Some(1));
        assert_eq!(chosen("application/xml, application/json"), Some(0));
        assert_eq!(chosen("application/json;q=0.4, application/xml; Q=0.5"), Some(1));
        assert_eq!(chosen("application/*;q=0.2, */*"), Some(0));
        assert_eq!(chosen("APPLICATION/XML"), Some(1));
        let mut two_lines = accept("application/json;q=0.1");
        two_lines.push("accept", b"application/xml");
        assert_eq!(content_type(&two_lines, BOTH), Some(1));
    }

    #[test]
    fn the_more_specific_range_decides_in_any_order() {
        assert_eq!(chosen("*/*;q=1, application/json;q=0.1"), Some(1));
        assert_eq!(chosen("application/json;q=0, */*"), Some(1));
        assert_eq!(chosen("application/*;q=0, application/xml;q=0.1, */*"), Some(1));
        assert_eq!(content_type(&accept("text/*, text/plain;q=0"), ["text/plain"]), None);
    }

    #[test]
    fn a_browser_gets_the_first() {
        let chrome = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,\
                      image/webp,*/*;q=0.8";
        assert_eq!(chosen(chrome), Some(0));
        assert_eq!(chosen("text/html;q=0.5,application/xml"), Some(1));
        // If HTML is offered, it has the highest weight.
        assert_eq!(content_type(&accept(chrome), ["application/json", "text/html"]), Some(1));
    }

    #[test]
    fn nothing_acceptable_is_none() {
        assert_eq!(chosen("image/png"), None);
        assert_eq!(chosen("application/json;q=0, application/xml;q=0.000"), None);
        assert_eq!(chosen("*/*;q=0"), None);
        assert_eq!(chosen("application/json;profile=\"a,b\""), None);
    }

    #[test]
    fn parameters_other_than_charset_must_be_offered() {
        assert_eq!(chosen("application/json;charset=utf-8"), Some(0));
        let offered = ["text/plain", "text/plain;format=flowed"];
        assert_eq!(content_type(&accept("text/plain;format=flowed"), offered), Some(1));
        assert_eq!(
            content_type(&accept("text/plain;format=flowed;q=0.1, text/plain"), offered),
            Some(0)
        );
    }

    #[test]
    fn malformed_ranges_are_passed_over() {
        for bad in ["json", "/", "*/json", "application/", "application/json;q=2"] {
            assert_eq!(chosen(&format!("{bad}, application/xml;q=0.1")), Some(1), "{bad}");
        }
        for bad in ["q=1.001", "q=0.0001", "q=", "q=.5", "q=-1", "q=1e1", "q"] {
            assert_eq!(chosen(&format!("application/json;{bad}")), None, "{bad}");
        }
    }

    #[test]
    fn gzip_rules() {
        assert!(coding(&Headers::new(), &[Some(ContentCoding::Gzip)]).is_none());
        for yes in [
            "gzip",
            "x-gzip",
            "GZIP;q=0.001",
            "br, gzip",
            "*",
            "gzip, identity;q=0.5",
            "identity;q=0, gzip;q=0.1",
            "deflate, *;q=0.1",
        ] {
            assert!(takes_gzip(yes), "{yes}");
        }
        for no in [
            "",
            "identity",
            "br",
            "gzip;q=0",
            "gzip;q=0, *",
            "*;q=0",
            "gzipped",
            "identity, gzip;q=0.5",
            "gzip;q=x",
        ] {
            assert!(!takes_gzip(no), "{no}");
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_an_offered_index_or_none(value in "[ -~]{0,80}") {
            if let Some(index) = chosen(&value) {
                prop_assert!(index < BOTH.len());
            }
            takes_gzip(&value);
        }

        #[test]
        fn a_type_named_with_a_positive_weight_alone_is_chosen(q in 1u32..=999, second: bool) {
            let name = BOTH[usize::from(second)];
            prop_assert_eq!(chosen(&format!("{name};q=0.{q:03}")), Some(usize::from(second)));
        }
    }
}
