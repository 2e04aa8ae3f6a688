//! Post-processors: extraction of values from a response.

use super::assertions::json_path;
use super::scope::Scope;
use super::translate::Translation;
use super::tree::Element;
use crate::program::{DerivedVariable, Extraction, Extractor, Field, Text, Variable};

/// All extractors of a sampler, the outermost first.
pub(super) fn extractors(translation: &mut Translation<'_>, scope: &Scope<'_>) -> Vec<Extractor> {
    let mut extractors = Vec::new();
    for element in scope.outer_first() {
        match element.class.as_str() {
            "RegexExtractor" => extractors.extend(regex(translation, element)),
            "JSONPostProcessor" => json(translation, element, &mut extractors),
            "JSR223PostProcessor" | "BeanShellPostProcessor" => {
                translation.unsupported(element, "the Lab does not run scripts");
            }
            class if class.ends_with("Extractor") || class.ends_with("PostProcessor") => {
                translation.unsupported(element, "the Lab does not support this extractor");
            }
            _ => {}
        }
    }
    extractors
}

fn regex(translation: &mut Translation<'_>, element: &Element) -> Option<Extractor> {
    if !translation.applies_to_sample(element, "Sample.scope") {
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
            translation.unsupported(element, &format!("the Lab does not support `{other}`"));
            return None;
        }
    };
    let name = translation.fixed(element, "RegexExtractor.refname");
    let pattern = translation.fixed(element, "RegexExtractor.regex");
    let regex = translation.regex(element, &pattern)?;
    let default = translation.property(element, "RegexExtractor.default");
    let empty = translation.switch(element, "RegexExtractor.default_empty_value", false);
    let default = if empty {
        Some(Text::default())
    } else {
        (default.as_fixed() != Some("")).then_some(default)
    };
    let number = number(translation.number(element, "RegexExtractor.match_number", 1));
    Some(Extractor {
        variable: translation.variables.variable(name.trim()),
        rule: Extraction::Regex {
            field,
            regex,
            template: translation.fixed(element, "RegexExtractor.template"),
        },
        number,
        default,
        derived: derived_variables(translation, name.trim()),
    })
}

fn number(number: i64) -> i32 {
    i32::try_from(number).unwrap_or(-1).max(-1)
}

/// One extractor per name in a list separated by `;`.
fn json(translation: &mut Translation<'_>, element: &Element, extractors: &mut Vec<Extractor>) {
    if !translation.applies_to_sample(element, "Sample.scope") {
        return;
    }
    let names = translation.fixed(element, "JSONPostProcessor.referenceNames");
    let paths = translation.fixed(element, "JSONPostProcessor.jsonPathExprs");
    let numbers = translation.fixed(element, "JSONPostProcessor.match_numbers");
    let defaults = element.text("JSONPostProcessor.defaultValues").to_owned();
    let names: Vec<&str> = names.split(';').map(str::trim).collect();
    let paths: Vec<&str> = paths.split(';').map(str::trim).collect();
    if names.len() != paths.len() {
        let message = format!("{} names for {} paths", names.len(), paths.len());
        return translation.invalid(element, &message);
    }
    if translation.switch(element, "JSONPostProcessor.compute_concat", false) {
        translation.unsupported(element, "the Lab does not support `name_ALL`");
    }
    for (index, (name, path)) in names.iter().zip(paths).enumerate() {
        let Some(path) = json_path(translation, element, path) else { continue };
        let default = defaults.split(';').nth(index).unwrap_or_default().to_owned();
        let chosen = numbers.split(';').nth(index).map(str::trim).filter(|text| !text.is_empty());
        extractors.push(Extractor {
            variable: translation.variables.variable(name),
            rule: Extraction::Json(path),
            // Without a number JMeter chooses one at random.
            number: number(chosen.and_then(|text| text.parse().ok()).unwrap_or(0)),
            default: Some(translation.text(element, &default)),
            derived: derived_variables(translation, name),
        });
    }
}

/// Derived variables of an extractor that the plan uses.
fn derived_variables(
    translation: &mut Translation<'_>,
    name: &str,
) -> Vec<(Variable, DerivedVariable)> {
    let start = format!("{name}_");
    let mentioned = translation.mentioned.iter().filter_map(|mentioned| {
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
    let variables = &mut translation.variables;
    mentioned
        .into_iter()
        .map(|(name, derived_variable)| (variables.variable(&name), derived_variable))
        .collect()
}
