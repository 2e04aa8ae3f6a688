//! Encoding of forms and queries (`application/x-www-form-urlencoded`).

/// `application/x-www-form-urlencoded` as Java's `URLEncoder` writes it.
pub(crate) fn form_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'*' | b'_' => {
                out.push(char::from(byte));
            }
            b' ' => out.push('+'),
            byte => {
                out.push('%');
                for digit in [byte >> 4, byte & 15] {
                    out.push(
                        char::from_digit(digit.into(), 16).unwrap_or('0').to_ascii_uppercase(),
                    );
                }
            }
        }
    }
    out
}

/// Decodes; invalid escapes stay unchanged.
pub(crate) fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        let escaped = match (byte, tail) {
            (b'%', [high, low, ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                digit(high).zip(digit(low)).and_then(|(h, l)| u8::try_from(h << 4 | l).ok())
            }
            _ => None,
        };
        match escaped {
            Some(value) => {
                bytes.push(value);
                rest = &tail[2..];
            }
            None => bytes.push(if *byte == b'+' { b' ' } else { *byte }),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        for (text, encoded) in
            [("a b+c", "a+b%2Bc"), ("€*-._~", "%E2%82%AC*-._%7E"), ("", ""), ("100%", "100%25")]
        {
            assert_eq!(form_encode(text), encoded);
            assert_eq!(decode(encoded), text);
        }
        assert_eq!(decode("%g1%2"), "%g1%2");
    }
}
