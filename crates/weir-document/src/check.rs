//! The check of a draft against the description of its keys: unknown keys, wrong types, missing
//! units and malformed strings, in one walk.

mod suggestions;

use crate::draft::{Data, Meaning, Member, Node, Scalar};
use crate::finding::{Diagnostics, codes, words};
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
    match kind {
        Kind::Json => json(node, report),
        Kind::Object(shape) => object(node, shape, report),
        Kind::Table(names, kind) => table(node, *names, kind, context, report),
        Kind::List(item) => match &node.data {
            Data::List(items) => list(items, node, item, context, report),
            _ => wrong_type(node, kind, context, report),
        },
        Kind::OneOrMany(item) => match &node.data {
            Data::List(items) => list(items, node, item, context, report),
            _ => value(node, item, context, report),
        },
        Kind::Either(kinds) => match kinds.iter().find(|k| accepts(k, node)) {
            Some(kind) => value(node, kind, context, report),
            None => match only_text_alternative(kinds, node) {
                Some(kind) => value(node, kind, context, report),
                None => wrong_type(node, kind, context, report),
            },
        },
        Kind::Text
        | Kind::Secret
        | Kind::Scalar
        | Kind::Bool
        | Kind::Integer(..)
        | Kind::Format(_)
        | Kind::Enum(_) => match &node.data {
            Data::Scalar(scalar) => self::scalar(node, scalar, kind, context, report),
            _ => {
                if matches!(kind, Kind::Secret) {
                    node.redact(report);
                }
                wrong_type(node, kind, context, report);
            }
        },
    }
}

fn list(items: &[Node], node: &Node, kind: &'static Kind, context: &str, report: &mut Diagnostics) {
    if items.is_empty() {
        report
            .error(codes::EMPTY, node.at, format!("`{context}` is empty"))
            .help("remove the key, or list at least one item");
    }
    if items.len() > MAX_ITEMS {
        report.error(
            codes::TOO_MANY,
            node.at,
            format!("`{context}` has more than {MAX_ITEMS} items"),
        );
        return;
    }
    for item in items {
        value(item, kind, context, report);
    }
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
    let scalar = node.scalar()?;
    if scalar.meaning() != Meaning::Number {
        return None;
    }
    kinds.iter().find(|k| matches!(k, Kind::Format(_)))
}

fn object(node: &Node, shape: &'static Shape, report: &mut Diagnostics) {
    let Some(members) = node.members() else {
        if shape.keys.iter().any(is_secret) {
            node.redact(report);
        }
        report
            .error(
                codes::WRONG_TYPE,
                node.at,
                format!("{} must be a mapping, not {}", shape.name, node.describe()),
            )
            .maybe_help(suggestions::for_object(node, shape));
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
                report.error(
                    codes::MISSING_KEY,
                    node.at,
                    format!("{} needs one of {}", shape.name, words(group.keys)),
                );
            }
            continue;
        };
        for other in present {
            report
                .error(
                    codes::CONFLICT,
                    other.at,
                    format!("`{}` and `{}` exclude each other", first.key, other.key),
                )
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
        report.error(
            codes::NOT_AVAILABLE,
            member.at,
            format!("`{key}` is not available in this version of weir"),
        );
        return;
    }
    if shape.main.is_some_and(|main| main.key(key).is_some()) {
        report
            .error(
                codes::NOT_HERE,
                member.at,
                format!("`{key}` is not allowed in an included file"),
            )
            .help("move it to the main file");
        return;
    }
    let help = (!report.is_full()).then(|| suggestions::for_key(member, members, present, shape));
    report
        .error(codes::UNKNOWN_KEY, member.at, format!("unknown key `{key}` in {}", shape.name))
        .maybe_help(help);
}

fn table(node: &Node, names: Names, kind: &'static Kind, context: &str, report: &mut Diagnostics) {
    let Some(members) = node.members() else {
        report
            .error(
                codes::WRONG_TYPE,
                node.at,
                format!("`{context}` must be a mapping, not {}", node.describe()),
            )
            .help(match names {
                Names::Name => format!("write `{context}: {{NAME: …}}`"),
                Names::Header | Names::Parameter => "write `{name: value}`".to_owned(),
            });
        return;
    };
    if members.len() > MAX_ITEMS {
        report.error(
            codes::TOO_MANY,
            node.at,
            format!("`{context}` has more than {MAX_ITEMS} items"),
        );
        return;
    }
    let mut seen = std::collections::HashMap::new();
    for member in members {
        if let Err(fault) = names.format().check(&member.key) {
            report.error(fault.code, member.at, fault.message).maybe_help(fault.help);
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
            report.error(fault.code, member.value.at, fault.message).maybe_help(fault.help);
        }
        // Names defined by the configuration, such as that of an `auth`, are not names of secrets.
        if names != Names::Name && names_credential(&member.key) {
            member.value.redact(report);
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
    if is_secret && !scalar.from_file {
        report.redact(node.at);
    }
    match kind {
        Kind::Text | Kind::Secret if meaning == Meaning::Text => {}
        Kind::Scalar if meaning != Meaning::Null => {}
        Kind::Bool if matches!(meaning, Meaning::Bool(_)) => {}
        Kind::Integer(min, max) if meaning == Meaning::Number => {
            if scalar.integer().is_none_or(|n| n < *min || n > *max) {
                report.error(
                    codes::BAD_VALUE,
                    node.at,
                    format!("`{context}` takes {}", kind.describe()),
                );
            }
        }
        // A number may have this format by accident (`to: 5`); the error of the format names the
        // missing part.
        Kind::Format(format) if matches!(meaning, Meaning::Text | Meaning::Number) => {
            if let Err(fault) = format.check(&scalar.text) {
                if (format.is_secret)(&scalar.text) {
                    report.redact(node.at);
                }
                report.error(fault.code, node.at, fault.message).maybe_help(fault.help);
            } else if meaning == Meaning::Number && !format.accepts_number {
                wrong_type(node, kind, context, report);
            }
        }
        Kind::Enum(words) if meaning == Meaning::Text => {
            if !words.contains(&scalar.text.as_str()) {
                report
                    .error(
                        codes::BAD_VALUE,
                        node.at,
                        format!("`{context}` takes {}", kind.describe()),
                    )
                    .maybe_help(suggestions::nearest(&scalar.text, words.iter().copied()));
            }
        }
        _ => wrong_type(node, kind, context, report),
    }
}

fn json(node: &Node, report: &mut Diagnostics) {
    if let Err(at) = node.to_json() {
        report.error(codes::BAD_VALUE, at, "not a JSON number");
    }
}

fn wrong_type(node: &Node, kind: &'static Kind, context: &str, report: &mut Diagnostics) {
    report
        .error(
            codes::WRONG_TYPE,
            node.at,
            format!("`{context}` takes {}, not {}", kind.describe(), node.describe()),
        )
        .maybe_help(suggestions::for_type(node, kind, context));
}
