//! JMeter's extractors: values of a response, or of a variable, into variables.
//!
//! An extractor with the name `v` also sets `v_matchNr`, `v_1`, `v_g`, `v_g1`, `v_1_g1` and so on,
//! by rules that differ between its kinds.

mod query;

pub(crate) use query::JmesPath;

use super::{Field, Response, Scope, Text};
use crate::budget::{Budget, MAX_EXTRACTED_BYTES};
use crate::jsonpath::{self, JsonPath};
use crate::markup::{Css, XPath};
use crate::pattern::{Groups, Pattern};
use std::borrow::Cow;
use std::sync::Arc;

/// Most evaluated matches.
const MAX_MATCHES: usize = 10_000;

/// An extractor of JMeter.
#[derive(Clone, Debug)]
pub struct PostProcessor {
    /// Name of the variable.
    pub name: String,
    /// The text.
    pub source: Source,
    /// The method.
    pub rule: Rule,
    /// Number of the match, from 1; 0 chooses one at random, a negative one takes all.
    pub number: Text,
    /// Value without a match.
    pub default: Text,
    /// An empty default value is a value, too.
    pub empty_default: bool,
    /// The program uses variables beside the one of the name.
    pub derived: bool,
}

/// A text that extractors and assertions look into.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Of the sample.
    Field(Field),
    /// The value of a variable.
    Variable(String),
}

/// Method of a [`PostProcessor`].
#[derive(Clone, Debug)]
pub enum Rule {
    /// A regular expression.
    Regex {
        /// The expression.
        pattern: Expression<Pattern>,
        /// Template of the value: `$1$` is group 1.
        template: Text,
    },
    /// The text between two texts.
    Boundary {
        /// The text before.
        left: Text,
        /// The text behind.
        right: Text,
    },
    /// A JSON path.
    Json {
        /// The path.
        path: Expression<JsonPath>,
        /// Also set `v_ALL`.
        all: bool,
    },
    /// JMESPath.
    JmesPath(Expression<Arc<JmesPath>>),
    /// A CSS selector.
    Css(Css),
    /// XPath.
    XPath(XPath),
}

/// An expression: compiled, or a text with variables that is compiled each time.
#[derive(Clone, Debug)]
pub enum Expression<E> {
    /// Compiled when the plan is read.
    Fixed(E),
    /// With variables.
    Changing(Text),
}

impl<E: Clone> Expression<E> {
    /// The compiled expression.
    pub(super) fn get(
        &self,
        scope: &mut Scope<'_>,
        compile: impl FnOnce(&str) -> Result<E, String>,
    ) -> Result<Cow<'_, E>, String> {
        match self {
            Self::Fixed(expression) => Ok(Cow::Borrowed(expression)),
            Self::Changing(text) => compile(&text.render(scope)).map(Cow::Owned),
        }
    }
}

impl Source {
    /// The text; `None` for an undefined variable.
    pub(super) fn text<'t>(&self, reply: &Response<'t>, scope: &Scope<'_>) -> Option<Cow<'t, str>> {
        match self {
            Self::Field(field) => Some(reply.string(*field)),
            Self::Variable(name) => scope.named(name).map(|value| Cow::Owned(value.to_owned())),
        }
    }

    /// Whether the body of the response is needed.
    pub(super) fn needs_body(&self) -> bool {
        matches!(self, Self::Field(Field::Body | Field::UnescapedBody))
    }
}

impl PostProcessor {
    /// Whether the body of the response is needed.
    pub fn needs_body(&self) -> bool {
        self.source.needs_body()
    }

    /// Sets the variables from a response.
    ///
    /// # Errors
    /// An exceeded limit, which fails the sample.
    pub fn apply(&self, reply: &Response<'_>, scope: &mut Scope<'_>) -> Result<(), String> {
        let number = self.number.integer(scope);
        let default = self.default.render(scope).into_owned();
        let text = self.source.text(reply, scope);
        match &self.rule {
            Rule::Regex { .. } | Rule::Boundary { .. } | Rule::Css(_) => {
                if !default.is_empty() || self.empty_default {
                    scope.set_named(&self.name, Some(default));
                }
                // With an invalid expression JMeter writes to its log, and has no match.
                let found = match text {
                    Some(text) => self.matches(&text, most(number), scope)?,
                    None => Some(Vec::new()),
                };
                if let Some(found) = found {
                    self.store(&found, number, scope);
                }
            }
            Rule::XPath(query) => {
                scope.set_named(&self.name, Some(default));
                let found = text.map_or(Ok(Vec::new()), |text| query.texts(&text, most(number)))?;
                self.store_nodes(found, number, scope);
            }
            Rule::Json { .. } | Rule::JmesPath(_) => {
                let found = match text.filter(|text| !text.trim().is_empty()) {
                    Some(text) => self.json(&text, &default, scope)?,
                    None => None,
                };
                self.store_json(found, number, default, scope);
            }
        }
        Ok(())
    }

