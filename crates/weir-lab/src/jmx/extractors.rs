//! Post-processors: extraction of values from a response.

use super::scope::Scope;
use super::translate::Translation;
use super::tree::Element;
use crate::jsonpath::JsonPath;
use crate::markup::{Css, XPath};
use crate::pattern::Pattern;
use crate::program::{Expression, Field, JmesPath, PostProcessor, Rule, Source, Text};

/// Names of the properties of an extractor with a match number and a default value.
struct Names {
    variable: &'static str,
    number: &'static str,
    default: &'static str,
    empty_default: &'static str,
    /// The property of the field; empty if the extractor has no choice.
    field: &'static str,
}

const REGEX: Names = Names {
    variable: "RegexExtractor.refname",
    number: "RegexExtractor.match_number",
    default: "RegexExtractor.default",
    empty_default: "RegexExtractor.default_empty_value",
    field: "RegexExtractor.useHeaders",
};
const BOUNDARY: Names = Names {
    variable: "BoundaryExtractor.refname",
    number: "BoundaryExtractor.match_number",
    default: "BoundaryExtractor.default",
    empty_default: "BoundaryExtractor.default_empty_value",
    field: "BoundaryExtractor.useHeaders",
};
const CSS: Names = Names {
    variable: "HtmlExtractor.refname",
    number: "HtmlExtractor.match_number",
    default: "HtmlExtractor.default",
    empty_default: "HtmlExtractor.default_empty_value",
    field: "",
};
const XPATH: Names = Names {
    variable: "XPathExtractor.refname",
    number: "XPathExtractor.matchNumber",
    default: "XPathExtractor.default",
    empty_default: "",
    field: "",
};
const XPATH2: Names = Names {
    variable: "XPathExtractor2.refname",
    number: "XPathExtractor2.matchNumber",
    default: "XPathExtractor2.default",
    empty_default: "",
    field: "",
};
const JMESPATH: Names = Names {
    variable: "JMESExtractor.referenceName",
    number: "JMESExtractor.matchNumber",
    default: "JMESExtractor.defaultValue",
    empty_default: "",
    field: "",
};

/// Names of variables that an extractor sets, as far as the plan says them.
pub(super) fn variables(element: &Element) -> Vec<&str> {
    match element.class.as_str() {
        "JSONPostProcessor" => {
            element.text("JSONPostProcessor.referenceNames").split(';').collect()
        }
        "RegexExtractor" => vec![element.text(REGEX.variable)],
        "BoundaryExtractor" => vec![element.text(BOUNDARY.variable)],
        "HtmlExtractor" => vec![element.text(CSS.variable)],
        "XPathExtractor" => vec![element.text(XPATH.variable)],
        "XPath2Extractor" => vec![element.text(XPATH2.variable)],
        "JMESPathExtractor" => vec![element.text(JMESPATH.variable)],
        _ => Vec::new(),
    }
}

