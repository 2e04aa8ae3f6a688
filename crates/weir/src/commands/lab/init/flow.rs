//! Order of the requests of a scenario, and the ids that they pass on.

use serde_json::Value;
use std::collections::BTreeMap;
use weir_config::ExampleCall;

/// An id that a response creates, for the paths of other requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Created {
    /// Name of the variable.
    pub(super) variable: String,
    /// The extractor, in YAML without its default.
    pub(super) extractor: String,
    /// Path up to the parameter, such as `/orders/`.
    prefix: String,
}

/// Stages of the life of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Create,
    Read,
    Update,
    Delete,
}

/// The calls in the order in which they succeed: each resource in the order of the document, created
/// before it is read, read before it is changed, deleted last; parents are created first and deleted
/// last.
pub(super) fn ordered(calls: &[ExampleCall]) -> Vec<&ExampleCall> {
    let mut resources: BTreeMap<&str, usize> = BTreeMap::new();
    for call in calls {
        let next = resources.len();
        resources.entry(resource(&call.path)).or_insert(next);
    }
    let mut ordered: Vec<&ExampleCall> = calls.iter().collect();
    ordered.sort_by_key(|call| {
        let depth = call.path.matches('/').count() as i64;
        let stage = stage(call, calls);
        let order = if stage == Stage::Delete { -depth } else { depth };
        (resources.get(resource(&call.path)).copied(), stage, order)
    });
    ordered
}

/// The path up to the first parameter.
fn resource(path: &str) -> &str {
    path.split("/{").next().unwrap_or_default()
}

fn stage(call: &ExampleCall, all: &[ExampleCall]) -> Stage {
    match call.method.as_str() {
        "POST" if parameter_below(call, all).is_some() => Stage::Create,
        "POST" if call.statuses.iter().any(|status| status == "201") => Stage::Create,
        "GET" | "HEAD" | "OPTIONS" => Stage::Read,
        "DELETE" => Stage::Delete,
        _ => Stage::Update,
    }
}

/// The parameter that follows the path of a call in the path of another one.
fn parameter_below<'c>(call: &ExampleCall, all: &'c [ExampleCall]) -> Option<&'c str> {
    let base = call.path.trim_end_matches('/');
    all.iter().find_map(|other| {
        let rest = other.path.strip_prefix(base)?.strip_prefix("/{")?;
        rest.split('}').next()
    })
}

/// The id that the response of a call creates.
pub(super) fn created(call: &ExampleCall, all: &[ExampleCall]) -> Option<Created> {
    if call.method != "POST" {
        return None;
    }
    let parameter = parameter_below(call, all)?;
    let base = call.path.trim_end_matches('/');
    let extractor = match id_member(call.response.as_ref(), parameter) {
        Some(member) => {
            let path = format!("$[{}]", Value::from(member));
            format!("json: {}", Value::from(path))
        }
        None if call.has_location => {
            format!(
                "regex: {}, from: headers",
                Value::from("(?i)location: [^\\r\\n]*/([^/\\r\\n]+)")
            )
        }
        None => return None,
    };
    let name = |text: &str| -> String {
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
    };
    let last = base.rsplit('/').find(|part| !part.is_empty() && !part.starts_with('{'));
    let variable = format!("{}_{}", name(last.unwrap_or("item")), name(parameter));
    Some(Created { variable, extractor, prefix: format!("{base}/") })
}

/// The member of a response with the id: called like the parameter, or `id`.
fn id_member<'p>(response: Option<&Value>, parameter: &'p str) -> Option<&'p str> {
    let members = response?.as_object()?;
    [parameter, "id"].into_iter().find(|name| members.contains_key(*name))
}

/// The variable for a parameter of a path, if an earlier request creates its value.
pub(super) fn variable<'c>(path: &str, parameter: &str, known: &'c [Created]) -> Option<&'c str> {
    let created = |created: &&Created| {
        path.strip_prefix(created.prefix.as_str()).is_some_and(|rest| {
            rest.strip_prefix('{').is_some_and(|rest| rest.split('}').next() == Some(parameter))
        })
    };
    known.iter().find(created).map(|created| created.variable.as_str())
}