    /// Matches in a text; `None` for an invalid expression.
    fn matches(
        &self,
        text: &str,
        most: usize,
        scope: &mut Scope<'_>,
    ) -> Result<Option<Vec<Groups>>, String> {
        Ok(match &self.rule {
            Rule::Regex { pattern, template } => {
                let Ok(pattern) = pattern.get(scope, Pattern::new) else { return Ok(None) };
                let mut found = pattern.find(text.as_bytes(), most)?;
                let template = template.render(scope);
                let mut budget = Budget::default();
                for groups in &mut found {
                    // The value is the first one, before the groups.
                    let value = fill(&template, groups);
                    budget.take(value.len())?;
                    groups.insert(0, Some(value));
                }
                Some(found)
            }
            Rule::Boundary { left, right } => {
                let (left, right) = (left.render(scope), right.render(scope));
                let found = between(text, &left, &right, most)?;
                Some(found.into_iter().map(|part| vec![Some(part)]).collect())
            }
            Rule::Css(selector) => {
                let found = selector.texts(text, most)?;
                Some(found.into_iter().map(|part| vec![Some(part)]).collect())
            }
            _ => None,
        })
    }

    /// Stores the matches of a regular expression, of boundaries or of a selector. Each has its
    /// value, then its groups.
    fn store(&self, found: &[Groups], number: i64, scope: &mut Scope<'_>) {
        let chosen = choose(found.len(), number, scope);
        let value = chosen.and_then(|at| found[at].first().cloned().flatten());
        if value.is_some() {
            scope.set_named(&self.name, value);
        }
        if !self.derived {
            return;
        }
        let count = format!("{}_matchNr", self.name);
        let before: usize = scope.named(&count).and_then(|n| n.parse().ok()).unwrap_or(0);
        scope.set_named(&count, None);
        match chosen {
            Some(at) => set_groups(&self.name, &found[at], scope),
            None => remove_groups(&self.name, scope),
        }
        let mut kept = 0;
        if number < 0 {
            kept = found.len();
            scope.set_named(&count, Some(kept.to_string()));
            for (at, groups) in found.iter().enumerate() {
                let name = format!("{}_{}", self.name, at + 1);
                scope.set_named(&name, groups.first().cloned().flatten());
                set_groups(&name, groups, scope);
            }
        }
        for at in kept + 1..=before.min(MAX_MATCHES) {
            let name = format!("{}_{at}", self.name);
            scope.set_named(&name, None);
            remove_groups(&name, scope);
        }
    }

    /// Stores the texts of nodes.
    fn store_nodes(&self, mut found: Vec<Option<String>>, number: i64, scope: &mut Scope<'_>) {
        found.truncate(MAX_MATCHES);
        if number >= 0 {
            found = choose(found.len(), number, scope)
                .map(|at| found.swap_remove(at))
                .into_iter()
                .collect();
        }
        let count = format!("{}_matchNr", self.name);
        let before: usize = scope.named(&count).and_then(|n| n.parse().ok()).unwrap_or(0);
        if let Some(first @ Some(_)) = found.first() {
            scope.set_named(&self.name, first.clone());
        }
        if !self.derived {
            return;
        }
        scope.set_named(&count, Some(found.len().to_string()));
        let kept = found.len();
        for (at, text) in found.into_iter().enumerate() {
            if text.is_some() {
                scope.set_named(&format!("{}_{}", self.name, at + 1), text);
            }
        }
        for at in kept + 1..=before.clamp(kept + 1, MAX_MATCHES + 1) {
            scope.set_named(&format!("{}_{at}", self.name), None);
        }
    }

    /// Values of a JSON text; `None` if it is not JSON.
    fn json(
        &self,
        text: &str,
        default: &str,
        scope: &mut Scope<'_>,
    ) -> Result<Option<Vec<String>>, String> {
        let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else { return Ok(None) };
        Ok(match &self.rule {
            Rule::Json { path, .. } => {
                let Ok(path) = path.get(scope, JsonPath::parse) else { return Ok(None) };
                let found = path.find(&value)?;
                // JMeter has no value for a function.
                if path.has_function() {
                    return Ok(None);
                }
                // The default value stands for `null`.
                let mut budget = Budget::default();
                let text = |value: &Cow<'_, serde_json::Value>| {
                    let text = match value.is_null() {
                        true => default.to_owned(),
                        false => jsonpath::text(value),
                    };
                    budget.take(text.len())?;
                    Ok(text)
                };
                let texts: Result<_, String> = found.iter().take(MAX_MATCHES).map(text).collect();
                Some(texts?)
            }
            Rule::JmesPath(expression) => {
                let Ok(expression) = expression.get(scope, JmesPath::parse) else {
                    return Ok(None);
                };
                return expression.texts(&value, MAX_MATCHES);
            }
            _ => None,
        })
    }

    /// Stores values of JSON; `None` if there was none to look into.
    fn store_json(
        &self,
        found: Option<Vec<String>>,
        number: i64,
        default: String,
        scope: &mut Scope<'_>,
    ) {
        let derived = |suffix: &str| format!("{}_{suffix}", self.name);
        if self.derived {
            scope.set_named(&derived("matchNr"), None);
            for at in 1..=MAX_MATCHES {
                let name = derived(&at.to_string());
                if scope.named(&name).is_none() {
                    break;
                }
                scope.set_named(&name, None);
            }
        }
        let all = matches!(self.rule, Rule::Json { all: true, .. }) && number < 0;
        let Some(found) = found else { return scope.set_named(&self.name, Some(default)) };
        // A single value is taken whatever its number.
        let chosen = match (found.len(), number) {
            (1, 0..) => Some(0),
            (length, _) => choose(length, number, scope),
        };
        match chosen {
            Some(at) => scope.set_named(&self.name, Some(found[at].clone())),
            None if number >= 0 || found.is_empty() => {
                scope.set_named(&self.name, Some(default));
            }
            None => {}
        }
        if all {
            scope.set_named(&derived("ALL"), Some(found.join(",")));
        }
        if !self.derived {
            return;
        }
        let is_jmespath = matches!(self.rule, Rule::JmesPath(_));
        if number != 0 || found.is_empty() || is_jmespath {
            scope.set_named(&derived("matchNr"), Some(found.len().to_string()));
        }
        if number < 0 {
            for (at, text) in found.into_iter().enumerate() {
                scope.set_named(&derived(&(at + 1).to_string()), Some(text));
            }
        }
    }
}