impl Translation<'_> {
    /// All extractors of a sampler, the outermost first.
    pub(super) fn post_processors(&mut self, scope: &Scope<'_>) -> Vec<PostProcessor> {
        let mut found = Vec::new();
        for element in scope.outer_first() {
            let before = found.len();
            match element.class.as_str() {
                "RegexExtractor" => found.extend(self.regex_extractor(element)),
                "BoundaryExtractor" => found.extend(self.boundary_extractor(element)),
                "HtmlExtractor" => found.extend(self.css_extractor(element)),
                "XPathExtractor" => found.extend(self.xpath_extractor(element)),
                "XPath2Extractor" => found.extend(self.xpath2_extractor(element)),
                "JMESPathExtractor" => found.extend(self.jmespath_extractor(element)),
                "JSONPostProcessor" => self.json_extractors(element, &mut found),
                "JSR223PostProcessor" | "BeanShellPostProcessor" => {
                    let script = self.script(element);
                    self.after.processors.extend(script.map(|script| (before, script)));
                }
                // Of listeners and of the debugging of plans.
                "DebugPostProcessor" => {}
                class if class.ends_with("Extractor") || class.ends_with("PostProcessor") => {
                    self.unsupported(element, "the Lab does not support this extractor");
                }
                _ => {}
            }
            let functions = self.take_functions();
            self.after.processors.extend(functions.into_iter().map(|script| (before, script)));
        }
        found
    }

    fn extractor(&mut self, element: &Element, names: &Names, rule: Rule) -> Option<PostProcessor> {
        let source = self.source(element, "Sample.scope", names.field)?;
        let name = self.fixed(element, names.variable).trim().to_owned();
        self.variables.variable(&name);
        let number = match element.text(names.number).trim() {
            // JMeter's defaults.
            "" if names.variable.starts_with("XPath") => Text::fixed("-1"),
            _ => self.property(element, names.number),
        };
        let empty_default =
            !names.empty_default.is_empty() && self.switch(element, names.empty_default, false);
        Some(PostProcessor {
            source,
            rule,
            number,
            default: self.property(element, names.default),
            empty_default,
            derived: self.uses_derived(&name),
            name,
        })
    }

    /// The text that an element looks into: of the sample, or of a variable.
    pub(super) fn source(&mut self, element: &Element, scope: &str, field: &str) -> Option<Source> {
        if element.text(scope) == "variable" {
            let variable = self.fixed(element, "Scope.variable").trim().to_owned();
            self.variables.variable(&variable);
            return Some(Source::Variable(variable));
        }
        if !self.applies_to_sample(element, scope) {
            return None;
        }
        let field = if field.is_empty() { "" } else { element.text(field) };
        let field = match field.to_ascii_lowercase().as_str() {
            "" | "false" => Field::Body,
            "true" => Field::Headers,
            "request_headers" => Field::RequestHeaders,
            "url" => Field::Url,
            "code" => Field::Status,
            "message" => Field::Reason,
            "unescaped" => Field::UnescapedBody,
            other => {
                return self.supported(element, Err(format!("the Lab does not support `{other}`")));
            }
        };
        Some(Source::Field(field))
    }

    /// An expression that is compiled now, or each time if it has variables.
    pub(super) fn expression<E>(
        &mut self,
        element: &Element,
        (text, kind): (Text, &str),
        compile: impl FnOnce(&str) -> Result<E, String>,
    ) -> Option<Expression<E>> {
        let Some(fixed) = text.as_fixed() else { return Some(Expression::Changing(text)) };
        let compiled = compile(fixed)
            .map_err(|reason| format!("the Lab does not support this {kind}: `{fixed}`: {reason}"));
        self.supported(element, compiled).map(Expression::Fixed)
    }

    fn regex_extractor(&mut self, element: &Element) -> Option<PostProcessor> {
        let text = self.property(element, "RegexExtractor.regex");
        let pattern = self.expression(element, (text, "regular expression"), Pattern::new)?;
        let template = self.property(element, "RegexExtractor.template");
        self.extractor(element, &REGEX, Rule::Regex { pattern, template })
    }

    fn boundary_extractor(&mut self, element: &Element) -> Option<PostProcessor> {
        let rule = Rule::Boundary {
            left: self.property(element, "BoundaryExtractor.lboundary"),
            right: self.property(element, "BoundaryExtractor.rboundary"),
        };
        self.extractor(element, &BOUNDARY, rule)
    }

    fn css_extractor(&mut self, element: &Element) -> Option<PostProcessor> {
        let selector = self.fixed(element, "HtmlExtractor.expr");
        let attribute = self.fixed(element, "HtmlExtractor.attribute");
        let css = Css::parse(&selector, attribute.trim()).map_err(|reason| {
            format!("the Lab does not support this CSS selector: `{selector}`: {reason}")
        });
        let css = self.supported(element, css)?;
        self.extractor(element, &CSS, Rule::Css(css))
    }

    fn xpath_extractor(&mut self, element: &Element) -> Option<PostProcessor> {
        for option in ["XPathExtractor.fragment", "XPathExtractor.validate"] {
            if self.switch(element, option, false) {
                self.unsupported(element, &format!("the Lab does not support `{option}`"));
            }
        }
        let text = self.fixed(element, "XPathExtractor.xpathQuery");
        let tolerant = self.switch(element, "XPathExtractor.tolerant", false);
        let namespaces = self.switch(element, "XPathExtractor.namespace", false);
        let query = self
            .xpath(element, &text, |query| query.tolerant(tolerant).with_namespaces(namespaces))?;
        self.extractor(element, &XPATH, Rule::XPath(query))
    }

    fn xpath2_extractor(&mut self, element: &Element) -> Option<PostProcessor> {
        if self.switch(element, "XPathExtractor2.fragment", false) {
            self.unsupported(element, "the Lab does not support `XPathExtractor2.fragment`");
        }
        let text = self.fixed(element, "XPathExtractor2.xpathQuery");
        let namespaces = self.fixed(element, "XPathExtractor2.namespaces");
        let query = self.xpath(element, &text, |query| query.version2(&namespaces))?;
        self.extractor(element, &XPATH2, Rule::XPath(query))
    }

    /// A compiled XPath with its options.
    pub(super) fn xpath(
        &mut self,
        element: &Element,
        text: &str,
        options: impl FnOnce(XPath) -> XPath,
    ) -> Option<XPath> {
        let query = XPath::parse(text)
            .map_err(|reason| format!("the Lab does not support this XPath: `{text}`: {reason}"));
        self.supported(element, query).map(options)
    }

    fn jmespath_extractor(&mut self, element: &Element) -> Option<PostProcessor> {
        let text = self.property(element, "JMESExtractor.jmesPathExpr");
        let compiled = self.expression(element, (text, "JMESPath"), JmesPath::parse)?;
        self.extractor(element, &JMESPATH, Rule::JmesPath(compiled))
    }

    /// One extractor per name in a list separated by `;`.
    fn json_extractors(&mut self, element: &Element, found: &mut Vec<PostProcessor>) {
        let Some(source) = self.source(element, "Sample.scope", "") else { return };
        let raw = |name: &str| element.text(&format!("JSONPostProcessor.{name}")).to_owned();
        let (names, paths, numbers, defaults) = (
            raw("referenceNames"),
            raw("jsonPathExprs"),
            raw("match_numbers"),
            raw("defaultValues"),
        );
        let names: Vec<&str> = names.split(';').map(str::trim).collect();
        let paths: Vec<&str> = paths.split(';').map(str::trim).collect();
        if names.len() != paths.len() {
            let message = format!("{} names for {} paths", names.len(), paths.len());
            return self.invalid(element, &message);
        }
        let all = self.switch(element, "JSONPostProcessor.compute_concat", false);
        for (index, (name, path)) in names.iter().zip(paths).enumerate() {
            let path = self.text(element, path);
            let Some(path) = self.expression(element, (path, "JSON path"), JsonPath::parse) else {
                continue;
            };
            let part = |list: &str| list.split(';').nth(index).unwrap_or_default().to_owned();
            // Without a number JMeter chooses one at random.
            let number = self.text(element, part(&numbers).trim());
            let name = self.fixed_text(element, name, "JSONPostProcessor.referenceNames");
            self.variables.variable(&name);
            found.push(PostProcessor {
                source: source.clone(),
                rule: Rule::Json { path, all },
                number,
                default: self.text(element, &part(&defaults)),
                empty_default: true,
                derived: self.uses_derived(&name),
                name,
            });
        }
    }

    /// Whether the plan uses variables such as `name_1` or `name_matchNr`. They get their places.
    fn uses_derived(&mut self, name: &str) -> bool {
        let start = format!("{name}_");
        let is_derived = |rest: &str| {
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            let group =
                |text: &str| text.strip_prefix('g').is_some_and(|g| g.is_empty() || digits(g));
            let (first, second) = rest.split_once('_').unwrap_or((rest, "g"));
            matches!(rest, "matchNr" | "ALL") || group(rest) || digits(first) && group(second)
        };
        let mentioned = self.mentioned.iter();
        let mentioned = mentioned.filter(|m| m.strip_prefix(&start).is_some_and(is_derived));
        let mentioned: Vec<String> = mentioned.cloned().collect();
        if mentioned.is_empty() {
            return self.variables.program.dynamic_names;
        }
        for name in mentioned {
            // The number of groups says which ones of an earlier match have to go.
            if let Some((match_name, _)) = name.rsplit_once("_g") {
                self.variables.variable(&format!("{match_name}_g"));
            }
            self.variables.variable(&name);
        }
        self.variables.variable(&format!("{name}_matchNr"));
        true
    }
}
