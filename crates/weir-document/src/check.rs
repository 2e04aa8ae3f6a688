//! The check of a draft against the description of its keys: unknown keys, wrong types, missing
//! units and malformed strings, in one walk.

mod suggestions;

use crate::draft::{Data, Meaning, Member, Node, Scalar};
use crate::finding::{Diagnostic, Diagnostics, codes, words};
use crate::secret_names::{is_url_with_secret, names_credential, names_secret};
use crate::shape::{Key, Kind, Names, Shape, format};

/// Maximum number of items of a list or table.
const MAX_ITEMS: usize = 100_000;

/// Checks `node` against `shape`.
pub fn check(node: &Node, shape: &'static Shape, report: &mut Diagnostics) {
    object(node, shape, report);
}

/// Checks `node` against `kind`; `context` is the key of the value.
pub fn value(node: &Node, kind: &'static Kind, context: &str, report: &mut Diagnostics) {
    if node.is_lost() {
        return;
    }
    match (kind, &node.data) {
        (Kind::Json, _) => {
            if let Err(at) = node.to_json() {
                report.error(codes::BAD_VALUE, at, "not a JSON number");
            }
        }
        (Kind::Object(shape), _) => object(node, shape, report),
        (Kind::Table(names, kind), _) => table(node, *names, kind, context, report),
        (Kind::List(item) | Kind::OneOrMany(item), Data::List(items)) => {
            list(items, node, item, context, report);
        }
        (Kind::List(_), _) => wrong_type(node, kind, context, report),
        (Kind::OneOrMany(item), _) => value(node, item, context, report),
        (Kind::Either(kinds), _) => {
            let accepting = kinds.iter().find(|k| accepts(k, node));
            match accepting.or_else(|| only_text_alternative(kinds, node)) {
                Some(kind) => value(node, kind, context, report),
                None => wrong_type(node, kind, context, report),
            }
        }
        (_, Data::Scalar(scalar)) => self::scalar(node, scalar, kind, context, report),
        (_, Data::List(_) | Data::Map(_)) => {
            if matches!(kind, Kind::Secret) {
                node.redact(report);
            }
            wrong_type(node, kind, context, report);
        }
    }
}

fn list(items: &[Node], node: &Node, kind: &'static Kind, context: &str, report: &mut Diagnostics) {
    if items.is_empty() {
        report
            .error(codes::EMPTY, node.at, format!("`{context}` is empty"))
            .help("remove the key, or list at least one item");
    }
    if has_too_many(items.len(), node, context, report) {
        return;
    }
    for item in items {
        value(item, kind, context, report);
    }
}

/// Whether a list or table has too many items, which is an error.
fn has_too_many(items: usize, node: &Node, context: &str, report: &mut Diagnostics) -> bool {
    let exceeds = items > MAX_ITEMS;
    if exceeds {
        let message = format!("`{context}` has more than {MAX_ITEMS} items");
        report.error(codes::TOO_MANY, node.at, message);
    }
    exceeds
}

/// Whether the written type alone selects this alternative.
fn accepts(kind: &Kind, node: &Node) -> bool {
    match (kind, &node.data) {
        (Kind::Json, _) => true,
        (Kind::Object(_) | Kind::Table(..), Data::Map(_)) => true,
        (Kind::List(_), Data::List(_)) => true,
        (Kind::OneOrMany(kind), _) => matches!(node.data, Data::List(_)) || accepts(kind, node),
        (Kind::Either(kinds), _) => kinds.iter().any(|k| accepts(k, node)),
        (Kind::Enum(words), Data::Scalar(scalar)) => words.contains(&scalar.text.as_str()),
        (Kind::Bool, Data::Scalar(scalar)) => matches!(scalar.meaning(), Meaning::Bool(_)),
        (Kind::Integer(..), Data::Scalar(scalar)) => scalar.meaning() == Meaning::Number,
        (Kind::Text | Kind::Secret | Kind::Format(_), Data::Scalar(scalar)) => {
            scalar.meaning() == Meaning::Text
        }
        (Kind::Scalar, Data::Scalar(scalar)) => scalar.meaning() != Meaning::Null,
        _ => false,
    }
}

