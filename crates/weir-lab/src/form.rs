//! Encoding of forms and queries (`application/x-www-form-urlencoded`).

use crate::charset::Charset;
use percent_encoding::percent_decode_str;

/// Encodes as Java's `URLEncoder` does, with characters in an encoding.
pub(crate) fn form_encode(text: &str, encoding: Charset) -> String {
    url::form_urlencoded::byte_serialize(&encoding.encode(text)).collect()
}

/// Decodes; invalid escapes stay unchanged.
pub(crate) fn decode(text: &str, encoding: Charset) -> String {
    let bytes: Vec<u8> = percent_decode_str(&text.replace('+', " ")).collect();
    encoding.decode(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_text_is_decoded() {
        for (text, encoded) in
            [("a b+c", "a+b%2Bc"), ("€*-._~", "%E2%82%AC*-._%7E"), ("", ""), ("100%", "100%25")]
        {
            assert_eq!(form_encode(text, Charset::UTF_8), encoded);
            assert_eq!(decode(encoded, Charset::UTF_8), text);
        }
        assert_eq!(decode("%g1%2", Charset::UTF_8), "%g1%2");
        let latin = Charset::named("ISO-8859-1").expect("known");
        assert_eq!(form_encode("é", latin), "%E9");
        assert_eq!(decode("%E9", latin), "é");
    }
}
