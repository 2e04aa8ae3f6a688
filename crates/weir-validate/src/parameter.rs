//! Parameters of a request, parsed by style (OAS 3.1 section "Style Values", RFC 6570).

use crate::budget;
use crate::document::{Document, Unread};
use crate::schema::{Fault, OVER_BUDGET, Schema, over_budget};
use jsonschema_value::Node as _;
use serde_json::{Map, Value};
use weir_config::validation::{Parameter, Place, Shape, Style, Types, Violation};
use weir_expr::url_encoding::{self, percent_decode};

/// The parts of a request that contain parameters.
#[derive(Clone, Copy)]
pub struct RequestParts<'a> {
    /// Path parameters by name, still escaped.
    pub path: &'a [(&'a str, &'a str)],
    /// The query, still escaped, without its question mark.
    pub query: &'a str,
    /// The values of the header fields of a name (lower case), in order.
    pub headers: &'a dyn Fn(&str) -> Vec<String>,
}

/// Maximum number of items of a parameter, fields of a query or form, and cookies.
const ITEMS: usize = 10_000;
/// Explanation for more items.
pub(crate) const TOO_MANY: &str = "the number of items exceeds the budget of the validation";

/// Parsed value of a parameter.
enum Written {
    Absent,
    /// Two values for a single-valued parameter.
    Repeated,
    /// Possible values, the most likely first.
    Values(Vec<Value>),
    Malformed(String),
    /// More than [`ITEMS`].
    TooMany,
}

/// A parameter with its schema.
#[derive(Clone, Copy)]
pub(crate) struct CompiledParameter<'p> {
    pub(crate) parameter: &'p Parameter,
    pub(crate) schema: &'p Schema,
}

