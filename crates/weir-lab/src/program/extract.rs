//! What is taken out of an answer into variables.

use super::check::json_text;
use super::{Field, Reply, Scope, Text, Variable};
use regex::bytes::Regex;
use serde_json_path::JsonPath;

/// Most matches that are looked at.
const LARGEST: usize = 10_000;

/// Takes something out of an answer.
#[derive(Clone, Debug)]
pub struct Extractor {
    /// Where it goes. With [`Extractor::number`] 0 and below there are also `name_N`,
    /// `name_gN`, `name_matchNr` as JMeter makes them: see [`Extractor::more`].
    pub variable: Variable,
    /// How it is found.
    pub rule: Extract,
    /// Which of the matches: from 1; 0 is one at random, -1 all.
    pub number: i32,
    /// The value if there is none; without one the variable keeps its value.
    pub default: Option<Text>,
    /// Further variables, each with what it is of: only those that the program names.
    pub more: Vec<(Variable, Further)>,
}

/// What a further variable of an extractor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Further {
    /// How many matches there were (`name_matchNr`).
    Matches,
    /// Match `n`, from 1, with `number` -1 (`name_1`).
    Match(u32),
    /// Group `n` of the match chosen, 0 is all of it (`name_g1`).
    Group(u32),
}

/// How something is found.
#[derive(Clone, Debug)]
pub enum Extract {
    /// By a regular expression.
    Regex {
        /// In which text.
        field: Field,
        /// The expression.
        regex: Regex,
        /// What is made of a match: `$1$` is group 1 (JMeter's template); empty is group 1 if there
        /// is one, else all.
        template: String,
    },
    /// By a JSON path in the body.
    Json(JsonPath),
    /// The value of the answer's header field.
    Header(String),
}

/// One match: all of it, then its groups.
type Found = Vec<String>;

impl Extractor {
    /// Whether it looks at the body of the answer.
    pub fn needs_body(&self) -> bool {
        match &self.rule {
            Extract::Regex { field, .. } => *field == Field::Body,
            Extract::Json(_) => true,
            Extract::Header(_) => false,
        }
    }

    /// Sets its variables from an answer.
    pub fn apply(&self, reply: &Reply<'_>, scope: &mut Scope<'_>) {
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
        for (variable, further) in &self.more {
            let value = match *further {
                Further::Matches => Some(found.len().to_string()),
                Further::Match(number) => {
                    let at = (number as usize).checked_sub(1);
                    at.and_then(|at| found.get(at)).map(|found| self.text_of(found))
                }
                Further::Group(group) => {
                    chosen.and_then(|at| found[at].get(group as usize).cloned())
                }
            };
            scope.values.set(*variable, value);
        }
    }

    fn find(&self, reply: &Reply<'_>) -> Vec<Found> {
        match &self.rule {
            Extract::Regex { field, regex, .. } => {
                let text = reply.text(*field);
                let owned = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let groups = |found: regex::bytes::Captures<'_>| {
                    found.iter().map(|g| g.map_or(String::new(), |g| owned(g.as_bytes()))).collect()
                };
                regex.captures_iter(&text).take(LARGEST).map(groups).collect()
            }
            Extract::Json(path) => {
                let Ok(value) = serde_json::from_slice(reply.body) else { return Vec::new() };
                let found = path.query(&value).all();
                found.into_iter().take(LARGEST).map(|value| vec![json_text(value)]).collect()
            }
            Extract::Header(name) => {
                let values = reply.headers.get_all(name).take(LARGEST);
                values.map(|value| vec![String::from_utf8_lossy(value).into_owned()]).collect()
            }
        }
    }

    /// What the template makes of a match.
    fn text_of(&self, found: &Found) -> String {
        let template = match &self.rule {
            Extract::Regex { template, .. } => template.as_str(),
            Extract::Json(_) | Extract::Header(_) => "",
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
