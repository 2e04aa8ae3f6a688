//! Texts of requests: `${name}`, `${feeder.column}`, `${function(…)}`, and `$${` for `${`.

use crate::program::{Function, Piece, Program, Text, Variable};
use std::collections::BTreeMap;
use weir_config::document::{Diagnostics, Node, nearest};
use weir_config::finding::codes;

/// Names that texts may have.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Values that do not change.
    pub(super) constants: BTreeMap<String, String>,
    /// Columns of feeders (`tokens.token`) and extracted values.
    pub(super) changing: BTreeMap<String, Variable>,
}

const FUNCTIONS: &str = "`uuid()`, `time()`, `random(LEAST, MOST)`, `text(LENGTH)` and `user()`";

impl Known {
    /// The text of a node.
    pub(super) fn node(&self, node: &Node, report: &mut Diagnostics) -> Text {
        self.text(node.text().unwrap_or_default(), node, report)
    }

    /// A text; `at` is where it stands.
    pub(super) fn text(&self, text: &str, at: &Node, report: &mut Diagnostics) -> Text {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find("${") {
            if let Some(before) = rest[..open].strip_suffix('$') {
                pieces.push(Piece::Literal(format!("{before}${{").into()));
                rest = &rest[open + 2..];
                continue;
            }
            pieces.push(Piece::Literal(rest[..open].into()));
            let Some(close) = rest[open..].find('}') else {
                report
                    .error(codes::BAD_SUBSTITUTION, at.at, "a `${` is not closed")
                    .help("write `$${` for a `${` that is meant");
                return Text::from_pieces(pieces);
            };
            let name = rest[open + 2..open + close].trim();
            pieces.extend(self.piece(name, at, report));
            rest = &rest[open + close + 1..];
        }
        pieces.push(Piece::Literal(rest.into()));
        Text::from_pieces(pieces)
    }

    fn piece(&self, name: &str, at: &Node, report: &mut Diagnostics) -> Option<Piece> {
        if let Some(value) = self.constants.get(name) {
            return Some(Piece::Literal(value.as_str().into()));
        }
        if let Some(variable) = self.changing.get(name) {
            return Some(Piece::Variable(*variable));
        }
        if let Some((function, arguments)) = name.split_once('(') {
            let arguments = arguments.strip_suffix(')').map(|list| {
                list.split(',').map(str::trim).filter(|text| !text.is_empty()).collect::<Vec<_>>()
            });
            let found = arguments.and_then(|arguments| self::function(function.trim(), &arguments));
            if found.is_none() {
                report
                    .error(codes::BAD_SUBSTITUTION, at.at, format!("`${{{name}}}` is no function"))
                    .help(format!("functions are {FUNCTIONS}"));
            }
            return found.map(|function| Piece::Function(Box::new(function)));
        }
        let names = self.constants.keys().chain(self.changing.keys()).map(String::as_str);
        let near = nearest(name, names);
        report
            .error(codes::UNKNOWN_NAME, at.at, format!("nothing is called `{name}`"))
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
        ("time", []) => Function::Time { divisor: 1, keep: None },
        ("user", []) => Function::UserNumber,
        ("random", [least, most]) => {
            Function::Random { least: number(least)?, most: number(most)?, keep: None }
        }
        ("text", [length]) => Function::RandomString {
            length: number(length)?,
            of: Text::fixed("abcdefghijklmnopqrstuvwxyz0123456789"),
            keep: None,
        },
        _ => return None,
    })
}

/// Makes a name that changes known.
pub(super) fn changing(known: &mut Known, program: &mut Program, name: &str) -> Variable {
    let variable = program.variable(name);
    known.changing.insert(name.to_owned(), variable);
    variable
}
