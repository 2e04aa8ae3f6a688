//! Extraction of values from a response into variables.

use super::check::json_text;
use super::{Field, Response, Scope, Text, Variable};
use regex::bytes::Regex;
use serde_json_path::JsonPath;

/// Largest number of evaluated matches.
const MAX_MATCHES: usize = 10_000;

/// Extracts a value from a response.
#[derive(Clone, Debug)]
pub struct Extractor {
    /// The variable. With [`Extractor::number`] of 0 or less there are also `name_N`, `name_gN`,
    /// `name_matchNr` as in JMeter: see [`Extractor::derived`].
    pub variable: Variable,
    /// The method.
    pub rule: Extraction,
    /// Number of the match, from 1; 0 chooses one at random, -1 takes all.
    pub number: i32,
    /// Value without a match; by default the variable is unchanged.
    pub default: Option<Text>,
    /// Derived variables: only those used by the program.
    pub derived: Vec<(Variable, DerivedVariable)>,
}

/// A derived variable of an extractor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DerivedVariable {
    /// Number of matches (`name_matchNr`).
    Matches,
    /// Match `n`, from 1, with `number` -1 (`name_1`).
    Match(u32),
    /// Group `n` of the chosen match, 0 is the entire match (`name_g1`).
    Group(u32),
    /// All matches, with `number` -1, for a loop over them.
    All,
}

/// Extraction method.
#[derive(Clone, Debug)]
pub enum Extraction {
    /// By a regular expression.
    Regex {
        /// The text.
        field: Field,
        /// The expression.
        regex: Regex,
        /// Template of the value: `$1$` is group 1 (as in JMeter). If empty: group 1 if it exists,
        /// otherwise the entire match.
        template: String,
    },
    /// By a JSON path in the body.
    Json(JsonPath),
    /// The value of a header field of the response.
    Header(String),
}

/// A match: the entire match, then its groups.
type Match = Vec<String>;

impl Extractor {
    /// Whether the body of the response is needed.
    pub fn needs_body(&self) -> bool {
        match &self.rule {
            Extraction::Regex { field, .. } => *field == Field::Body,
            Extraction::Json(_) => true,
            Extraction::Header(_) => false,
        }
    }

    /// Sets the variables from a response.
    pub fn apply(&self, reply: &Response<'_>, scope: &mut Scope<'_>) {
        let found = self.find(reply);
        let chosen = match self.number {
            0 if !found.is_empty() => Some(scope.values.random().usize(..found.len())),
            1.. => usize::try_from(self.number - 1).ok().filter(|at| *at < found.len()),
            _ => None,
        };
        match chosen.map(|at| self.text_of(&found[at])) {
            Some(text) => scope.values.set(self.variable, Some(text)),
            None => {
                if let Some(default) = &self.default {
                    let default = default.render(scope).into_owned();
                    scope.values.set(self.variable, Some(default));
                }
            }
        }
        for (variable, derived_variable) in &self.derived {
            let value = match *derived_variable {
                DerivedVariable::Matches => Some(found.len().to_string()),
                DerivedVariable::Match(number) => {
                    let at = (number as usize).checked_sub(1);
                    at.and_then(|at| found.get(at)).map(|found| self.text_of(found))
                }
                DerivedVariable::All => {
                    let all = if self.number < 0 { found.as_slice() } else { &[] };
                    let all = all.iter().map(|found| self.text_of(found)).collect();
                    scope.values.set_list(*variable, all);
                    continue;
                }
                DerivedVariable::Group(group) => {
                    chosen.and_then(|at| found[at].get(group as usize).cloned())
                }
            };
            scope.values.set(*variable, value);
        }
    }

    fn find(&self, reply: &Response<'_>) -> Vec<Match> {
        match &self.rule {
            Extraction::Regex { field, regex, .. } => {
                let text = reply.text(*field);
                let owned = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let groups = |found: regex::bytes::Captures<'_>| {
                    found.iter().map(|g| g.map_or(String::new(), |g| owned(g.as_bytes()))).collect()
                };
                regex.captures_iter(&text).take(MAX_MATCHES).map(groups).collect()
            }
            Extraction::Json(path) => {
                let Ok(value) = serde_json::from_slice(reply.body) else { return Vec::new() };
                let found = path.query(&value).all();
                found.into_iter().take(MAX_MATCHES).map(|value| vec![json_text(value)]).collect()
            }
            Extraction::Header(name) => {
                let values = reply.headers.get_all(name).take(MAX_MATCHES);
                values.map(|value| vec![String::from_utf8_lossy(value).into_owned()]).collect()
            }
        }
    }

    /// Applies the template to a match.
    fn text_of(&self, found: &Match) -> String {
        let template = match &self.rule {
            Extraction::Regex { template, .. } => template.as_str(),
            Extraction::Json(_) | Extraction::Header(_) => "",
        };
        if template.is_empty() {
            return found.get(1).or(found.first()).cloned().unwrap_or_default();
        }
        let mut text = String::new();
        let mut rest = template;
        while let Some((before, behind)) = rest.split_once('$') {
            text.push_str(before);
            let group = behind.split_once('$').and_then(|(group, behind)| {
                group.parse::<usize>().ok().map(|group| (group, behind))
            });
            let Some((group, behind)) = group else {
                text.push('$');
                rest = behind;
                continue;
            };
            text.push_str(found.get(group).map_or("", String::as_str));
            rest = behind;
        }
        text.push_str(rest);
        text
    }
}

#[cfg(test)]
mod tests;