/// If a number is written where a format is an alternative, the error of the format is the most
/// helpful.
fn only_text_alternative(kinds: &'static [Kind], node: &Node) -> Option<&'static Kind> {
    let is_number = node.scalar().is_some_and(|scalar| scalar.meaning() == Meaning::Number);
    kinds.iter().find(|k| is_number && matches!(k, Kind::Format(_)))
}

fn object(node: &Node, shape: &'static Shape, report: &mut Diagnostics) {
    let Some(members) = node.members() else {
        if shape.keys.iter().any(is_secret) {
            node.redact(report);
        }
        let help = suggestions::for_object(node, shape);
        not_a_mapping(shape.name, node, report).maybe_help(help);
        return;
    };
    let mut present = Vec::with_capacity(shape.keys.len().min(members.len()));
    present.extend(members.iter().filter_map(|m| Some(shape.key(&m.key)?.name)));
    for member in members {
        match shape.key(&member.key) {
            Some(key) if member.value.is_null() && !matches!(key.kind, Kind::Json) => {
                report
                    .error(codes::WRONG_TYPE, member.at, format!("`{}` has no value", member.key))
                    .help("set a value, or remove the key");
            }
            Some(key) => {
                if key.redacted {
                    member.value.redact(report);
                }
                value(&member.value, &key.kind, key.name, report);
            }
            None => unknown(member, members, &present, shape, report),
        }
    }
    for key in shape.keys.iter().filter(|k| k.required) {
        if !present.contains(&key.name) {
            report
                .error(codes::MISSING_KEY, node.at, format!("{} needs `{}`", shape.name, key.name))
                .help(format!("`{}` takes {}", key.name, key.kind.describe()));
        }
    }
    groups(node, members, shape, report);
}

fn not_a_mapping<'r>(name: &str, node: &Node, report: &'r mut Diagnostics) -> &'r mut Diagnostic {
    let message = format!("{name} must be a mapping, not {}", node.describe());
    report.error(codes::WRONG_TYPE, node.at, message)
}

fn is_secret(key: &Key) -> bool {
    matches!(key.kind, Kind::Secret)
}

fn groups(node: &Node, members: &[Member], shape: &'static Shape, report: &mut Diagnostics) {
    for group in shape.groups {
        let mut present = members.iter().filter(|m| group.keys.contains(&m.key.as_str()));
        let Some(first) = present.next() else {
            // A misspelling such as `method: GET` or `GET: /` already has a finding of its own.
            let slipped = members.iter().filter(|m| shape.key(&m.key).is_none()).any(|m| {
                shape.misspellings.iter().any(|(misspelling, _)| *misspelling == m.key)
                    || shape.later.contains(&m.key.as_str())
                    || crate::finding::nearest(&m.key, group.keys.iter().copied()).is_some()
            });
            if group.required && !slipped {
                let message = format!("{} needs one of {}", shape.name, words(group.keys));
                report.error(codes::MISSING_KEY, node.at, message);
            }
            continue;
        };
        for other in present {
            let message = format!("`{}` and `{}` exclude each other", first.key, other.key);
            report
                .error(codes::CONFLICT, other.at, message)
                .related(first.at, "first key")
                .help(format!("{} takes one of {}", shape.name, words(group.keys)));
        }
    }
}

/// `present` are the known keys among the members.
fn unknown(
    member: &Member,
    members: &[Member],
    present: &[&str],
    shape: &'static Shape,
    report: &mut Diagnostics,
) {
    let key = member.key.as_str();
    if names_secret(key) || shape.keys.iter().any(is_secret) {
        member.value.redact(report);
    }
    if shape.later.contains(&key) {
        let message = format!("`{key}` is not available in this version of weir");
        report.error(codes::NOT_AVAILABLE, member.at, message);
        return;
    }
    if shape.main.is_some_and(|main| main.key(key).is_some()) {
        let message = format!("`{key}` is not allowed in an included file");
        report.error(codes::NOT_HERE, member.at, message).help("move it to the main file");
        return;
    }
    let help = (!report.is_full()).then(|| suggestions::for_key(member, members, present, shape));
    report
        .error(codes::UNKNOWN_KEY, member.at, format!("unknown key `{key}` in {}", shape.name))
        .maybe_help(help);
}

