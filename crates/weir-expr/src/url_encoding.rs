//! The encoding of forms and queries (`application/x-www-form-urlencoded`, WHATWG URL section 5).

/// Name or value of a field, decoded; malformed escapes are kept.
pub fn decode(text: &[u8]) -> String {
    let spaced: Vec<u8> = text.iter().map(|&b| if b == b'+' { b' ' } else { b }).collect();
    percent_encoding::percent_decode(&spaced).decode_utf8_lossy().into_owned()
}

/// The fields of a form or query, decoded, in order; empty ones are left out.
pub fn fields(text: &[u8]) -> impl Iterator<Item = (String, String)> {
    text.split(|&b| b == b'&').filter(|field| !field.is_empty()).map(|field| {
        let equals = field.iter().position(|&b| b == b'=').unwrap_or(field.len());
        (decode(&field[..equals]), decode(field.get(equals + 1..).unwrap_or_default()))
    })
}

/// A percent-decoded text; malformed escapes are kept.
pub fn percent_decode(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn escapes_and_pluses_are_decoded_and_what_is_malformed_stays() {
        for (text, decoded) in
            [("a+b%2Bc", "a b+c"), ("%e2%82%AC", "€"), ("%", "%"), ("%g1%2", "%g1%2")]
        {
            assert_eq!(super::decode(text.as_bytes()), decoded);
        }
    }
}
