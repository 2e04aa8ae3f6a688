//! The size of HTML, which parsers take in a time that grows with its square: by its tags and their
//! nesting.

use std::collections::HashMap;

/// Most bytes of a document.
const MAX_BYTES: usize = 2 * 1024 * 1024;
/// Most tags, multiplied by the deepest nesting.
const MAX_WORK: usize = 50_000_000;
/// Most attributes of a tag.
const MAX_ATTRIBUTES: usize = 1_000;
/// Most tags in scripts, style sheets and comments that are not counted.
const MAX_SKIPPED: usize = 20_000;

/// Elements without an end tag, or that the next one ends.
const UNCLOSED: [&str; 30] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr", "p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option",
    "optgroup", "colgroup", "html", "head", "body",
];

/// Checks whether a document can be parsed in a short time.
///
/// # Errors
/// The document is too large.
pub(super) fn check_html(text: &str) -> Result<(), String> {
    if text.len() > MAX_BYTES {
        return Err(format!("an HTML document has at most {} MiB", MAX_BYTES >> 20));
    }
    let too_large = || "the HTML document has too many nested tags or attributes".to_owned();
    let mut open: HashMap<String, usize> = HashMap::new();
    let (mut tags, mut depth, mut deepest, mut skipped) = (0_usize, 0_usize, 1_usize, 0_usize);
    // Scripts within these are elements.
    let has_foreign = contains(text, "<svg") || contains(text, "<math");
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(inside) = rest.strip_prefix("!--") {
            let is_closed = inside.starts_with('>') || inside.starts_with("->");
            if let Some(end) = inside.find("-->").filter(|_| !is_closed) {
                skip(&mut rest, 3 + end, &mut skipped);
            }
            continue;
        }
        let is_end = rest.starts_with('/');
        let tag = &rest[usize::from(is_end)..];
        if !tag.starts_with(|c: char| c.is_ascii_alphabetic()) {
            continue;
        }
        tags += 1;
        if tags.saturating_mul(deepest) > MAX_WORK {
            return Err(too_large());
        }
        let end = tag.find(|c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>'));
        let (name, fields) = tag.split_at(end.unwrap_or(tag.len()));
        let name = name.to_ascii_lowercase();
        if attributes(fields) > MAX_ATTRIBUTES {
            return Err(too_large());
        }
        rest = fields;
        if UNCLOSED.contains(&name.as_str()) {
            continue;
        }
        let is_raw = !is_end && !has_foreign && matches!(name.as_str(), "script" | "style");
        if is_raw && let Some(end) = find(fields, &format!("</{name}")) {
            skip(&mut rest, end, &mut skipped);
        }
        let known = open.entry(name).or_default();
        match (is_end, *known) {
            (true, 1..) => (*known, depth) = (*known - 1, depth.saturating_sub(1)),
            // An end tag of no element searches all open ones.
            (true, 0) => depth += 1,
            (false, _) => (*known, depth) = (*known + 1, depth + 1),
        }
        deepest = deepest.max(depth);
    }
    Ok(())
}

/// Goes on behind a part whose tags are none, unless it has too many of them.
fn skip(rest: &mut &str, bytes: usize, skipped: &mut usize) {
    let (part, behind) = rest.split_at(bytes);
    let tags = part.matches('<').count();
    if *skipped + tags <= MAX_SKIPPED {
        *skipped += tags;
        *rest = behind;
    }
}

/// Number of attributes of a tag, at most: its words outside of quotation marks.
fn attributes(fields: &str) -> usize {
    let (mut count, mut quote, mut before) = (0, None, b' ');
    for byte in fields.bytes() {
        match (quote, byte) {
            (Some(mark), byte) if mark == byte => quote = None,
            (Some(_), _) => {}
            (None, b'>') => break,
            (None, b'"' | b'\'') if before == b'=' => quote = Some(byte),
            (None, b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' | b'/') if before != b' ' => count += 1,
            _ => {}
        }
        before = if byte.is_ascii_whitespace() { b' ' } else { byte };
        if count > MAX_ATTRIBUTES {
            break;
        }
    }
    count
}

fn contains(text: &str, lower: &str) -> bool {
    find(text, lower).is_some()
}

/// Place of a text that is written in lower case, whatever its case in the document.
fn find(text: &str, lower: &str) -> Option<usize> {
    let (bytes, lower) = (text.as_bytes(), lower.as_bytes());
    bytes.windows(lower.len()).position(|part| part.eq_ignore_ascii_case(lower))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_that_take_long_are_refused() {
        for html in [
            "<div>".repeat(100_000),
            "<b>".repeat(100_000),
            format!("{}{}", "<div>".repeat(8_000), "</x>".repeat(8_000)),
            format!("{}{}", "<b a=1>".repeat(2_000), "<p>x".repeat(100_000)),
            format!("<a {}>", "x ".repeat(2_000)),
            format!("<a{}>", "/x".repeat(2_000)),
            format!("<!-->{}-->", "<i>".repeat(50_000)),
            format!("<svg><script>{}</script>", "<i>".repeat(50_000)),
            format!("<textarea><script></textarea>{}</script>", "<i>".repeat(50_000)),
            "x".repeat(3 << 20),
        ] {
            assert!(check_html(&html).is_err(), "{}", &html[..60]);
        }
    }

    #[test]
    fn usual_documents_are_parsed() {
        let row = "<tr><td class='a b'>1<td><a href=/x>x</a><br></tr>";
        for html in [
            format!("<html><body><table>{}</table>", row.repeat(30_000)),
            format!("<script>{}</script>", "for(i=0;i<n;i++)".repeat(15_000)),
            format!("<!-- {} -->", "<i>".repeat(15_000)),
            format!("<a class='{}'>", "x ".repeat(5_000)),
            format!("{}x{}", "<div>".repeat(500), "</div>".repeat(500)),
            format!("<ul>{}</ul>", "<li>x".repeat(100_000)),
            "<".repeat(10_000) + "é < 1 <!-- <script> </",
        ] {
            assert_eq!(check_html(&html), Ok(()), "{}", &html[..40]);
        }
    }
}
