//! Encoding of forms and queries (`application/x-www-form-urlencoded`).

use percent_encoding::percent_decode_str;

/// Encodes as Java's `URLEncoder` does.
pub(crate) fn form_encode(text: &str) -> String {
    url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Decodes; invalid escapes stay unchanged.
pub(crate) fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_text_is_decoded() {
        for (text, encoded) in
            [("a b+c", "a+b%2Bc"), ("€*-._~", "%E2%82%AC*-._%7E"), ("", ""), ("100%", "100%25")]
        {
            assert_eq!(form_encode(text), encoded);
            assert_eq!(decode(encoded), text);
        }
        assert_eq!(decode("%g1%2"), "%g1%2");
    }
}
