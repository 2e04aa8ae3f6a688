//! What is taken out of an answer into variables.

use super::{Field, Text, Variable};
use regex::bytes::Regex;
use serde_json_path::JsonPath;

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
