//! Redaction of bodies: values are replaced before a body is recorded.
//!
//! In JSON, the value at a path is replaced in place, under every duplicate of its name, so that a
//! duplicate cannot hide it; with paths that need a tree, the body is rewritten. In a form, a field
//! is masked if its name contains the last name of a path: `number`, `card.number` and
//! `card[number]` match `$.card.number`. A body that cannot be parsed with certainty is an error
//! and must not be recorded.

use crate::map::pass::{self, Ranges, Selection};
use crate::map::path::{self, Path, Step};
use crate::redaction::MASKED;
use serde_json::Value;
use serde_json_path::JsonPath;
use std::borrow::Cow;
use std::io::Write;

/// The paths under `mask.body`, compiled.
#[derive(Default)]
pub struct BodyMask {
    /// As written.
    paths: Vec<String>,
    /// Paths of names and indexes.
    selection: Selection,
    /// Other paths.
    tree: Vec<JsonPath>,
    /// Last names of the paths, which are masked in forms.
    names: Vec<String>,
    /// A path does not end in a name: forms cannot be masked.
    unnamed: bool,
}

/// A body that cannot be masked for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body cannot be read")]
pub struct Unreadable;

/// Cost of masking a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathCost {
    /// One pass.
    Pass,
    /// A tree of the entire body.
    Tree,
}

impl std::fmt::Debug for BodyMask {
    /// As written.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.paths).finish()
    }
}

impl BodyMask {
    /// Adds a path.
    ///
    /// # Errors
    /// The path is invalid: the fault.
    pub fn add(&mut self, text: &str) -> Result<PathCost, String> {
        let (cost, name) = match path::parse(text)? {
            Path::Steps(steps) => {
                self.selection.add(&steps, 0);
                let mut names = steps.into_iter().rev().filter_map(|step| match step {
                    Step::Name(name) => Some(name),
                    Step::Index(_) => None,
                });
                (PathCost::Pass, names.next())
            }
            Path::Tree { path, .. } => {
                self.tree.push(path);
                (PathCost::Tree, last_name(text))
            }
        };
        self.paths.push(text.to_owned());
        match name {
            Some(name) => self.names.push(name),
            None => self.unnamed = true,
        }
        Ok(cost)
    }

    /// Whether nothing is masked.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Whether masking JSON needs a tree of the entire body.
    pub fn needs_tree(&self) -> bool {
        !self.tree.is_empty()
    }

    /// A JSON body with masked values replaced by `"***"`.
    ///
    /// # Errors
    /// The body is not valid JSON.
    pub fn json<'b>(&self, body: &'b [u8]) -> Result<Cow<'b, [u8]>, Unreadable> {
        let text = std::str::from_utf8(body).map_err(|_| Unreadable)?;
        let mut ranges = Ranges::new(text);
        pass::read(text, &self.selection, &mut ranges).map_err(|_| Unreadable)?;
        let ranges = ranges.outermost();
        let mut masked = Cow::Borrowed(body);
        if !ranges.is_empty() {
            let mut out = Vec::with_capacity(body.len());
            let mut at = 0;
            for range in ranges {
                out.extend_from_slice(&body[at..range.start]);
                // Writing to a Vec cannot fail.
                let _ = write!(out, "\"{MASKED}\"");
                at = range.end;
            }
            out.extend_from_slice(&body[at..]);
            masked = Cow::Owned(out);
        }
        if self.needs_tree() { self.in_tree(&masked).map(Cow::Owned) } else { Ok(masked) }
    }

    /// A tree has only the last of duplicate names, so the output cannot contain the others.
    fn in_tree(&self, body: &[u8]) -> Result<Vec<u8>, Unreadable> {
        let mut tree: Value = serde_json::from_slice(body).map_err(|_| Unreadable)?;
        let mut pointers = Vec::new();
        for path in &self.tree {
            let located = path.query_located(&tree);
            pointers.extend(located.locations().map(|location| location.to_json_pointer()));
        }
        for pointer in pointers {
            // A value inside an already masked value no longer exists.
            if let Some(value) = tree.pointer_mut(&pointer) {
                *value = Value::from(MASKED);
            }
        }
        serde_json::to_vec(&tree).map_err(|_| Unreadable)
    }

    /// A form (`application/x-www-form-urlencoded`) with the values of masked fields replaced.
    ///
    /// # Errors
    /// A path does not end in a name, or the body is not a form: clients declare any body as a
    /// form.
    pub fn form(&self, body: &[u8]) -> Result<Vec<u8>, Unreadable> {
        if self.unnamed || body.iter().any(|byte| is_never_in_form(*byte)) {
            return Err(Unreadable);
        }
        let mut out = Vec::with_capacity(body.len());
        // Some servers also accept a semicolon as separator.
        for field in body.split_inclusive(|byte| matches!(byte, b'&' | b';')) {
            let (value, end) = match field {
                [value @ .., end @ (b'&' | b';')] => (value, Some(*end)),
                value => (value, None),
            };
            let equals = value.iter().position(|byte| *byte == b'=');
            let name = &value[..equals.unwrap_or(value.len())];
            if self.masks_field(name) && equals.is_some() {
                out.extend_from_slice(name);
                out.push(b'=');
                out.extend_from_slice(MASKED.as_bytes());
            } else {
                out.extend_from_slice(value);
            }
            out.extend(end);
        }
        Ok(out)
    }

    fn masks_field(&self, name: &[u8]) -> bool {
        let name = crate::url_encoding::decode(name);
        name.split(['[', ']', '.']).any(|part| self.names.iter().any(|masked| masked == part))
    }
}

