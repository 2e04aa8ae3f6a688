//! Header edits and header lists.

use super::Fields;
use crate::config::HeaderEdits;
use weir_document::draft::Member;
use weir_document::shape::{Key, Kind, Names, Shape, format};

/// Header edits.
pub(super) static EDITS: Shape = Shape {
    misspellings: &[("add", "write `set`: a header of the same name is replaced")],
    ..Shape::new(
        "header edits",
        "Header edits: first `remove`, then `set`.",
        &[
            Key::new(
                "set",
                Kind::Table(Names::Header, &Kind::Scalar),
                "Headers to set; each replaces those of the same name.",
            ),
            Key::new(
                "remove",
                Kind::OneOrMany(&Kind::Format(format::EDITABLE_HEADER)),
                "Headers to remove.",
            ),
        ],
    )
};

pub(super) const HEADERS: Key = Key::new("headers", Kind::Object(&EDITS), "Header edits.");

/// `request` and `response` of an API.
pub(super) static API_EDITS: Shape = Shape::new(
    "the transformations of an API",
    "Transformations for every route of the API.",
    &[HEADERS],
);

/// Lower-case names and values of a checked table.
pub(super) fn pairs(members: &[Member]) -> Vec<(String, String)> {
    members
        .iter()
        .filter_map(|m| {
            let value = m.value.text()?.trim_end_matches(['\r', '\n']);
            Some((m.key.to_ascii_lowercase(), value.to_owned()))
        })
        .collect()
}

/// The edits under `headers` of `fields`, if there are any.
pub(super) fn edits(fields: Option<Fields<'_>>) -> HeaderEdits {
    let Some(fields) = fields.and_then(|f| f.object("headers", &EDITS)) else {
        return HeaderEdits::default();
    };
    HeaderEdits {
        set: pairs(fields.members("set")),
        remove: fields.texts("remove").iter().map(|n| n.to_ascii_lowercase()).collect(),
    }
}

/// The outer edits, then the inner ones, as one.
pub(super) fn merge(outer: &HeaderEdits, inner: HeaderEdits) -> HeaderEdits {
    let mut set: Vec<_> = outer
        .set
        .iter()
        .filter(|(name, _)| {
            !inner.set.iter().any(|(n, _)| n == name) && !inner.remove.contains(name)
        })
        .cloned()
        .collect();
    set.extend(inner.set);
    let mut remove = outer.remove.clone();
    for name in inner.remove {
        if !remove.contains(&name) {
            remove.push(name);
        }
    }
    HeaderEdits { set, remove }
}
