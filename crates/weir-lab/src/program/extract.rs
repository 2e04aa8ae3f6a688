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
    /// The variable.
    pub variable: Variable,
    /// The method.
    pub rule: Extraction,
    /// Number of the match, from 1; 0 chooses one at random.
    pub number: i32,
    /// Value without a match; by default the variable is unchanged.
    pub default: Option<Text>,
}

/// Extraction method.
#[derive(Clone, Debug)]
pub enum Extraction {
    /// By a regular expression.
    Regex {
        /// The text.
        field: Field,
        /// The expression. The value is group 1 if it exists, otherwise the entire match.
        regex: Regex,
    },
    /// By a JSON path in the body.
    Json(JsonPath),
    /// The value of a header field of the response.
    Header(String),
    /// The value of a cookie that the response sets.
    Cookie(String),
}

/// A match: the entire match, then its groups.
type Match = Vec<String>;

impl Extractor {
    /// Whether the body of the response is needed.
    pub fn needs_body(&self) -> bool {
        match &self.rule {
            Extraction::Regex { field, .. } => *field == Field::Body,
            Extraction::Json(_) => true,
            Extraction::Header(_) | Extraction::Cookie(_) => false,
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
        match chosen.map(|at| value_of(&found[at])) {
            Some(text) => scope.values.set(self.variable, Some(text)),
            None => {
                if let Some(default) = &self.default {
                    let default = default.render(scope).into_owned();
                    scope.values.set(self.variable, Some(default));
                }
            }
        }
    }

    fn find(&self, reply: &Response<'_>) -> Vec<Match> {
        match &self.rule {
            Extraction::Regex { field, regex } => {
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
            Extraction::Cookie(name) => {
                let values = reply.headers.get_all("set-cookie").take(MAX_MATCHES);
                let pairs = values.map(String::from_utf8_lossy).filter_map(|field| {
                    let (pair, _) = field.split_once(';').unwrap_or((&field, ""));
                    let (key, value) = pair.split_once('=')?;
                    (key.trim() == name).then(|| vec![value.trim().to_owned()])
                });
                pairs.collect()
            }
        }
    }
}

/// The first group, or the entire match.
fn value_of(found: &Match) -> String {
    found.get(1).or(found.first()).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests;