impl CompiledParameter<'_> {
    /// Checks the parameter of a request.
    pub(crate) fn check(self, parts: &RequestParts<'_>) -> Result<(), Fault> {
        let place = (self.parameter.place, self.parameter.name.as_str());
        let fault =
            |detail: &str| Err(Fault::Violations(vec![Violation::new(place.0, place.1, detail)]));
        let values = match self.read(parts) {
            Written::Absent if self.parameter.required => {
                return fault("the parameter is required");
            }
            Written::Absent => return Ok(()),
            Written::Repeated => return fault("the parameter is repeated"),
            Written::Malformed(why) => return fault(&why),
            Written::TooMany => return Err(over_budget(place, TOO_MANY)),
            Written::Values(values) => values,
        };
        if self.parameter.empty
            && matches!(values.first(), Some(Value::String(text)) if text.is_empty())
        {
            return Ok(());
        }
        for value in &values {
            match self.schema.is_valid(value) {
                Some(true) => return Ok(()),
                Some(false) => {}
                None => return Err(over_budget(place, OVER_BUDGET)),
            }
        }
        let Some(value) = values.first() else { return Ok(()) };
        match Document::of(value) {
            Some(mut document) => self.schema.check(&mut document, place, budget::BASE_STEPS),
            None => Err(over_budget(place, TOO_MANY)),
        }
    }

    fn read(self, parts: &RequestParts<'_>) -> Written {
        match self.parameter.place {
            Place::Path => {
                let found = parts.path.iter().find(|(name, _)| *name == self.parameter.name);
                found.map_or(Written::Absent, |(_, raw)| self.segment(raw))
            }
            Place::Header => {
                let values = (parts.headers)(&self.parameter.name);
                match values.len() {
                    0 => Written::Absent,
                    // Fields of one name are one list (RFC 9110 section 5.3).
                    _ => self.plain(&values.join(","), ',', |item| item.trim().to_owned()),
                }
            }
            Place::Cookie => {
                let cookies = (parts.headers)("cookie").join("; ");
                if has_many(&cookies, ';') {
                    return Written::TooMany;
                }
                let pairs = cookies.split(';').map(|pair| split(pair.trim(), '='));
                self.fields(&pairs.collect::<Vec<_>>(), percent_decode)
            }
            Place::Query => {
                if has_many(parts.query, '&') {
                    return Written::TooMany;
                }
                let pairs = parts.query.split('&').filter(|p| !p.is_empty()).map(|p| split(p, '='));
                let pairs: Vec<_> = pairs.collect();
                self.fields(&pairs, |text| url_encoding::decode(text.as_bytes()))
            }
            Place::Body | Place::Status => Written::Absent,
        }
    }

    /// A value without a name: of a header, or a path segment of simple or label style.
    fn plain(self, raw: &str, separator: char, decode: impl Fn(&str) -> String) -> Written {
        let shape = &self.schema.shape;
        if self.parameter.style == Style::Json {
            return as_json(&decode(raw));
        }
        if has_many(raw, separator) {
            return Written::TooMany;
        }
        let items = || raw.split(separator);
        let is_list = !raw.is_empty() || self.parameter.style == Style::Label;
        if is_list && shape.types.has(Types::ARRAY) {
            return list(shape, items().map(decode));
        }
        if shape.types.has(Types::OBJECT) {
            let pairs = if self.parameter.explode {
                items().map(|item| split(item, '=')).map(|(n, v)| (decode(n), decode(v))).collect()
            } else {
                in_turn(items().map(decode))
            };
            return object(shape, pairs);
        }
        Written::Values(shape.readings(&decode(raw)))
    }

    fn segment(self, raw: &str) -> Written {
        let malformed =
            |what: &str| Written::Malformed(format!("the value does not begin with `{what}`"));
        match self.parameter.style {
            Style::Label => {
                let Some(raw) = raw.strip_prefix('.') else { return malformed(".") };
                let separator = if self.parameter.explode { '.' } else { ',' };
                self.plain(raw, separator, percent_decode)
            }
            Style::Matrix => {
                let Some(raw) = raw.strip_prefix(';') else { return malformed(";") };
                if has_many(raw, ';') {
                    return Written::TooMany;
                }
                let pairs: Vec<_> = raw.split(';').map(|p| split(p, '=')).collect();
                self.fields(&pairs, percent_decode)
            }
            _ => self.plain(raw, ',', percent_decode),
        }
    }

    /// Named fields of a query, of cookies, or of matrix style.
    fn fields(self, pairs: &[(&str, &str)], decode: impl Fn(&str) -> String) -> Written {
        let shape = &self.schema.shape;
        let is_object = shape.types.has(Types::OBJECT) && !shape.types.has(Types::ARRAY);
        if self.parameter.style == Style::Deep {
            return self.deep(pairs, decode);
        }
        if is_object && self.parameter.explode && self.parameter.style != Style::Json {
            let named = pairs.iter().map(|(n, v)| (decode(n), decode(v)));
            let members: Vec<_> = named.filter(|(n, _)| shape.members.contains_key(n)).collect();
            return if members.is_empty() { Written::Absent } else { object(shape, members) };
        }
        let mine: Vec<&str> = pairs
            .iter()
            .filter(|(n, _)| decode(n) == self.parameter.name)
            .map(|(_, v)| *v)
            .collect();
        let [first, more @ ..] = mine.as_slice() else { return Written::Absent };
        if shape.types.has(Types::ARRAY)
            && self.parameter.explode
            && self.parameter.style != Style::Json
        {
            let written = list(shape, mine.iter().map(|v| decode(v)));
            return match written {
                // A single text where a list is possible as well.
                Written::Values(mut values) if more.is_empty() => {
                    values.extend(shape.readings(&decode(first)));
                    Written::Values(values)
                }
                written => written,
            };
        }
        if !more.is_empty() {
            return Written::Repeated;
        }
        let separators: &[&str] = match self.parameter.style {
            Style::Space => &["%20", "+"],
            Style::Pipe => &["|", "%7C", "%7c"],
            Style::Json => return as_json(&decode(first)),
            _ => &[","],
        };
        let Some(items) = cut_at(first, separators) else { return Written::TooMany };
        let items = || items.iter().map(|item| decode(item));
        if shape.types.has(Types::ARRAY) {
            return list(shape, items());
        }
        if is_object {
            return object(shape, in_turn(items()));
        }
        Written::Values(shape.readings(&decode(first)))
    }

    fn deep(self, pairs: &[(&str, &str)], decode: impl Fn(&str) -> String) -> Written {
        let member = |name: &str| {
            let inner =
                name.strip_prefix(&*self.parameter.name)?.strip_prefix('[')?.strip_suffix(']')?;
            (!inner.contains(['[', ']'])).then(|| inner.to_owned())
        };
        let named = pairs.iter().map(|(n, v)| (decode(n), decode(v)));
        let members: Vec<_> = named.filter_map(|(n, v)| Some((member(&n)?, v))).collect();
        if members.is_empty() { Written::Absent } else { object(&self.schema.shape, members) }
    }
}