/// Bytes that a form contains only in escaped form (WHATWG URL section 5.2), and that JSON, XML and
/// text usually contain.
fn is_never_in_form(byte: u8) -> bool {
    matches!(byte, b'{' | b'}' | b'"' | b'<' | b'>') || !byte.is_ascii_graphic()
}

/// The plainly written name at the end of a path that is not singular.
fn last_name(path: &str) -> Option<String> {
    let name = path.rsplit('.').next()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii();
    (!name.is_empty() && name.chars().all(plain)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::tests::{document, path};
    use proptest::prelude::*;

    fn mask(paths: &[&str]) -> BodyMask {
        let mut mask = BodyMask::default();
        for path in paths {
            mask.add(path).unwrap();
        }
        mask
    }

    fn json(paths: &[&str], body: &str) -> Option<String> {
        let masked = mask(paths).json(body.as_bytes()).ok()?;
        Some(String::from_utf8(masked.into_owned()).unwrap())
    }

    #[test]
    fn values_are_masked_where_they_stand() {
        let body = r#"{ "card": {"number": 4111, "name": "x"}, "pins": [1, {"a": 2}] }"#;
        let masked = json(&["$.card.number", "$.pins[1]", "$.none"], body).unwrap();
        assert_eq!(masked, r#"{ "card": {"number": "***", "name": "x"}, "pins": [1, "***"] }"#);
        let masked = json(&["$.card", "$.card.number"], body).unwrap();
        assert_eq!(masked, r#"{ "card": "***", "pins": [1, {"a": 2}] }"#);
        assert_eq!(json(&["$.other"], body).unwrap(), body);
        assert_eq!(json(&["$"], "4111").unwrap(), "\"***\"");
    }

    #[test]
    fn no_duplicate_and_no_spelling_hides_anything() {
        let body = r#"{"pin": 1, "p\u0069n": 2, "pin": {"pin": 3}, "a": {"pin": 4}}"#;
        let masked = json(&["$.pin"], body).unwrap();
        assert_eq!(masked, r#"{"pin": "***", "p\u0069n": "***", "pin": "***", "a": {"pin": 4}}"#);
        let masked = json(&["$..pin"], body).unwrap();
        assert_eq!(masked, r#"{"pin":"***","a":{"pin":"***"}}"#);
    }

    #[test]
    fn what_is_not_json_as_a_whole_is_refused() {
        for body in ["", "{", "{} {}", "<a/>", "{\"pin\": 1", "\u{feff}{}", "pin=1"] {
            for paths in [["$.pin"], ["$..pin"]] {
                assert_eq!(json(&paths, body), None, "{body}");
            }
        }
        assert!(mask(&["$.a"]).json(b"{\"a\": \"\xff\"}").is_err());
        let deep = format!("{}{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
        assert_eq!(json(&["$.a.a.a"], &deep), None);
    }

    #[test]
    fn fields_of_a_form_are_masked_by_their_last_names() {
        let form = |paths: &[&str], body: &str| {
            mask(paths).form(body.as_bytes()).map(|masked| String::from_utf8(masked).unwrap())
        };
        let body = "number=1&card[number]=2&card.number=3;n%75mber=4&numbers=5&number&a=b";
        let masked = form(&["$.card.number", "$.x[*].a"], body).unwrap();
        assert_eq!(
            masked,
            "number=***&card[number]=***&card.number=***;n%75mber=***&numbers=5&number&a=***"
        );
        for other in [
            r#"{"number":"4111"}"#,
            r#"a=b&{"number":4111}"#,
            "[4111,\"a\"]",
            "<number>4111</number>",
            "number: 4111",
            "number=4111\r\n",
            "number\u{7f}",
            "number=ä",
        ] {
            assert_eq!(form(&["$.number"], other), Err(Unreadable), "{other}");
        }
        assert_eq!(form(&["$.number"], "").as_deref(), Ok(""));
        assert_eq!(form(&["$[0]"], body), Err(Unreadable));
        assert_eq!(form(&["$.a", "$..*"], body), Err(Unreadable));
    }

    proptest! {
        /// Masking in the text and masking in a tree have the same result.
        #[test]
        fn a_mask_does_what_it_would_do_to_a_tree(
            body in document(),
            paths in prop::collection::vec(path(), 1..4),
        ) {
            let texts: Vec<&str> = paths.iter().map(String::as_str).collect();
            let masked = json(&texts, &body).expect("valid JSON");
            let mut expected: Value = serde_json::from_str(&body).expect("valid JSON");
            let pointers: Vec<String> = paths
                .iter()
                .flat_map(|path| {
                    let path = JsonPath::parse(path).expect("a path");
                    let found = path.query_located(&expected);
                    found.locations().map(|one| one.to_json_pointer()).collect::<Vec<_>>()
                })
                .collect();
            for pointer in pointers {
                if let Some(value) = expected.pointer_mut(&pointer) {
                    *value = Value::from(MASKED);
                }
            }
            let masked: Value = serde_json::from_str(&masked).expect("valid JSON");
            prop_assert_eq!(masked, expected);
        }
    }
}
