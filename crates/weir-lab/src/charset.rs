//! Encodings of texts as Java knows them.

use encoding_rs::{EncoderResult, Encoding};
use std::borrow::Cow;

/// An encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charset {
    encoding: &'static Encoding,
    /// Of ISO-8859-1 and US-ASCII, for which browsers have another encoding: name and number of
    /// characters.
    narrow: Option<(&'static str, u32)>,
}

impl Charset {
    /// UTF-8.
    pub const UTF_8: Self = Self { encoding: encoding_rs::UTF_8, narrow: None };

    /// The encoding of a name; UTF-8 for an empty one.
    ///
    /// # Errors
    /// An unknown name.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let name = name.trim();
        if name.is_empty() {
            return Ok(Self::UTF_8);
        }
        let encoding = Encoding::for_label(name.as_bytes())
            .ok_or_else(|| format!("the Lab does not know the encoding `{name}`"))?;
        let narrow = match name.to_ascii_lowercase().as_str() {
            "iso-8859-1" | "iso8859-1" | "iso8859_1" | "latin1" => Some(("ISO-8859-1", 0x100)),
            "us-ascii" | "ascii" => Some(("US-ASCII", 0x80)),
            _ => None,
        };
        Ok(Self { encoding, narrow })
    }

    /// Java's name.
    pub(crate) fn name(self) -> &'static str {
        self.narrow.map_or(self.encoding.name(), |(name, _)| name)
    }

    /// The bytes of a text; a character that the encoding does not have is `?`.
    pub(crate) fn encode(self, text: &str) -> Cow<'_, [u8]> {
        if self.encoding == encoding_rs::UTF_8 {
            return Cow::Borrowed(text.as_bytes());
        }
        if let Some((_, limit)) = self.narrow {
            let byte = |character: char| match u32::from(character) {
                code if code < limit => u8::try_from(code).unwrap_or(b'?'),
                _ => b'?',
            };
            return Cow::Owned(text.chars().map(byte).collect());
        }
        let mut encoder = self.encoding.new_encoder();
        let mut out = Vec::with_capacity(text.len() * 2 + 16);
        let mut rest = text;
        loop {
            let (result, read) =
                encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut out, true);
            rest = &rest[read..];
            match result {
                EncoderResult::InputEmpty => return Cow::Owned(out),
                EncoderResult::OutputFull => out.reserve(rest.len() * 4 + 16),
                EncoderResult::Unmappable(_) => out.push(b'?'),
            }
        }
    }

    /// The text of bytes, without a byte order mark. Invalid bytes are replaced.
    pub(crate) fn decode(self, bytes: &[u8]) -> Cow<'_, str> {
        self.encoding.decode_with_bom_removal(bytes).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_an_encoding_does_not_have_are_question_marks() {
        let bytes = |name: &str| Charset::named(name).expect("known").encode("aé€").into_owned();
        assert_eq!(bytes(""), "aé€".as_bytes());
        assert_eq!(bytes("ISO-8859-1"), b"a\xe9?");
        assert_eq!(bytes("us-ascii"), b"a??");
        assert_eq!(bytes("windows-1252"), b"a\xe9\x80");
        assert_eq!(bytes("Shift_JIS"), b"a??");
        assert!(Charset::named("nothing").is_err());
        assert_eq!(Charset::named("latin1").expect("known").decode(b"\xe9"), "é");
        assert_eq!(Charset::UTF_8.decode("\u{feff}x".as_bytes()), "x");
    }
}