/// The parts before and after the first separator; without one, the entire text and an empty one.
fn split(text: &str, separator: char) -> (&str, &str) {
    text.split_once(separator).unwrap_or((text, ""))
}

/// Whether a text has more than [`ITEMS`] items.
fn has_many(text: &str, separator: char) -> bool {
    text.len() >= ITEMS && text.matches(separator).count() >= ITEMS
}

/// The items of a text; `None` if there are too many.
fn cut_at<'t>(text: &'t str, separators: &[&str]) -> Option<Vec<&'t str>> {
    let mut items = Vec::new();
    let mut rest = text;
    loop {
        if items.len() == ITEMS {
            return None;
        }
        let next = separators.iter().filter_map(|s| Some((rest.find(s)?, s.len()))).min();
        let Some((at, length)) = next else { break };
        items.push(&rest[..at]);
        rest = &rest[at + length..];
    }
    items.push(rest);
    Some(items)
}

fn as_json(text: &str) -> Written {
    match Document::parse(text.as_bytes()) {
        Ok(document) => Written::Values(vec![document.root().to_value().into_owned()]),
        Err(Unread::Malformed(why)) => Written::Malformed(why),
        Err(Unread::OverBudget(_)) => Written::TooMany,
    }
}

fn list(shape: &Shape, items: impl Iterator<Item = String>) -> Written {
    let any = Shape::default();
    let item = shape.items.as_deref().unwrap_or(&any);
    Written::Values(vec![items.map(|text| item.reading(&text)).collect()])
}

/// Alternating names and values.
fn in_turn(mut items: impl Iterator<Item = String>) -> Vec<(String, String)> {
    std::iter::from_fn(|| Some((items.next()?, items.next().unwrap_or_default()))).collect()
}

fn object(shape: &Shape, pairs: Vec<(String, String)>) -> Written {
    members(shape, pairs).map_or(Written::Repeated, |object| Written::Values(vec![object]))
}

/// Members as an object; members that are lists in the schema may repeat. `None`: another one
/// repeats.
fn members(shape: &Shape, pairs: impl IntoIterator<Item = (String, String)>) -> Option<Value> {
    let any = Shape::default();
    let mut object = Map::new();
    for (name, text) in pairs {
        let member = shape.members.get(&name).unwrap_or(&any);
        if member.types.has(Types::ARRAY) {
            let item = member.items.as_deref().unwrap_or(&any).reading(&text);
            add_item(&mut object, name, item);
        } else if object.insert(name, member.reading(&text)).is_some() {
            return None;
        }
    }
    Some(Value::Object(object))
}

/// The fields of a form as an object. Fields that repeat although the schema has no list are kept
/// as a list, which such a schema rejects. `None`: too many fields.
pub(crate) fn form(shape: &Shape, bytes: &[u8]) -> Option<Value> {
    let mut written = bytes.split(|&b| b == b'&').filter(|field| !field.is_empty());
    if written.nth(ITEMS).is_some() {
        return None;
    }
    let fields = || url_encoding::fields(bytes);
    Some(members(shape, fields()).unwrap_or_else(|| {
        let mut object = Map::new();
        fields().for_each(|(name, text)| add_item(&mut object, name, Value::from(text)));
        Value::Object(object)
    }))
}

/// Appends to the list that is this member.
fn add_item(object: &mut Map<String, Value>, name: String, item: Value) {
    let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
    if let Value::Array(items) = list {
        items.push(item);
    }
}
