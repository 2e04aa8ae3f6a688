//! Post-processors: extraction of values from a response.

use super::scope::Scope;
use super::translate::Translation;
use super::tree::Element;
use crate::program::{DerivedVariable, Extraction, Extractor, Field, Text, Variable};

impl Translation<'_> {
    /// All extractors of a sampler, the outermost first.
    pub(super) fn extractors(&mut self, scope: &Scope<'_>) -> Vec<Extractor> {
        let mut extractors = Vec::new();
        for element in scope.outer_first() {
            match element.class.as_str() {
                "RegexExtractor" => extractors.extend(self.regex_extractor(element)),
                "JSONPostProcessor" => self.json_extractors(element, &mut extractors),
                "JSR223PostProcessor" | "BeanShellPostProcessor" => {
                    self.unsupported(element, "the Lab does not run scripts");
                }
                class if class.ends_with("Extractor") || class.ends_with("PostProcessor") => {
                    self.unsupported(element, "the Lab does not support this extractor");
                }
                _ => {}
            }
        }
        extractors
    }

    fn regex_extractor(&mut self, element: &Element) -> Option<Extractor> {
        if !self.applies_to_sample(element, "Sample.scope") {
            return None;
        }
        let field = match element.text("RegexExtractor.useHeaders") {
            "" | "false" => Field::Body,
            "true" => Field::Headers,
            "request_headers" => Field::RequestHeaders,
            "URL" => Field::Url,
            "code" => Field::Status,
            "message" => Field::Reason,
            other => {
                return self.supported(element, Err(format!("the Lab does not support `{other}`")));
            }
        };
        let name = self.fixed(element, "RegexExtractor.refname");
        let pattern = self.fixed(element, "RegexExtractor.regex");
        let regex = self.regex(element, &pattern)?;
        let default = self.property(element, "RegexExtractor.default");
        let empty = self.switch(element, "RegexExtractor.default_empty_value", false);
        let default =
            if empty { Some(Text::default()) } else { Some(default).filter(|d| !d.is_empty()) };
        let number = number(self.number(element, "RegexExtractor.match_number", 1));
        Some(Extractor {
            variable: self.variables.variable(name.trim()),
            rule: Extraction::Regex {
                field,
                regex,
                template: self.fixed(element, "RegexExtractor.template"),
            },
            number,
            default,
            derived: self.derived_variables(name.trim()),
        })
    }

    /// One extractor per name in a list separated by `;`.
    fn json_extractors(&mut self, element: &Element, extractors: &mut Vec<Extractor>) {
        if !self.applies_to_sample(element, "Sample.scope") {
            return;
        }
        let names = self.fixed(element, "JSONPostProcessor.referenceNames");
        let paths = self.fixed(element, "JSONPostProcessor.jsonPathExprs");
        let numbers = self.fixed(element, "JSONPostProcessor.match_numbers");
        let defaults = element.text("JSONPostProcessor.defaultValues");
        let names: Vec<&str> = names.split(';').map(str::trim).collect();
        let paths: Vec<&str> = paths.split(';').map(str::trim).collect();
        if names.len() != paths.len() {
            let message = format!("{} names for {} paths", names.len(), paths.len());
            return self.invalid(element, &message);
        }
        if self.switch(element, "JSONPostProcessor.compute_concat", false) {
            self.unsupported(element, "the Lab does not support `name_ALL`");
        }
        for (index, (name, path)) in names.iter().zip(paths).enumerate() {
            let Some(path) = self.json_path(element, path) else { continue };
            let default = defaults.split(';').nth(index).unwrap_or_default();
            let chosen =
                numbers.split(';').nth(index).map(str::trim).filter(|text| !text.is_empty());
            extractors.push(Extractor {
                variable: self.variables.variable(name),
                rule: Extraction::Json(path),
                // Without a number JMeter chooses one at random.
                number: number(chosen.and_then(|text| text.parse().ok()).unwrap_or(0)),
                default: Some(self.text(element, default)),
                derived: self.derived_variables(name),
            });
        }
    }

    /// Derived variables of an extractor that the plan uses.
    fn derived_variables(&mut self, name: &str) -> Vec<(Variable, DerivedVariable)> {
        let start = format!("{name}_");
        let mentioned = self.mentioned.iter().filter_map(|mentioned| {
            let rest = mentioned.strip_prefix(&start)?;
            let derived_variable = match rest {
                "matchNr" => DerivedVariable::Matches,
                rest => match rest.strip_prefix('g') {
                    Some(group) => DerivedVariable::Group(group.parse().ok()?),
                    None => DerivedVariable::Match(rest.parse().ok()?),
                },
            };
            Some((mentioned.clone(), derived_variable))
        });
        let mentioned: Vec<(String, DerivedVariable)> = mentioned.collect();
        let list = self.is_list(name).then(|| (name.to_owned(), DerivedVariable::All));
        let mentioned = mentioned.into_iter().chain(list);
        mentioned.map(|(name, derived)| (self.variables.variable(&name), derived)).collect()
    }
}

fn number(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(-1).max(-1)
}
