//! Selects the schemas that count steps: schemas referred to by others, if following references
//! could multiply the work, and schemas with work that is not visible as accesses to a document.

use super::keywords::{NAMES, PATTERN, STEPS, Weight};
use serde_json::{Map, Value, json};
use weir_config::validation::{SCHEMA_LISTS, SCHEMA_MEMBERS, SCHEMA_TABLES};

/// Maximum number of schemas, references expanded, without counting the referenced ones.
const EXPANDED: u64 = 10_000;
/// Number of alternatives of a keyword that need no counting.
const FEW: usize = 16;
/// Formats that are expensive to check, and steps per byte.
const FORMATS: [(&str, i64); 3] = [("regex", 24), ("idn-hostname", 24), ("idn-email", 24)];

/// Member with named schemas for references.
const DEFS: &str = "$defs";

/// Whether a member contains named schemas.
fn is_table(key: &str) -> bool {
    key == DEFS || SCHEMA_TABLES.contains(&key)
}

/// Limits of the comparison with a schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traits {
    /// Bytes of the schema that an error may copy.
    pub(super) copied: usize,
    /// The schema needs sets of names and items (`unevaluatedProperties`, `unevaluatedItems`).
    pub(super) keeps_sets: bool,
    /// The schema has a pattern of names that the library may abort without a result (look-around,
    /// back-references).
    pub(super) backtracks: bool,
}

impl Traits {
    /// The traits of a self-contained schema.
    pub(super) fn of(schema: &Value) -> Self {
        let mut traits = Self::default();
        traits.add(schema);
        traits
    }

    fn add(&mut self, schema: &Value) {
        let Some(members) = schema.as_object() else { return };
        for (key, value) in members {
            match key.as_str() {
                "not" => self.copied = self.copied.max(4 * value.to_string().len()),
                "pattern" => {
                    let pattern = value.as_str().unwrap_or_default();
                    self.copied = self.copied.max(pattern.len());
                }
                "patternProperties" => {
                    let patterns = value.as_object().into_iter().flatten();
                    self.backtracks |= patterns.map(|(p, _)| p).any(|p| backtracks(p));
                }
                "unevaluatedItems" | "unevaluatedProperties" => self.keeps_sets = true,
                _ => {}
            }
        }
        below(members).for_each(|schema| self.add(schema));
    }
}

/// Whether a pattern has look-around or back-references, or may have.
fn backtracks(pattern: &str) -> bool {
    let escaped = |c: u8| c.is_ascii_digit() || c == b'k';
    ["(?=", "(?!", "(?<"].iter().any(|look| pattern.contains(look))
        || pattern.as_bytes().windows(2).any(|two| two[0] == b'\\' && escaped(two[1]))
}

fn for_each_below_mut(members: &mut Map<String, Value>, each: &mut dyn FnMut(&mut Value)) {
    for (key, value) in members {
        match (key.as_str(), value) {
            (key, value) if SCHEMA_MEMBERS.contains(&key) => each(value),
            (key, Value::Array(list)) if SCHEMA_LISTS.contains(&key) => {
                list.iter_mut().for_each(&mut *each);
            }
            (key, Value::Object(table)) if is_table(key) => {
                table.values_mut().for_each(&mut *each);
            }
            _ => {}
        }
    }
}

fn below(members: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    members.iter().flat_map(|(key, value)| {
        let key = key.as_str();
        let one = SCHEMA_MEMBERS.contains(&key).then_some(value);
        let list = value.as_array().filter(|_| SCHEMA_LISTS.contains(&key));
        let table = value.as_object().filter(|_| is_table(key));
        let table = table.into_iter().flat_map(Map::values);
        one.into_iter().chain(list.into_iter().flatten()).chain(table)
    })
}

/// Replaces the patterns of a schema by weir's own keyword, which counts steps.
pub(crate) fn take_patterns(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    if members.get("pattern").is_some_and(Value::is_string)
        && let Some(pattern) = members.remove("pattern")
    {
        members.insert(PATTERN.to_owned(), pattern);
    }
    for_each_below_mut(members, &mut take_patterns);
}

/// Adds counting keywords where needed. Returns whether any were added.
pub(crate) fn add(schema: &mut Value) -> bool {
    let counts_references = is_large(schema);
    let mut added = add_below(schema);
    if let (true, Some(Value::Object(defs))) = (counts_references, schema.get_mut(DEFS)) {
        defs.values_mut().for_each(|def| wrap(def, Weight::default(), Vec::new()));
        added = true;
    }
    added
}

