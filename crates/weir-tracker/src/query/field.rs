//! The fields of a query.

use super::Scope;
use crate::field::Name;

/// The field before the colon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Name(Name),
    State,
    Resolution,
    Status,
    Elapsed,
    Time,
    After,
    Before,
    Since,
    Id,
    Words(Scope),
    Key(String),
}

const OTHERS: [(&str, Field); 14] = [
    ("client", Field::Name(Name::Sender)),
    ("upstream", Field::Name(Name::Receiver)),
    ("state", Field::State),
    ("resolution", Field::Resolution),
    ("status", Field::Status),
    ("took", Field::Elapsed),
    ("time", Field::Time),
    ("after", Field::After),
    ("before", Field::Before),
    ("since", Field::Since),
    ("id", Field::Id),
    ("body", Field::Words(Scope::Body)),
    ("target", Field::Words(Scope::Target)),
    ("header", Field::Words(Scope::AnyHeader)),
];

impl Field {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix("header.").filter(|name| !name.is_empty()) {
            return Some(Self::Words(Scope::Header(name.to_ascii_lowercase())));
        }
        if let Some(name) = text.strip_prefix("key.").filter(|name| !name.is_empty()) {
            return Some(Self::Key(name.to_owned()));
        }
        let name = Name::ALL.iter().copied().find(|name| name.as_str() == text);
        let other = || OTHERS.into_iter().find(|(name, _)| *name == text).map(|(_, field)| field);
        name.map(Self::Name).or_else(other)
    }

    /// The field with the most similar name, if one is similar.
    pub(crate) fn nearest(text: &str) -> Option<&'static str> {
        let names = Name::ALL.iter().map(|name| name.as_str());
        let all =
            names.chain(OTHERS.iter().map(|(name, _)| *name)).chain(["key.NAME", "header.NAME"]);
        all.map(|name| (strsim::damerau_levenshtein(name, text), name))
            .filter(|(distance, name)| *distance <= (name.len() / 3).max(1))
            .min()
            .map(|(_, name)| name)
    }
}
