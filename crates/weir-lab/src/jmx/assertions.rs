//! Assertions: checks of a sampler's response.

use super::scope::Scope;
use super::translate::Translation;
use super::tree::Element;
use crate::jsonpath::JsonPath;
use crate::pattern::Pattern;
use crate::program::{
    Assertion, Check, CheckKind, Comparison, Field, JsonAssertion, ResponseAssertion, SizeOperator,
    Source, Text,
};

impl Translation<'_> {
    /// All assertions of a sampler, the outermost first.
    pub(super) fn checks(&mut self, scope: &Scope<'_>) -> Vec<Check> {
        let mut checks = Vec::new();
        for element in scope.outer_first() {
            let before = checks.len();
            let assertion = match element.class.as_str() {
                "ResponseAssertion" => self.response_assertion(element),
                "DurationAssertion" => {
                    Some(Assertion::Duration(self.property(element, "DurationAssertion.duration")))
                }
                "SizeAssertion" => self.size_assertion(element),
                "JSONPathAssertion" => self.json_assertion(element),
                "XMLAssertion" => Some(Assertion::Xml),
                "XPathAssertion" => self.xpath_assertion(element),
                "XPath2Assertion" => self.xpath2_assertion(element),
                "MD5HexAssertion" => {
                    Some(Assertion::Md5(self.property(element, "MD5HexAssertion.size")))
                }
                "JSR223Assertion" | "BeanShellAssertion" => {
                    let script = self.script(element);
                    self.after.checks.extend(script.map(|script| (before, script)));
                    None
                }
                "HTMLAssertion" => {
                    self.unsupported(element, "the Lab has no checker of HTML such as JTidy");
                    None
                }
                "CompareAssertion" => {
                    let message = "the Lab does not compare samples with each other";
                    self.unsupported(element, message);
                    None
                }
                class if class.ends_with("Assertion") => {
                    self.unsupported(element, "the Lab does not support this assertion");
                    None
                }
                _ => None,
            };
            let functions = self.take_functions();
            self.after.checks.extend(functions.into_iter().map(|script| (before, script)));
            checks.extend(assertion.map(|assertion| Check {
                message: None,
                kind: CheckKind::Assertion(Box::new(assertion)),
            }));
        }
        checks
    }

    fn response_assertion(&mut self, element: &Element) -> Option<Assertion> {
        let source = match self.source(element, "Assertion.scope", "")? {
            Source::Field(_) => Source::Field(match element.text("Assertion.test_field") {
                "" | "Assertion.response_data" => Field::Body,
                "Assertion.response_code" => Field::Status,
                "Assertion.response_message" => Field::Reason,
                "Assertion.response_headers" => Field::Headers,
                // The URL; the name is historical.
                "Assertion.sample_label" => Field::Url,
                "Assertion.request_headers" => Field::RequestHeaders,
                "Assertion.request_data" => Field::RequestData,
                other => {
                    let message = format!("the Lab does not support `{other}`");
                    return self.supported(element, Err(message));
                }
            }),
            variable => variable,
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
            for pattern in &patterns {
                let pattern = (pattern.clone(), "regular expression");
                self.expression(element, pattern, Pattern::new)?;
            }
        }
        Some(Assertion::Response(ResponseAssertion {
            source,
            comparison,
            patterns,
            any: bits & 32 != 0,
            not: bits & 4 != 0,
            ignore_status: self.switch(element, "Assertion.assume_success", false),
            message: self.property(element, "Assertion.custom_message"),
        }))
    }

    fn size_assertion(&mut self, element: &Element) -> Option<Assertion> {
        let source = match self.source(element, "Assertion.scope", "")? {
            Source::Field(_) => {
                let field = match element.text("Assertion.test_field") {
                    "" | "SizeAssertion.response_network_size" => None,
                    "SizeAssertion.response_data" => Some(Field::Body),
                    "SizeAssertion.response_headers" => Some(Field::HeaderBytes),
                    "SizeAssertion.response_code" => Some(Field::Status),
                    "SizeAssertion.response_message" => Some(Field::Reason),
                    other => {
                        let message = format!("the Lab does not measure `{other}`");
                        return self.supported(element, Err(message));
                    }
                };
                field.map(Source::Field)
            }
            variable => Some(variable),
        };
        let number = self.number(element, "SizeAssertion.operator", 1);
        let index = number.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        let order = index.and_then(|index| SizeOperator::ALL.get(index).copied());
        let order = order.ok_or_else(|| format!("`SizeAssertion.operator` is invalid: {number}"));
        let order = self.valid(element, order)?;
        Some(Assertion::Size { source, order, bytes: self.property(element, "SizeAssertion.size") })
    }

    fn json_assertion(&mut self, element: &Element) -> Option<Assertion> {
        let path = self.property(element, "JSON_PATH");
        let path = self.expression(element, (path, "JSON path"), JsonPath::parse)?;
        let compares = self.switch(element, "JSONVALIDATION", false);
        let expected = self.property(element, "EXPECTED_VALUE");
        let null = compares && self.switch(element, "EXPECT_NULL", false);
        let regex = self.switch(element, "ISREGEX", true);
        if regex && compares && !null {
            let pattern = (expected.clone(), "regular expression");
            self.expression(element, pattern, Pattern::new)?;
        }
        let not = self.switch(element, "INVERT", false);
        let expected = (compares && !null).then_some(expected);
        Some(Assertion::Json(JsonAssertion { path, expected, regex, null, not }))
    }

    fn xpath_assertion(&mut self, element: &Element) -> Option<Assertion> {
        if self.switch(element, "XPath.validate", false) {
            self.unsupported(element, "the Lab does not support `XPath.validate`");
        }
        let source = self.source(element, "Assertion.scope", "")?;
        let text = self.fixed(element, "XPath.xpath");
        let tolerant = self.switch(element, "XPath.tolerant", false);
        let namespaces = self.switch(element, "XPath.namespace", false);
        let query = self
            .xpath(element, &text, |query| query.tolerant(tolerant).with_namespaces(namespaces))?;
        let not = self.switch(element, "XPath.negate", false);
        Some(Assertion::XPath { source, query, not })
    }

    fn xpath2_assertion(&mut self, element: &Element) -> Option<Assertion> {
        let source = self.source(element, "Assertion.scope", "")?;
        let text = self.fixed(element, "XPath2Assertion.xpath");
        let namespaces = self.fixed(element, "XPath2Assertion.namespaces");
        let query = self.xpath(element, &text, |query| query.version2(&namespaces))?;
        let not = self.switch(element, "XPath2Assertion.negate", false);
        Some(Assertion::XPath { source, query, not })
    }
}
