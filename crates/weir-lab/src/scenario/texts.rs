//! Texts of requests: `${name}`, `${feeder.column}`, `${function(…)}`, and `$${` for `${`.

use crate::program::{Escape, Function, Program, Text, TextPart, Variable};
use std::collections::BTreeMap;
use weir_document::draft::Node;
use weir_document::finding::{Diagnostics, codes, nearest};

/// Names available in texts.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Constants.
    pub(super) constants: BTreeMap<String, String>,
    /// Columns of feeders (`tokens.token`) and extracted values.
    pub(super) changing: BTreeMap<String, Variable>,
}

const FUNCTIONS: &str =
    "`uuid()`, `time()`, `random(MIN, MAX)`, `text(LENGTH)`, `user()` and `urlencode(NAME)`";

/// Names of the references in a text, without those that are literal (`$${`).
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("${").filter_map(move |(at, open)| {
        let (name, _) = text[at + open.len()..].split_once('}')?;
        (!text[..at].ends_with('$')).then(|| encoded_name(name.trim()).unwrap_or(name.trim()))
    })
}

/// The name in `urlencode(NAME)`.
fn encoded_name(function: &str) -> Option<&str> {
    function.strip_prefix("urlencode(")?.strip_suffix(')').map(str::trim)
}

impl Known {
    /// Parses the text of a node.
    pub(super) fn node(&self, node: &Node, report: &mut Diagnostics) -> Text {
        self.text(node.text().unwrap_or_default(), node, report)
    }

    /// Parses a JSON value. Values are escaped, so that they are texts of JSON whatever their characters.
    pub(super) fn json(&self, node: &Node, report: &mut Diagnostics) -> Text {
        let text = node.to_json().unwrap_or_default();
        self.parse(&text, Some(Escape::Json), node, report)
    }

    /// Parses a text; `at` is its position.
    pub(super) fn text(&self, text: &str, at: &Node, report: &mut Diagnostics) -> Text {
        self.parse(text, None, at, report)
    }

    fn parse(
        &self,
        text: &str,
        escape: Option<Escape>,
        at: &Node,
        report: &mut Diagnostics,
    ) -> Text {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find("${") {
            if let Some(before) = rest[..open].strip_suffix('$') {
                parts.push(TextPart::Literal(format!("{before}${{").into()));
                rest = &rest[open + 2..];
                continue;
            }
            parts.push(TextPart::Literal(rest[..open].into()));
            let Some(close) = rest[open..].find('}') else {
                report
                    .error(codes::BAD_SUBSTITUTION, at.at, "`${` is not closed")
                    .help("write `$${` for a literal `${`");
                return Text::from_parts(parts);
            };
            let name = rest[open + 2..open + close].trim();
            let part = self.part(name, at, report);
            parts.extend(part.map(|part| match escape {
                Some(escape) => escape.part(part),
                None => part,
            }));
            rest = &rest[open + close + 1..];
        }
        parts.push(TextPart::Literal(rest.into()));
        Text::from_parts(parts)
    }

    fn part(&self, name: &str, at: &Node, report: &mut Diagnostics) -> Option<TextPart> {
        if let Some(value) = self.constants.get(name) {
            return Some(TextPart::Literal(value.as_str().into()));
        }
        if let Some(variable) = self.changing.get(name) {
            return Some(TextPart::Variable(*variable));
        }
        if let Some(name) = encoded_name(name) {
            return self.part(name, at, report).map(|part| Escape::Percent.part(part));
        }
        if let Some((function, arguments)) = name.split_once('(') {
            let arguments = arguments.strip_suffix(')').map(|list| {
                list.split(',').map(str::trim).filter(|text| !text.is_empty()).collect::<Vec<_>>()
            });
            let found = arguments.and_then(|arguments| self::function(function.trim(), &arguments));
            if found.is_none() {
                report
                    .error(
                        codes::BAD_SUBSTITUTION,
                        at.at,
                        format!("`${{{name}}}` is not a function"),
                    )
                    .help(format!("functions are {FUNCTIONS}"));
            }
            return found.map(TextPart::from);
        }
        let names = self.constants.keys().chain(self.changing.keys()).map(String::as_str);
        let near = nearest(name, names);
        report
            .error(codes::UNKNOWN_NAME, at.at, format!("unknown name `{name}`"))
            .help(match near {
                Some(near) => format!("did you mean `${{{near}}}`?"),
                None => "a name of `matrix`, `cases`, `variables`, `extract` or a column of a feeder (`feeder.column`)".to_owned(),
            });
        None
    }
}

fn function(name: &str, arguments: &[&str]) -> Option<Function> {
    let number =
        |text: &str| text.parse::<i64>().ok().map(|number| Text::fixed(number.to_string()));
    Some(match (name, arguments) {
        ("uuid", []) => Function::Uuid,
        ("time", []) => Function::Time { divisor: 1 },
        ("user", []) => Function::UserNumber,
        ("random", [min, max]) => Function::Random { min: number(min)?, max: number(max)? },
        ("text", [length]) => Function::RandomString {
            length: number(length)?,
            of: Text::fixed("abcdefghijklmnopqrstuvwxyz0123456789"),
        },
        _ => return None,
    })
}

/// Adds a variable that changes.
pub(super) fn add_variable(known: &mut Known, program: &mut Program, name: &str) -> Variable {
    let variable = program.variable(name);
    known.changing.insert(name.to_owned(), variable);
    variable
}
