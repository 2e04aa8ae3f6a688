//! The encoding of forms and queries (`application/x-www-form-urlencoded`, WHATWG URL section 5).

/// Name or value of a field, decoded; malformed escapes are kept.
pub fn decode(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [byte, tail @ ..] = rest {
        rest = tail;
        let escaped = match (byte, tail) {
            (b'%', [high, low, ..]) => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                bytes.push(high << 4 | low);
                rest = &tail[2..];
            }
            None if *byte == b'+' => bytes.push(b' '),
            None => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// A percent-decoded text; malformed escapes are kept.
pub fn percent_decode(text: &str) -> String {
    decode(text.replace('+', "%2B").as_bytes())
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
