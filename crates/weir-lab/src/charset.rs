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
    wide: Option<Wide>,
}

/// UTF-16, which browsers do not encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wide {
    /// `UTF-16`: with a byte order mark, without one in big endian.
    Marked,
    Big,
    Little,
}

impl Charset {
    /// UTF-8.
    pub const UTF_8: Self = Self { encoding: encoding_rs::UTF_8, narrow: None, wide: None };

    /// The encoding of a name; UTF-8 for an empty one.
    ///
    /// # Errors
    /// An unknown name.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let name = name.trim();
        if name.is_empty() {
            return Ok(Self::UTF_8);
        }
        if ["utf-16", "utf16", "utf_16", "unicode"].iter().any(|n| name.eq_ignore_ascii_case(n)) {
            let (encoding, wide) = (encoding_rs::UTF_16BE, Some(Wide::Marked));
            return Ok(Self { encoding, narrow: None, wide });
        }
        let encoding = Encoding::for_label(name.as_bytes())
            .ok_or_else(|| format!("the Lab does not know the encoding `{name}`"))?;
        let narrow = match name.to_ascii_lowercase().as_str() {
            "iso-8859-1" | "iso8859-1" | "iso8859_1" | "latin1" => Some(("ISO-8859-1", 0x100)),
            "us-ascii" | "ascii" => Some(("US-ASCII", 0x80)),
            _ => None,
        };
        let wide = match encoding.name() {
            "UTF-16BE" => Some(Wide::Big),
            "UTF-16LE" => Some(Wide::Little),
            _ => None,
        };
        Ok(Self { encoding, narrow, wide })
    }

    /// Java's name.
    pub(crate) fn name(self) -> &'static str {
        match (self.wide, self.narrow) {
            (Some(Wide::Marked), _) => "UTF-16",
            (_, Some((name, _))) => name,
            _ => self.encoding.name(),
        }
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
        if let Some(wide) = self.wide {
            let mark = (wide == Wide::Marked && !text.is_empty()).then_some(0xfeff);
            let bytes = |unit: u16| match wide {
                Wide::Little => unit.to_le_bytes(),
                Wide::Big | Wide::Marked => unit.to_be_bytes(),
            };
            return Cow::Owned(
                mark.into_iter().chain(text.encode_utf16()).flat_map(bytes).collect(),
            );
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
        match self.wide {
            // Its mark may also be that of little endian.
            Some(Wide::Marked) => self.encoding.decode(bytes).0,
            _ => self.encoding.decode_with_bom_removal(bytes).0,
        }
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

    #[test]
    fn utf_16_is_encoded_as_in_java() {
        let charset = |name: &str| Charset::named(name).expect("known");
        for (name, java, bytes) in [
            ("utf-16", "UTF-16", &b"\xfe\xff\x00a \xac"[..]),
            ("UTF-16BE", "UTF-16BE", b"\x00a \xac"),
            ("UTF-16LE", "UTF-16LE", b"a\x00\xac "),
        ] {
            assert_eq!(charset(name).name(), java);
            assert_eq!(&*charset(name).encode("a€"), bytes, "{name}");
            assert_eq!(charset(name).decode(bytes), "a€", "{name}");
        }
        assert_eq!(charset("UTF-16").encode("").len(), 0);
        assert_eq!(charset("UTF-16").decode(b"\x00a"), "a");
        assert_eq!(charset("UTF-16").decode(b"\xff\xfea\x00"), "a");
        assert_eq!(&*charset("UTF-16LE").encode("😀"), b"\x3d\xd8\x00\xde");
    }
}