/// Number of matches that are needed: up to the chosen one, or all.
fn most(number: i64) -> usize {
    match usize::try_from(number) {
        Ok(number @ 1..) => number.min(MAX_MATCHES),
        _ => MAX_MATCHES,
    }
}

/// Index of the chosen match: none for a negative number, which takes all.
fn choose(length: usize, number: i64, scope: &mut Scope<'_>) -> Option<usize> {
    match number {
        _ if length == 0 => None,
        0 => Some(scope.values.random().usize(..length)),
        1.. => usize::try_from(number - 1).ok().filter(|at| *at < length),
        _ => None,
    }
}

/// Sets `name_g`, `name_g0` and so on from a match that starts with its value.
fn set_groups(name: &str, found: &Groups, scope: &mut Scope<'_>) {
    let Some(groups) = found.get(1..).filter(|groups| !groups.is_empty()) else { return };
    let count = format!("{name}_g");
    let before: usize = scope.named(&count).and_then(|n| n.parse().ok()).unwrap_or(0);
    for (at, group) in groups.iter().enumerate() {
        scope.set_named(&format!("{name}_g{at}"), group.clone());
    }
    scope.set_named(&count, Some((groups.len() - 1).to_string()));
    for at in groups.len()..=before.min(MAX_MATCHES) {
        scope.set_named(&format!("{name}_g{at}"), None);
    }
}

fn remove_groups(name: &str, scope: &mut Scope<'_>) {
    let count = format!("{name}_g");
    let before: usize = scope.named(&count).and_then(|n| n.parse().ok()).unwrap_or(0);
    scope.set_named(&count, None);
    for at in 0..=before.min(MAX_MATCHES) {
        scope.set_named(&format!("{name}_g{at}"), None);
    }
}

/// Applies a template to a match: `$1$` is group 1. A group without a part is `null`.
pub(super) fn fill(template: &str, groups: &Groups) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('$') {
        text.push_str(before);
        let group = behind.split_once('$').and_then(|(group, behind)| {
            let digits = !group.is_empty() && group.bytes().all(|byte| byte.is_ascii_digit());
            Some((group.parse::<usize>().ok().filter(|_| digits)?, behind))
        });
        match group {
            Some((group, behind)) => {
                let part = groups.get(group).and_then(Option::as_deref);
                text.push_str(part.unwrap_or("null"));
                // Too large for any use.
                if text.len() > MAX_EXTRACTED_BYTES {
                    return text;
                }
                rest = behind;
            }
            None => {
                text.push('$');
                rest = behind;
            }
        }
    }
    text.push_str(rest);
    text
}

/// The texts between two boundaries. An empty boundary is the start or the end of the text.
fn between(text: &str, left: &str, right: &str, most: usize) -> Result<Vec<String>, String> {
    let owned = |part: &str| vec![part.to_owned()];
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    match (left.is_empty(), right.is_empty()) {
        (true, true) => return Ok(owned(text)),
        (true, false) => {
            return Ok(text.split_once(right).map_or_else(Vec::new, |(part, _)| owned(part)));
        }
        (false, true) => {
            return Ok(text.split_once(left).map_or_else(Vec::new, |(_, part)| owned(part)));
        }
        (false, false) => {}
    }
    let (mut found, mut budget) = (Vec::new(), Budget::default());
    let mut rest = text;
    while let Some((_, behind)) = rest.split_once(left) {
        let Some((part, _)) = behind.split_once(right) else { break };
        budget.take(part.len())?;
        found.push(part.to_owned());
        if found.len() >= most {
            break;
        }
        rest = behind;
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
