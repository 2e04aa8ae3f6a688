//! Assertions: checks of a sampler's response.

use super::scope::Scope;
use super::translate::Translation;
use super::tree::{Element, Lookup as _, Property};
use crate::program::{Check, CheckKind, Comparison, Field, SizeOperator, Text};
use serde_json_path::JsonPath;
use std::time::Duration;

/// All assertions of a sampler, the outermost first.
pub(super) fn checks(translation: &mut Translation<'_>, scope: &Scope<'_>) -> Vec<Check> {
    let mut checks = Vec::new();
    for element in scope.outer_first() {
        let check = match element.class.as_str() {
            "ResponseAssertion" => response(translation, element),
            "DurationAssertion" => duration(translation, element),
            "SizeAssertion" => size(translation, element),
            "JSONPathAssertion" => json(translation, element),
            class if class.contains("JSR223") || class.contains("BeanShell") => {
                if class.ends_with("Assertion") {
                    translation.unsupported(element, "the Lab does not run scripts");
                }
                None
            }
            class if class.ends_with("Assertion") => {
                translation.unsupported(element, "the Lab does not support this assertion");
                None
            }
            _ => None,
        };
        checks.extend(check);
    }
    checks
}

fn response(translation: &mut Translation<'_>, element: &Element) -> Option<Check> {
    if !translation.applies_to_sample(element, "Assertion.scope") {
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
            translation.unsupported(element, &format!("the Lab does not support `{other}`"));
            return None;
        }
    };
    // Bits: 1 match, 2 contains, 4 not, 8 equals, 16 substring, 32 or.
    let bits = translation.number(element, "Assertion.test_type", 2);
    let comparison = match bits & !(4 | 32) {
        1 => Comparison::Matches,
        2 => Comparison::Contains,
        8 => Comparison::Equals,
        16 => Comparison::Substring,
        _ => {
            translation.invalid(element, &format!("`Assertion.test_type` is invalid: {bits}"));
            return None;
        }
    };
    // The typing error is JMeter's.
    let patterns = ["Asserion.test_strings", "Assertion.test_strings"];
    let patterns: Vec<&Property> =
        patterns.iter().flat_map(|name| element.properties.items(name)).collect();
    let patterns: Vec<Text> = patterns
        .into_iter()
        .filter_map(Property::text)
        .map(|pattern| translation.text(element, pattern))
        .collect();
    if matches!(comparison, Comparison::Contains | Comparison::Matches) {
        for pattern in patterns.iter().filter_map(Text::as_fixed) {
            translation.regex(element, pattern)?;
        }
    }
    let message = translation.property(element, "Assertion.custom_message");
    let kind = CheckKind::Text {
        field,
        comparison,
        patterns,
        any: bits & 32 != 0,
        not: bits & 4 != 0,
        ignore_status: translation.switch(element, "Assertion.assume_success", false),
    };
    Some(Check { message: (message.as_fixed() != Some("")).then_some(message), kind })
}

fn duration(translation: &mut Translation<'_>, element: &Element) -> Option<Check> {
    let millis = translation.number(element, "DurationAssertion.duration", 0);
    let millis = u64::try_from(millis).ok().filter(|millis| *millis > 0)?;
    Some(Check { message: None, kind: CheckKind::Duration(Duration::from_millis(millis)) })
}

fn size(translation: &mut Translation<'_>, element: &Element) -> Option<Check> {
    if !translation.applies_to_sample(element, "Assertion.scope") {
        return None;
    }
    let field = match element.text("Assertion.test_field") {
        "" | "SizeAssertion.response_network_size" => None,
        "SizeAssertion.response_data" => Some(Field::Body),
        "SizeAssertion.response_headers" => Some(Field::Headers),
        "SizeAssertion.response_code" => Some(Field::Status),
        "SizeAssertion.response_message" => Some(Field::Reason),
        other => {
            translation.unsupported(element, &format!("the Lab does not measure `{other}`"));
            return None;
        }
    };
    let number = translation.number(element, "SizeAssertion.operator", 1);
    let index = number.checked_sub(1).and_then(|index| usize::try_from(index).ok());
    let Some(order) = index.and_then(|index| SizeOperator::ALL.get(index).copied()) else {
        translation.invalid(element, &format!("`SizeAssertion.operator` is invalid: {number}"));
        return None;
    };
    let bytes = u64::try_from(translation.number(element, "SizeAssertion.size", 0)).unwrap_or(0);
    Some(Check { message: None, kind: CheckKind::Size { field, order, bytes } })
}

fn json(translation: &mut Translation<'_>, element: &Element) -> Option<Check> {
    let path = translation.fixed(element, "JSON_PATH");
    let path = json_path(translation, element, &path)?;
    let compares = translation.switch(element, "JSONVALIDATION", false);
    let expected = translation.property(element, "EXPECTED_VALUE");
    let null = compares && translation.switch(element, "EXPECT_NULL", false);
    let regex = translation.switch(element, "ISREGEX", true);
    if regex
        && compares
        && let Some(pattern) = expected.as_fixed()
    {
        translation.regex(element, pattern)?;
    }
    let not = translation.switch(element, "INVERT", false);
    let expected = (compares && !null).then_some(expected);
    Some(Check { message: None, kind: CheckKind::Json { path, expected, regex, null, not } })
}

/// A JSON path of a plan; the prefix `$.` is optional.
pub(super) fn json_path(
    translation: &mut Translation<'_>,
    element: &Element,
    written: &str,
) -> Option<JsonPath> {
    let written = written.trim();
    let path_text = match written.starts_with('$') {
        true => written.to_owned(),
        false => format!("$.{written}"),
    };
    match JsonPath::parse(&path_text) {
        Ok(path) => Some(path),
        Err(error) => {
            let message =
                format!("the Lab does not support this JSON path (RFC 9535): `{written}`: {error}");
            translation.unsupported(element, &message);
            None
        }
    }
}
