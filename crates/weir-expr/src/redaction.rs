//! The placeholder for values that were not recorded, and its location in a request.
//!
//! Masked values are lost: a request made from a recorded one must not contain the placeholder.

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt::{self, Write as _};

/// Placeholder for a value that is not recorded.
pub const MASKED: &str = "***";

/// The name of the first parameter in a query (without its question mark) whose value is the
/// placeholder, or a URL with such a parameter.
#[must_use]
pub fn in_query(query: &str) -> Option<String> {
    in_fields(query.as_bytes(), b"&", |value| in_header(value.as_bytes()))
}

/// Whether the value of a header, or of a query parameter as sent, is the placeholder, or contains
/// a URL with such a parameter.
#[must_use]
pub fn in_header(value: &[u8]) -> bool {
    let mut marks = value.windows(MASKED.len()).enumerate();
    value.trim_ascii() == MASKED.as_bytes()
        || marks.any(|(at, mark)| mark == MASKED.as_bytes() && ends_with_equals(&value[..at]))
}

/// Whether a text ends with an equals sign at any level of escaping: `=`, `%3D`, `%253D`.
fn ends_with_equals(text: &[u8]) -> bool {
    let Some(mut escape) = text.strip_suffix(b"3D").or_else(|| text.strip_suffix(b"3d")) else {
        return text.ends_with(b"=");
    };
    while let Some(shorter) = escape.strip_suffix(b"25") {
        escape = shorter;
    }
    escape.ends_with(b"%")
}

/// Location of the placeholder in a body: a JSONPath, the name of a form's field, or `its text` for
/// other bodies.
#[must_use]
pub fn in_body(body: &[u8]) -> Option<String> {
    let mut search = Search::default();
    let mut json = serde_json::Deserializer::from_slice(body);
    let whole = At(&mut search).deserialize(&mut json).is_ok() && json.end().is_ok();
    if whole || search.found.is_some() {
        return search.found;
    }
    // A form, or incomplete JSON.
    let quoted = || body.windows(5).any(|window| window == b"\"***\"");
    let is_mark = |value: &str| value.trim() == MASKED;
    in_fields(body, b"&;", is_mark).or_else(|| quoted().then(|| "its text".to_owned()))
}

/// The name of the first field with such a value, decoded.
fn in_fields(fields: &[u8], separators: &[u8], is_masked: impl Fn(&str) -> bool) -> Option<String> {
    fields.split(|byte| separators.contains(byte)).find_map(|field| {
        let equals = field.iter().position(|byte| *byte == b'=')?;
        let value = crate::url_encoding::decode(&field[equals + 1..]);
        is_masked(&value).then(|| crate::url_encoding::decode(&field[..equals]))
    })
}

/// The current path in a document, and the first placeholder.
#[derive(Default)]
struct Search {
    path: String,
    found: Option<String>,
}

impl Search {
    fn name(&mut self, name: &str) {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        // Writing to a String cannot fail.
        let _ = match !name.is_empty() && name.chars().all(plain) {
            true => write!(self.path, ".{name}"),
            false => write!(self.path, "[{}]", serde_json::Value::from(name)),
        };
    }
}

/// A value of the document; every member is visited, including duplicates.
struct At<'s>(&'s mut Search);

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        if text == MASKED && self.0.found.is_none() {
            self.0.found = Some(format!("${}", self.0.path));
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let before = self.0.path.len();
        for index in 0_usize.. {
            let _ = write!(self.0.path, "[{index}]");
            let more = items.next_element_seed(At(self.0))?;
            self.0.path.truncate(before);
            if more.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let before = self.0.path.len();
        while let Some(name) = members.next_key::<std::borrow::Cow<'_, str>>()? {
            self.0.name(&name);
            members.next_value_seed(At(self.0))?;
            self.0.path.truncate(before);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_found_wherever_it_stands_in_a_body() {
        for (body, place) in [
            (r#"{"card": {"number": "***"}}"#, Some("$.card.number")),
            (r#"{"a": [1, {"b c": "***"}]}"#, Some("$.a[1][\"b c\"]")),
            (r#"{"pin": "***", "pin": 1}"#, Some("$.pin")),
            (r#"{"pin": "\u002a**"}"#, Some("$.pin")),
            (r#""***""#, Some("$")),
            (r#"{"pin": "***","#, Some("$.pin")),
            (r#"{pin: "***"}"#, Some("its text")),
            ("a=1&card[number]=***", Some("card[number]")),
            ("a=1;pin=%2A**", Some("pin")),
            (r#"{"a": "**", "b": "a *** b", "***": 1, "c": null, "d": [true, -1, 1.5]}"#, None),
            ("a=****&b=c", None),
            ("", None),
            ("\u{0}\u{1}", None),
        ] {
            assert_eq!(in_body(body.as_bytes()).as_deref(), place, "{body}");
        }
        let deep = format!("{}\"***\"{}", "[".repeat(10_000), "]".repeat(10_000));
        assert!(in_body(deep.as_bytes()).is_some());
    }

    #[test]
    fn the_mark_is_found_in_queries_and_headers() {
        assert_eq!(in_query("a=1&pin=***").as_deref(), Some("pin"));
        assert_eq!(in_query("a=1&p%69n=%2a%2A*").as_deref(), Some("pin"));
        for nested in ["u=/a?t=***", "u=%2Fa%3Ft%3D***%26b%3D1", "u=%252Fa%253Ft%253D***&b=1"] {
            assert_eq!(in_query(nested).as_deref(), Some("u"), "{nested}");
        }
        assert_eq!(in_query("a=****&***&b=*&c=3D***"), None);
        for value in [
            "***",
            " *** ",
            "http://a/?token=***",
            "<http://a/?t=***&x=1>",
            "a=***, b",
            "/to?u=%2Fa%3Ft%3D***",
            "/to?u=%25252Fa%25253Ft%25253d***",
        ] {
            assert!(in_header(value.as_bytes()), "{value}");
        }
        for value in ["", "**", "a***", "*/*", "3D***", "253D***"] {
            assert!(!in_header(value.as_bytes()), "{value}");
        }
    }
}
