//! Assertions: checks of a sampler's response.

use super::scope::Scope;
use super::translate::Translation;
use super::tree::Element;
use crate::program::{
    Check, CheckKind, Comparison, Field, JsonCheck, SizeOperator, Text, TextCheck,
};
use serde_json_path::JsonPath;
use std::time::Duration;

impl Translation<'_> {
    /// All assertions of a sampler, the outermost first.
    pub(super) fn checks(&mut self, scope: &Scope<'_>) -> Vec<Check> {
        let mut checks = Vec::new();
        for element in scope.outer_first() {
            let check = match element.class.as_str() {
                "ResponseAssertion" => self.response_assertion(element),
                "DurationAssertion" => self.duration_assertion(element),
                "SizeAssertion" => self.size_assertion(element),
                "JSONPathAssertion" => self.json_assertion(element),
                class if class.contains("JSR223") || class.contains("BeanShell") => {
                    if class.ends_with("Assertion") {
                        self.unsupported(element, "the Lab does not run scripts");
                    }
                    None
                }
                class if class.ends_with("Assertion") => {
                    self.unsupported(element, "the Lab does not support this assertion");
                    None
                }
                _ => None,
            };
            checks.extend(check);
        }
        checks
    }

    fn response_assertion(&mut self, element: &Element) -> Option<Check> {
        if !self.applies_to_sample(element, "Assertion.scope") {
            return None;
        }
        let field = match element.text("Assertion.test_field") {
            "" | "Assertion.response_data" => Field::Body,
            "Assertion.response_code" => Field::Status,
            "Assertion.response_message" => Field::Reason,
            "Assertion.response_headers" => Field::Headers,
            // The URL; the name is historical.
            "Assertion.sample_label" => Field::Url,
            "Assertion.request_headers" => Field::RequestHeaders,
            "Assertion.request_data" => Field::RequestBody,
            other => {
                return self.supported(element, Err(format!("the Lab does not support `{other}`")));
            }
        };
        // Bits: 1 match, 2 contains, 4 not, 8 equals, 16 substring, 32 or.
        let bits = self.number(element, "Assertion.test_type", 2);
        let comparison = match bits & !(4 | 32) {
            1 => Comparison::Matches,
            2 => Comparison::Contains,
            8 => Comparison::Equals,
            16 => Comparison::Substring,
            _ => {
                let problem = format!("`Assertion.test_type` is invalid: {bits}");
                return self.valid(element, Err(problem));
            }
        };
        // The typing error is JMeter's.
        let patterns = ["Asserion.test_strings", "Assertion.test_strings"];
        let patterns = patterns.iter().flat_map(|name| element.properties.texts(name));
        let patterns: Vec<Text> = patterns.map(|pattern| self.text(element, pattern)).collect();
        if matches!(comparison, Comparison::Contains | Comparison::Matches) {
            for pattern in patterns.iter().filter_map(Text::as_fixed) {
                self.regex(element, pattern)?;
            }
        }
        let message = self.property(element, "Assertion.custom_message");
        let kind = CheckKind::Text(TextCheck {
            field,
            comparison,
            patterns,
            any: bits & 32 != 0,
            not: bits & 4 != 0,
            ignore_status: self.switch(element, "Assertion.assume_success", false),
        });
        Some(Check { message: Some(message).filter(|message| !message.is_empty()), kind })
    }

    fn duration_assertion(&mut self, element: &Element) -> Option<Check> {
        let millis = self.number(element, "DurationAssertion.duration", 0);
        let millis = u64::try_from(millis).ok().filter(|millis| *millis > 0)?;
        Some(CheckKind::Duration(Duration::from_millis(millis)).into())
    }

    fn size_assertion(&mut self, element: &Element) -> Option<Check> {
        if !self.applies_to_sample(element, "Assertion.scope") {
            return None;
        }
        let field = match element.text("Assertion.test_field") {
            "" | "SizeAssertion.response_network_size" => None,
            "SizeAssertion.response_data" => Some(Field::Body),
            "SizeAssertion.response_headers" => Some(Field::Headers),
            "SizeAssertion.response_code" => Some(Field::Status),
            "SizeAssertion.response_message" => Some(Field::Reason),
            other => {
                return self.supported(element, Err(format!("the Lab does not measure `{other}`")));
            }
        };
        let number = self.number(element, "SizeAssertion.operator", 1);
        let index = number.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        let order = index.and_then(|index| SizeOperator::ALL.get(index).copied());
        let order = order.ok_or_else(|| format!("`SizeAssertion.operator` is invalid: {number}"));
        let order = self.valid(element, order)?;
        let bytes = u64::try_from(self.number(element, "SizeAssertion.size", 0)).unwrap_or(0);
        Some(CheckKind::Size { field, order, bytes }.into())
    }

    fn json_assertion(&mut self, element: &Element) -> Option<Check> {
        let path = self.fixed(element, "JSON_PATH");
        let path = self.json_path(element, &path)?;
        let compares = self.switch(element, "JSONVALIDATION", false);
        let expected = self.property(element, "EXPECTED_VALUE");
        let null = compares && self.switch(element, "EXPECT_NULL", false);
        let regex = self.switch(element, "ISREGEX", true);
        if regex
            && compares
            && let Some(pattern) = expected.as_fixed()
        {
            self.regex(element, pattern)?;
        }
        let not = self.switch(element, "INVERT", false);
        let expected = (compares && !null).then_some(expected);
        Some(CheckKind::Json(JsonCheck { path, expected, regex, null, not }).into())
    }

    /// A JSON path of a plan; the prefix `$.` is optional.
    pub(super) fn json_path(&mut self, element: &Element, written: &str) -> Option<JsonPath> {
        let written = written.trim();
        let path_text = match written.starts_with('$') {
            true => written.to_owned(),
            false => format!("$.{written}"),
        };
        let path = JsonPath::parse(&path_text).map_err(|error| {
            format!("the Lab does not support this JSON path (RFC 9535): `{written}`: {error}")
        });
        self.supported(element, path)
    }
}