/// Adds keywords to all nested schemas, then to the schema itself.
fn add_below(schema: &mut Value) -> bool {
    let Value::Object(members) = schema else { return false };
    let (weight, names) = (weight(members), names(members));
    let mut added = false;
    for_each_below_mut(members, &mut |below| added |= add_below(below));
    // References point into `$defs` of the root, which therefore must stay there.
    let defs = members.remove(DEFS);
    if weight != Weight::default() || !names.is_empty() {
        wrap(schema, weight, names);
        added = true;
    }
    if let (Some(defs), Value::Object(members)) = (defs, schema) {
        members.insert(DEFS.to_owned(), defs);
    }
    added
}

fn wrap(schema: &mut Value, weight: Weight, names: Vec<Value>) {
    let counted = schema.take();
    let mut condition = Map::from_iter([(STEPS.to_owned(), weight.to_value())]);
    if !names.is_empty() {
        condition.insert(NAMES.to_owned(), Value::from(names));
    }
    *schema = json!({"if": condition, "then": counted, "else": false});
}

/// Patterns of names that are not plain texts.
fn names(members: &Map<String, Value>) -> Vec<Value> {
    let patterns = members.get("patternProperties").and_then(Value::as_object);
    let patterns = patterns.into_iter().flatten().map(|(pattern, _)| pattern);
    let engines = patterns.filter(|pattern| jsonschema_regex::analyze_pattern(pattern).is_none());
    engines.map(|pattern| Value::from(pattern.as_str())).collect()
}

/// The weight of a schema without nested ones.
fn weight(members: &Map<String, Value>) -> Weight {
    let mut weight = Weight::default();
    let mut alternatives = 0;
    for (key, value) in members {
        match key.as_str() {
            "format" => {
                let known = FORMATS.iter().find(|(name, _)| Some(*name) == value.as_str());
                weight.byte += known.map_or(0, |(_, steps)| *steps);
            }
            "patternProperties" => {
                weight.name += value.as_object().map_or(0, |patterns| patterns.len() as i64);
            }
            // `true` and `false` do not access the document.
            "allOf" | "anyOf" | "oneOf" => {
                let list = value.as_array().into_iter().flatten();
                alternatives += list.filter(|schema| schema.is_boolean()).count();
            }
            "dependentRequired" | "dependentSchemas" => {
                alternatives += value.as_object().map_or(0, Map::len);
            }
            _ => {}
        }
    }
    if alternatives > FEW {
        weight.visit = i64::try_from(alternatives).unwrap_or(i64::MAX / 2);
    }
    weight
}

/// Whether a schema expands to too many schemas, or refers to itself.
fn is_large(schema: &Value) -> bool {
    let Some(Value::Object(defs)) = schema.get("$defs") else { return false };
    let mut sizes = vec![1u64; defs.len()];
    let mut targets = vec![Vec::new(); defs.len()];
    for at in 0..defs.len() {
        let Some(def) = defs.get(&at.to_string()) else { return true };
        references(def, &mut sizes[at], &mut targets[at]);
    }
    let mut users = vec![Vec::new(); defs.len()];
    for (at, targets) in targets.iter().enumerate() {
        targets.iter().for_each(|target| users[*target].push(at));
    }
    // Schemas without references come first, then schemas that refer to those; cycles are left
    // over.
    let mut missing: Vec<usize> = targets.iter().map(Vec::len).collect();
    let mut ready: Vec<usize> = (0..defs.len()).filter(|at| missing[*at] == 0).collect();
    let mut done = 0;
    while let Some(at) = ready.pop() {
        done += 1;
        for &user in &users[at] {
            sizes[user] = sizes[user].saturating_add(sizes[at]);
            missing[user] -= 1;
            if missing[user] == 0 {
                ready.push(user);
            }
        }
    }
    done < defs.len() || sizes.iter().any(|size| *size > EXPANDED)
}

fn references(schema: &Value, size: &mut u64, found: &mut Vec<usize>) {
    let Some(members) = schema.as_object() else { return };
    *size += 1;
    let target = members.get("$ref").and_then(Value::as_str);
    found.extend(target.and_then(|t| t.strip_prefix("#/$defs/")?.parse::<usize>().ok()));
    below(members).for_each(|schema| references(schema, size, found));
}
