//! Lists in the values of headers (RFC 9110, section 5.6.1).

/// Elements of a list, separated outside quoted strings, trimmed; empty ones are omitted.
#[derive(Clone)]
pub(crate) struct Split<'a> {
    rest: &'a [u8],
    separator: u8,
}

impl<'a> Split<'a> {
    pub(crate) fn new(rest: &'a [u8], separator: u8) -> Self {
        Self { rest, separator }
    }
}

impl<'a> Iterator for Split<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let end = end_of_element(self.rest, self.separator);
            let element = self.rest[..end].trim_ascii();
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if !element.is_empty() {
                return Some(element);
            }
        }
        None
    }
}

fn end_of_element(text: &[u8], separator: u8) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ if byte == separator && !quoted => return at,
            _ => {}
        }
    }
    text.len()
}
