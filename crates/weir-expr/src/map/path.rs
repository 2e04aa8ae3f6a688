//! Distinguishes paths of names and indexes from others (RFC 9535).

use serde_json_path::JsonPath;

/// One step of a singular path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Name(String),
    Index(usize),
}

/// A path into the body.
pub(crate) enum Path {
    /// Names and indexes from the start.
    Steps(Vec<Step>),
    /// Any other path.
    Tree {
        /// The path.
        path: JsonPath,
        /// The path has at most one result (for example an index from the end).
        singular: bool,
    },
}

/// Parses a path.
pub(crate) fn parse(text: &str) -> Result<Path, String> {
    let path = JsonPath::parse(text).map_err(|error| {
        let (reason, position) = (error.message(), error.position());
        format!("`{text}` is not a path (RFC 9535): {reason} at character {position}")
    })?;
    let steps = steps(text);
    let singular = steps.is_some();
    Ok(match steps.and_then(|steps| steps.into_iter().collect()) {
        Some(steps) => Path::Steps(steps),
        None => Path::Tree { path, singular },
    })
}

/// The steps of a singular path that has already been parsed, `None` for an index from the end; any
/// other path must be rejected here.
fn steps(text: &str) -> Option<Vec<Option<Step>>> {
    let mut steps = Vec::new();
    let mut rest = text.trim().strip_prefix('$')?.trim_start();
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix('[') {
            let tail = tail.trim_start();
            let (step, tail) = match tail.chars().next()? {
                quote @ ('\'' | '"') => {
                    let (name, tail) = quoted(&tail[1..], quote)?;
                    (Some(Step::Name(name)), tail)
                }
                _ => {
                    let end = tail.find(|c: char| !c.is_ascii_digit() && c != '-')?;
                    let index: i64 = tail[..end].parse().ok()?;
                    (usize::try_from(index).ok().map(Step::Index), &tail[end..])
                }
            };
            steps.push(step);
            rest = tail.trim_start().strip_prefix(']')?.trim_start();
        } else {
            let tail = rest.strip_prefix('.')?;
            let name = |c: char| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii();
            let end = tail.find(|c| !name(c)).unwrap_or(tail.len());
            if end == 0 {
                return None;
            }
            steps.push(Some(Step::Name(tail[..end].to_owned())));
            rest = tail[end..].trim_start();
        }
    }
    Some(steps)
}

/// A quoted name up to its quote, and the rest of the text.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut json = String::from("\"");
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => {
                json.push('"');
                // JSON escapes, and `\'`.
                let name = serde_json::from_str(&json).ok()?;
                return Some((name, &text[at + 1..]));
            }
            '\\' => match chars.next()?.1 {
                '\'' => json.push('\''),
                escaped => json.extend(['\\', escaped]),
            },
            '"' => json.push_str("\\\""),
            c => json.push(c),
        }
    }
    None
}
