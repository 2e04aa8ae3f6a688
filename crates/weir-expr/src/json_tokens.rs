//! The tokens of a JSON text: members in order, numbers with their digits.

/// A token of a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    OpenObject,
    OpenArray,
    Close,
    Comma,
    Colon,
    /// Including the quotes.
    Text(&'t str),
    /// A number, `true`, `false` or `null`.
    Bare(&'t str),
}

/// The tokens of a valid JSON text.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while bytes.get(at).is_some_and(|b| b" \t\r\n".contains(b)) {
            at += 1;
        }
        let start = at;
        at += 1;
        Some(match bytes.get(start)? {
            b'{' => Token::OpenObject,
            b'[' => Token::OpenArray,
            b'}' | b']' => Token::Close,
            b',' => Token::Comma,
            b':' => Token::Colon,
            b'"' => {
                while bytes.get(at).is_some_and(|b| *b != b'"') {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
                Token::Text(text.get(start..at)?)
            }
            _ => {
                while bytes.get(at).is_some_and(|b| !b" \t\r\n,:]}".contains(b)) {
                    at += 1;
                }
                Token::Bare(text.get(start..at)?)
            }
        })
    })
}

/// A line break and `depth` levels of `indent` spaces; nothing when `indent` is 0.
pub(crate) fn break_line(out: &mut String, indent: usize, depth: usize) {
    if indent > 0 {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', indent * depth));
    }
}