fn table(node: &Node, names: Names, kind: &'static Kind, context: &str, report: &mut Diagnostics) {
    let Some(members) = node.members() else {
        not_a_mapping(&format!("`{context}`"), node, report).help(match names {
            Names::Name => format!("write `{context}: {{NAME: …}}`"),
            Names::Header | Names::Parameter => "write `{name: value}`".to_owned(),
        });
        return;
    };
    if has_too_many(members.len(), node, context, report) {
        return;
    }
    let mut seen = std::collections::HashMap::new();
    for member in members {
        if let Err(fault) = names.format().check(&member.key) {
            report.fault(member.at, fault);
        }
        if names == Names::Header
            && let Some(first) = seen.insert(member.key.to_ascii_lowercase(), member.at)
        {
            report
                .error(codes::DUPLICATE_KEY, member.at, format!("duplicate `{}`", member.key))
                .related(first, "first here")
                .help("header names are case-insensitive");
        }
        if names == Names::Header
            && let Some(text) = member.value.text()
            && let Err(fault) = format::HEADER_VALUE.check(text)
        {
            report.fault(member.value.at, fault);
        }
        // Names defined by the configuration, such as that of an `auth`, are not names of secrets.
        if names != Names::Name && names_credential(&member.key) {
            member.value.redact(report);
            if let Data::Scalar(scalar) = &member.value.data
                && scalar.meaning() == Meaning::Text
            {
                secret(&member.value, scalar, report);
            }
        }
        if member.value.is_null() {
            report
                .error(codes::WRONG_TYPE, member.at, format!("`{}` has no value", member.key))
                .help("set a value, or remove the name");
        } else {
            value(&member.value, kind, &member.key, report);
        }
    }
}

fn scalar(
    node: &Node,
    scalar: &Scalar,
    kind: &'static Kind,
    context: &str,
    report: &mut Diagnostics,
) {
    let meaning = scalar.meaning();
    let is_secret = matches!(kind, Kind::Secret) || is_url_with_secret(&scalar.text);
    if is_secret {
        if !scalar.from_file {
            report.redact(node.at);
        }
        secret(node, scalar, report);
    }
    match kind {
        Kind::Text | Kind::Secret if meaning == Meaning::Text => {}
        Kind::Scalar if meaning != Meaning::Null => {}
        Kind::Bool if matches!(meaning, Meaning::Bool(_)) => {}
        Kind::Integer(min, max) if meaning == Meaning::Number => {
            if scalar.integer().is_none_or(|n| n < *min || n > *max) {
                bad_value(node, kind, context, report);
            }
        }
        // A number may have this format by accident (`to: 5`); the error of the format names the
        // missing part.
        Kind::Format(format) if matches!(meaning, Meaning::Text | Meaning::Number) => {
            if let Err(fault) = format.check(&scalar.text) {
                if (format.is_secret)(&scalar.text) {
                    report.redact(node.at);
                }
                report.fault(node.at, fault);
            } else if meaning == Meaning::Number && !format.accepts_number {
                wrong_type(node, kind, context, report);
            }
        }
        Kind::Enum(words) if meaning == Meaning::Text => {
            if !words.contains(&scalar.text.as_str()) {
                let near = suggestions::nearest(&scalar.text, words.iter().copied());
                bad_value(node, kind, context, report).maybe_help(near);
            }
        }
        _ => wrong_type(node, kind, context, report),
    }
}

/// Records where a secret is from.
fn secret(node: &Node, scalar: &Scalar, report: &mut Diagnostics) {
    if scalar.from_file {
        report.secret_of_file(node.at);
    } else if !scalar.from_env && !scalar.lost && !scalar.text.is_empty() {
        report.literal_secret(node.at);
    }
}

fn bad_value<'r>(
    node: &Node,
    kind: &Kind,
    context: &str,
    report: &'r mut Diagnostics,
) -> &'r mut Diagnostic {
    let message = format!("`{context}` takes {}", kind.describe());
    report.error(codes::BAD_VALUE, node.at, message)
}

fn wrong_type(node: &Node, kind: &'static Kind, context: &str, report: &mut Diagnostics) {
    let message = format!("`{context}` takes {}, not {}", kind.describe(), node.describe());
    let help = suggestions::for_type(node, kind, context);
    report.error(codes::WRONG_TYPE, node.at, message).maybe_help(help);
}
