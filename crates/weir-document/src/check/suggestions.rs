//! Suggestions for unknown keys and wrong types.

use crate::draft::{Meaning, Member, Node};
use crate::finding::words;
use crate::shape::{Kind, Shape};

/// The nearest of some names, as a question.
pub(super) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<String> {
    let candidates: Vec<&str> = candidates.collect();
    if matches!(name, "no" | "false" | "never" | "disabled") && candidates.contains(&"off") {
        return Some("write `off`".to_owned());
    }
    crate::finding::nearest(name, candidates.into_iter())
        .map(|near| format!("did you mean `{near}`?"))
}

/// The suggestion for an unknown key; `present` are the known keys of the same mapping.
pub(super) fn for_key(
    member: &Member,
    members: &[Member],
    present: &[&str],
    shape: &'static Shape,
) -> String {
    let mut misspellings = shape.misspellings.iter();
    let known = misspellings.find(|(key, _)| member.key.eq_ignore_ascii_case(key));
    if let Some((_, help)) = known {
        if member.key == "method"
            && let Some(method) = member.value.text()
        {
            let path = members.iter().find(|m| m.key == "path").and_then(|m| m.value.text());
            return format!("write `{}: {}`", method.to_lowercase(), path.unwrap_or("/path"));
        }
        return (*help).to_owned();
    }
    let free = shape.keys.iter().map(|k| k.name).filter(|k| !present.contains(k));
    nearest(&member.key, free).unwrap_or_else(|| {
        let keys: Vec<&str> = shape.keys.iter().map(|k| k.name).collect();
        format!("known keys: {}", words(&keys))
    })
}

/// The suggestion for a value that should be a mapping.
pub(super) fn for_object(node: &Node, shape: &'static Shape) -> Option<String> {
    let short = shape.short?;
    let text = node.text()?;
    let key = shape.key(short)?;
    Some(match key.kind {
        Kind::List(_) => format!("write `{{{short}: [{text:?}]}}`"),
        _ => format!("write `{{{short}: {text:?}}}`"),
    })
}

/// The suggestion for a value of the wrong type.
pub(super) fn for_type(node: &Node, kind: &'static Kind, context: &str) -> Option<String> {
    let scalar = node.scalar();
    let meaning = scalar.map(|s| s.meaning());
    let text = node.text().unwrap_or_default();
    match kind {
        Kind::List(Kind::Object(_)) if node.members().is_some() => {
            Some(format!("expected a list: write `- ` in front, or `{context}: [{{…}}]`"))
        }
        Kind::List(_) if scalar.is_some() && !text.is_empty() => {
            Some(format!("write `{context}: [{text:?}]`"))
        }
        Kind::Secret if matches!(meaning, Some(Meaning::Number | Meaning::Bool(_))) => {
            Some("write it in quotes".to_owned())
        }
        Kind::Text | Kind::Format(_)
            if matches!(meaning, Some(Meaning::Number | Meaning::Bool(_))) =>
        {
            Some(format!("write it in quotes: `{text:?}`"))
        }
        Kind::Enum(words) => match meaning {
            Some(Meaning::Bool(false)) if words.contains(&"off") => Some("write `off`".to_owned()),
            Some(_) => nearest(text, words.iter().copied()),
            None => None,
        },
        Kind::Bool => match text.to_ascii_lowercase().as_str() {
            "yes" | "on" | "1" => Some("write `true`".to_owned()),
            "no" | "off" | "0" => Some("write `false`".to_owned()),
            "true" | "false" => Some("write it without quotes".to_owned()),
            _ => None,
        },
        Kind::Integer(..) if text.parse::<u64>().is_ok() => {
            Some(format!("write it without quotes: `{text}`"))
        }
        Kind::OneOrMany(item) => for_type(node, item, context),
        Kind::Either(kinds) => kinds.iter().find_map(|k| for_type(node, k, context)),
        _ => None,
    }
}
