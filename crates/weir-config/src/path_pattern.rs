//! Base paths and route paths, normalized like request paths: percent-decoded, without dot segments
//! and empty segments.

use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use weir_document::finding::Fault;
use weir_document::finding::codes;

/// Maximum length of a path, and number of its segments.
const LENGTH: usize = 2048;
const SEGMENTS: usize = 64;

/// A path below a base as segments, which are matched against decoded segments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    /// As written, for display and labels (`/x/{id}`).
    pub text: String,
    /// The segments. Empty for `/` (the base itself).
    pub segments: Vec<Segment>,
    /// The last segment is `*`: matches the rest of the path, also an empty rest.
    pub wildcard: bool,
}

/// One segment of a [`PathPattern`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Exactly this text, decoded.
    Literal(String),
    /// Any non-empty segment, with this parameter name.
    Template(String),
}

fn fault(message: String) -> Fault {
    Fault::value(message).code(codes::BAD_PATH)
}

/// A base path: `/` or `/a/b`, decoded.
pub(crate) fn base(text: &str) -> Result<String, Fault> {
    if text == "/" {
        return Ok(text.to_owned());
    }
    let mut base = String::new();
    for segment in split(text)? {
        if segment.contains(['{', '}', '*']) {
            return Err(fault("templates and wildcards are not allowed in a base path".to_owned())
                .help("use them in the paths of routes"));
        }
        base.push('/');
        base.push_str(&literal(segment)?);
    }
    Ok(base)
}

/// Path of a route: `/x/{id}/*`.
pub(crate) fn pattern(text: &str) -> Result<PathPattern, Fault> {
    let mut pattern = PathPattern { text: text.to_owned(), segments: Vec::new(), wildcard: false };
    if text == "/" {
        return Ok(pattern);
    }
    let segments = split(text)?;
    for (i, segment) in segments.iter().enumerate() {
        if *segment == "*" {
            if i + 1 < segments.len() {
                return Err(fault("`*` is allowed only at the end of a path".to_owned())
                    .help("use a template for a single segment: `{name}`"));
            }
            pattern.wildcard = true;
        } else if let Some(name) = segment.strip_prefix('{').and_then(|s| s.strip_suffix('}')) {
            let name = template_name(name)?;
            if pattern.segments.contains(&Segment::Template(name.clone())) {
                return Err(fault(format!("duplicate template `{{{name}}}` in the path")));
            }
            pattern.segments.push(Segment::Template(name));
        } else if segment.contains(['{', '}', '*']) {
            return Err(fault(format!("`{segment}` is only partly a template"))
                .help("a template must be an entire segment: `/{name}`"));
        } else if let Some(name) = segment.strip_prefix(':') {
            return Err(fault(format!("`{segment}` would be matched literally"))
                .help(format!("write `{{{name}}}` for a template")));
        } else {
            pattern.segments.push(Segment::Literal(literal(segment)?));
        }
    }
    Ok(pattern)
}

/// The name inside braces.
pub(super) fn template_name(name: &str) -> Result<String, Fault> {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if name.is_empty() || name.len() > 64 || !name.bytes().all(fits) {
        return Err(fault(format!("`{{{name}}}` is not a template"))
            .help("use letters, digits, `_` and `-` in braces: `{id}`"));
    }
    Ok(name.to_owned())
}

fn split(text: &str) -> Result<Vec<&str>, Fault> {
    let Some(rest) = text.strip_prefix('/') else {
        return Err(
            fault(format!("`{text}` does not begin with a slash")).help(format!("write `/{text}`"))
        );
    };
    if text.len() > LENGTH {
        return Err(fault(format!("the path exceeds {LENGTH} bytes")));
    }
    if let Some(c) = text.chars().find(|c| c.is_control() || c.is_whitespace()) {
        return Err(fault(format!("`{}` is not allowed in a path", c.escape_default())));
    }
    if text.contains(['?', '#']) {
        return Err(fault("a path must not have a query".to_owned())
            .help("remove `?` and the text after it"));
    }
    let segments: Vec<&str> = rest.split('/').collect();
    if segments.len() > SEGMENTS {
        return Err(fault(format!("the path exceeds {SEGMENTS} segments")));
    }
    if segments.iter().any(|s| s.is_empty()) {
        let help = format!(
            "/{}",
            segments.iter().filter(|s| !s.is_empty()).copied().collect::<Vec<_>>().join("/")
        );
        return Err(fault("the path has an empty segment".to_owned())
            .help(format!("write `{help}`: without trailing or double slashes")));
    }
    Ok(segments)
}

fn literal(segment: &str) -> Result<String, Fault> {
    let decoded = decode(segment).ok_or_else(|| {
        fault(format!("invalid percent-encoding in `{segment}`"))
            .help("write `%25` for a literal `%`; encoded bytes must be UTF-8")
    })?;
    if decoded == "." || decoded == ".." {
        return Err(fault("dot segments are not allowed in a path".to_owned()));
    }
    if decoded.contains(['/', '\0']) {
        return Err(fault("an encoded slash or NUL is not allowed in a path".to_owned()));
    }
    Ok(decoded)
}

fn decode(segment: &str) -> Option<String> {
    // The library keeps malformed escapes.
    let is_escape = |rest: &str| {
        rest.as_bytes().get(..2).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    if !segment.split('%').skip(1).all(is_escape) {
        return None;
    }
    percent_decode_str(segment).decode_utf8().ok().map(Cow::into_owned)
}

/// `text` percent-encoded for a path (RFC 3986 section 3.3: pchar and `/`); encoded bytes are kept.
pub(super) fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for b in text.bytes() {
        if b.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%".contains(&b) {
            out.push(char::from(b));
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
    }
    out
}
