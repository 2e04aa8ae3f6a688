//! Header edits and header lists.

use super::Fields;
use super::keys;
use crate::config::HeaderEdits;
use crate::draft::Member;

/// Names in lower case and values of a checked table.
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
    let Some(fields) = fields.and_then(|f| f.object("headers", &keys::EDITS)) else {
        return HeaderEdits::default();
    };
    HeaderEdits {
        set: pairs(fields.members("set")),
        remove: fields.texts("remove").iter().map(|n| n.to_ascii_lowercase()).collect(),
    }
}

/// First the outer edits, then the inner ones, as one.
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
