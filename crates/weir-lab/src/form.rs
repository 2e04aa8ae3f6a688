//! Encoding of forms and queries (`application/x-www-form-urlencoded`).

use encoding_rs::Encoding;
use percent_encoding::percent_decode_str;

/// Encodes as Java's `URLEncoder` does, with characters in an encoding.
pub(crate) fn form_encode(text: &str, encoding: &'static Encoding) -> String {
    url::form_urlencoded::byte_serialize(&encoding.encode(text).0).collect()
}

/// Decodes; invalid escapes stay unchanged.
pub(crate) fn decode(text: &str, encoding: &'static Encoding) -> String {
    let bytes: Vec<u8> = percent_decode_str(&text.replace('+', " ")).collect();
    encoding.decode_without_bom_handling(&bytes).0.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use encoding_rs::{UTF_8, WINDOWS_1252};

    #[test]
    fn encoded_text_is_decoded() {
        for (text, encoded) in
            [("a b+c", "a+b%2Bc"), ("€*-._~", "%E2%82%AC*-._%7E"), ("", ""), ("100%", "100%25")]
        {
            assert_eq!(form_encode(text, UTF_8), encoded);
            assert_eq!(decode(encoded, UTF_8), text);
        }
        assert_eq!(decode("%g1%2", UTF_8), "%g1%2");
        assert_eq!(form_encode("é", WINDOWS_1252), "%E9");
        assert_eq!(decode("%E9", WINDOWS_1252), "é");
    }
}
