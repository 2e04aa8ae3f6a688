//! Calls of gRPC methods: messages as templates in their JSON form, bound to a schema.

use super::{Scope, Text};
use crate::grpc::{self, SchemaError, Statuses};
use bytes::Bytes;
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A call of a method, with one message or a stream of them in each direction.
#[derive(Clone, Debug)]
pub struct GrpcCall {
    /// `package.Service/Method`.
    pub path: String,
    /// Messages to send, in this order: one, unless the client streams.
    pub messages: Vec<MessageTemplate>,
    /// How often all of them are sent.
    pub repeat: u64,
    /// Time between two messages.
    pub interval: Duration,
    /// Time of the call, which the server gets as `grpc-timeout`.
    pub deadline: Option<Duration>,
    /// When the client ends a stream of the server.
    pub end: CallEnd,
    /// Statuses that are counted separately, neither as success nor as error.
    pub expected: Statuses,
    /// Method and messages of the schema, once that is known; clones of the call share them.
    pub bound: Arc<OnceLock<BoundCall>>,
}

/// When the client cancels a stream; without any limit the server ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallEnd {
    /// Number of received messages.
    pub messages: Option<u64>,
    /// Time since the request.
    pub time: Option<Duration>,
}

/// A call whose schema is known.
#[derive(Clone, Debug)]
pub struct BoundCall {
    /// The method.
    pub method: MethodDescriptor,
    messages: Vec<Prepared>,
}

/// A message to send.
#[derive(Clone, Debug)]
enum Prepared {
    /// Its JSON form and its frame.
    Fixed(String, Bytes),
    Template(MessageTemplate),
}

/// A JSON value with variables in its texts.
#[derive(Clone, Debug, PartialEq)]
pub enum MessageTemplate {
    /// A value without variables that is neither list nor object.
    Value(Value),
    /// A text with variables, of a field that is `true` or `false` if `is_bool`.
    Text {
        /// The text.
        text: Text,
        /// The value is no text.
        is_bool: bool,
    },
    /// A list.
    List(Vec<MessageTemplate>),
    /// An object.
    Object(Vec<(String, MessageTemplate)>),
}

/// An error of a template, with the keys and indexes that lead to its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// From the root.
    pub place: Vec<String>,
    /// The error.
    pub error: SchemaError,
}

impl MessageTemplate {
    /// The value, if it has no variables.
    fn fixed(&self) -> Option<Value> {
        Some(match self {
            Self::Value(value) => value.clone(),
            Self::Text { text, is_bool } => value_of(text.as_fixed()?, *is_bool),
            Self::List(items) => {
                Value::Array(items.iter().map(Self::fixed).collect::<Option<_>>()?)
            }
            Self::Object(members) => {
                let members =
                    members.iter().map(|(key, value)| Some((key.clone(), value.fixed()?)));
                Value::Object(members.collect::<Option<_>>()?)
            }
        })
    }

    /// The current value.
    fn render(&self, scope: &mut Scope<'_>) -> Value {
        match self {
            Self::Value(value) => value.clone(),
            Self::Text { text, is_bool } => value_of(&text.render(scope), *is_bool),
            Self::List(items) => items.iter().map(|item| item.render(scope)).collect(),
            Self::Object(members) => {
                let members = members.iter().map(|(key, value)| (key.clone(), value.render(scope)));
                Value::Object(members.collect())
            }
        }
    }
}

/// The value of a text, which the JSON form accepts for fields of most types.
fn value_of(text: &str, is_bool: bool) -> Value {
    match text.parse() {
        Ok(value) if is_bool => Value::Bool(value),
        _ => Value::String(text.to_owned()),
    }
}

/// Compares a template with the descriptors of a schema.
struct Binder<'e> {
    place: Vec<String>,
    errors: &'e mut Vec<TemplateError>,
}

impl Binder<'_> {
    fn report(&mut self, error: SchemaError) {
        self.errors.push(TemplateError { place: self.place.clone(), error });
    }

    fn message(&mut self, message: &MessageDescriptor, template: &mut MessageTemplate) {
        let MessageTemplate::Object(members) = template else {
            let help = "write a mapping of its fields".to_owned();
            let text = format!("`{}` is a message", message.full_name());
            return self.report(SchemaError::new(text, Some(help)));
        };
        for (key, value) in members {
            self.place.push(key.clone());
            match grpc::field_of(message, key) {
                Ok(field) => self.field(&field, value),
                Err(error) => self.report(error),
            }
            self.place.pop();
        }
    }

    fn field(&mut self, field: &FieldDescriptor, value: &mut MessageTemplate) {
        if *value == MessageTemplate::Value(Value::Null) {
            return;
        }
        let kind = match field.kind() {
            Kind::Message(entry) if field.is_map() => entry.map_entry_value_field().kind(),
            kind => kind,
        };
        let before = self.errors.len();
        match &mut *value {
            MessageTemplate::Object(members) if field.is_map() => {
                for (key, value) in members {
                    self.place.push(key.clone());
                    self.value(&kind, value);
                    self.place.pop();
                }
            }
            MessageTemplate::List(items) if field.is_list() => {
                for (at, item) in items.iter_mut().enumerate() {
                    self.place.push(at.to_string());
                    self.value(&kind, item);
                    self.place.pop();
                }
            }
            _ if field.is_map() || field.is_list() => {
                let what = if field.is_map() { "mapping" } else { "list" };
                let parent = field.parent_message();
                let (name, kind) = (field.name(), grpc::described(field));
                let text = format!("`{name}` of `{}` is {kind}", parent.full_name());
                self.report(SchemaError::new(text, Some(format!("write a {what}"))));
            }
            value => self.value(&kind, value),
        }
        if self.errors.len() == before
            && let Some(value) = value.fixed()
            && let Err(error) = grpc::check(field, &value)
        {
            self.report(error);
        }
    }

    fn value(&mut self, kind: &Kind, value: &mut MessageTemplate) {
        if let Some(message) = grpc::fields_of(kind) {
            self.message(&message, value);
        } else if let MessageTemplate::Text { is_bool, .. } = value {
            *is_bool = grpc::is_bool(kind);
        }
    }
}

impl GrpcCall {
    /// Binds method and messages to a schema. Calls that are bound stay as they are.
    ///
    /// # Errors
    /// All errors, each with the place in the list of messages.
    pub(crate) fn bind(&self, pool: &DescriptorPool) -> Result<(), Vec<TemplateError>> {
        let at_root = |error| vec![TemplateError { place: Vec::new(), error }];
        let method = grpc::method(pool, &self.path).map_err(at_root)?;
        if let Some(error) = self.misplaced(&method) {
            return Err(at_root(error));
        }
        let (mut errors, mut messages) = (Vec::new(), Vec::new());
        for (at, message) in self.messages.iter().enumerate() {
            let before = errors.len();
            let mut template = message.clone();
            let mut binder = Binder { place: vec![at.to_string()], errors: &mut errors };
            binder.message(&method.input(), &mut template);
            let prepared = match template.fixed() {
                _ if errors.len() > before => continue,
                None => Ok(Prepared::Template(template)),
                Some(value) => {
                    let json = value.to_string();
                    let framed = grpc::encode(&method.input(), value);
                    framed.map(|framed| Prepared::Fixed(json, framed))
                }
            };
            match prepared {
                Ok(prepared) => messages.push(prepared),
                Err(why) => {
                    let error = SchemaError::new(why, None);
                    errors.push(TemplateError { place: vec![at.to_string()], error });
                }
            }
        }
        if errors.is_empty() {
            // Another run of the same call may have bound it.
            let _ = self.bound.set(BoundCall { method, messages });
            return Ok(());
        }
        Err(errors)
    }

    /// What the streams of a method do not permit.
    fn misplaced(&self, method: &MethodDescriptor) -> Option<SchemaError> {
        let path = &self.path;
        let several = self.messages.len() > 1 || self.repeat > 1 || !self.interval.is_zero();
        if several && !method.is_client_streaming() {
            let text = format!("`{path}` takes a single message");
            let help = "write `message: {…}`, without `repeat` and `interval`".to_owned();
            return Some(SchemaError::new(text, Some(help)));
        }
        if self.end != CallEnd::default() && !method.is_server_streaming() {
            let text = format!("`until` ends a stream of the server, and `{path}` has none");
            return Some(SchemaError::new(text, Some("omit `until`".to_owned())));
        }
        None
    }

    /// Number of messages to send.
    pub(crate) fn count(&self) -> u64 {
        self.repeat.saturating_mul(self.messages.len() as u64)
    }

    /// The JSON form of the first message, if the call is bound and the message has no variables.
    pub(crate) fn fixed_json(&self) -> Option<&str> {
        match self.bound.get()?.messages.as_slice() {
            [Prepared::Fixed(json, _), ..] => Some(json),
            _ => None,
        }
    }

    /// Whether no message has variables.
    pub(crate) fn is_fixed(&self) -> bool {
        self.messages.iter().all(|message| message.fixed().is_some())
    }
}

impl BoundCall {
    /// The frame of the first message, and its JSON form.
    pub(crate) fn first(&self, scope: &mut Scope<'_>) -> Result<(Bytes, Cow<'_, str>), String> {
        match self.prepared(0)? {
            Prepared::Fixed(json, framed) => Ok((framed.clone(), Cow::Borrowed(json))),
            Prepared::Template(template) => {
                let value = template.render(scope);
                let json = Cow::Owned(value.to_string());
                Ok((grpc::encode(&self.method.input(), value)?, json))
            }
        }
    }

    /// The frame of a message, cyclically.
    pub(crate) fn frame(&self, number: u64, scope: &mut Scope<'_>) -> Result<Bytes, String> {
        match self.prepared(number)? {
            Prepared::Fixed(_, framed) => Ok(framed.clone()),
            Prepared::Template(template) => {
                grpc::encode(&self.method.input(), template.render(scope))
            }
        }
    }

    fn prepared(&self, number: u64) -> Result<&Prepared, String> {
        let count = self.messages.len().max(1) as u64;
        let found = self.messages.get((number % count) as usize);
        found.ok_or_else(|| "the call has no message".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::tests::pool;
    use crate::program::{Function, Program, State, TextPart, Values};
    use serde_json::json;

    fn template(value: &Value) -> MessageTemplate {
        match value {
            Value::Array(items) => MessageTemplate::List(items.iter().map(template).collect()),
            Value::Object(members) => MessageTemplate::Object(
                members.iter().map(|(key, value)| (key.clone(), template(value))).collect(),
            ),
            Value::String(text) if text == "${user}" => {
                let text = Text::from_parts([TextPart::from(Function::UserNumber)]);
                MessageTemplate::Text { text, is_bool: false }
            }
            value => MessageTemplate::Value(value.clone()),
        }
    }

    fn call(path: &str, messages: &[Value]) -> GrpcCall {
        GrpcCall {
            path: path.to_owned(),
            messages: messages.iter().map(template).collect(),
            repeat: 1,
            interval: Duration::ZERO,
            deadline: None,
            end: CallEnd::default(),
            expected: Statuses::default(),
            bound: Arc::default(),
        }
    }

    fn errors(path: &str, message: Value) -> Vec<String> {
        let errors = call(path, &[message]).bind(&pool()).unwrap_err();
        errors.iter().map(|e| format!("{}: {}", e.place.join("/"), e.error)).collect()
    }

    #[test]
    fn messages_with_variables_are_made_for_each_call() {
        let message =
            json!({"order_id": "${user}", "cents": "${user}", "items": [{"name": "${user}"}]});
        let call = call("shop.Orders/Get", &[message]);
        call.bind(&pool()).unwrap();
        let program = Program::default();
        let state = State::new(&program);
        let mut values = Values::new(&program, &state, 0, 6, 1);
        let mut scope = Scope { program: &program, state: &state, values: &mut values };
        let bound = call.bound.get().unwrap();
        let (framed, json) = bound.first(&mut scope).unwrap();
        assert_eq!(framed, &b"\0\0\0\0\x0a\x0a\x017\x10\x07\x32\x03\x0a\x017"[..]);
        assert_eq!(json, r#"{"order_id":"7","cents":"7","items":[{"name":"7"}]}"#);
        assert!(call.fixed_json().is_none() && !call.is_fixed());
    }

    #[test]
    fn every_error_has_its_place() {
        let message = json!({
            "order": 1, "items": [{"name": "a"}, {"nam": "b"}], "byName": {"x": {"count": "many"}},
            "first": 5, "numbers": 1, "gift": "maybe",
        });
        let found = errors("shop.Orders/Get", message);
        let starts = [
            "0/order: `shop.Order` has no field `order`",
            "0/items/1/nam: `shop.Item` has no field `nam`",
            "0/byName/x/count: `count` of `shop.Item` is int32: ",
            "0/first: `shop.Item` is a message",
            "0/numbers: `numbers` of `shop.Order` is repeated int32",
            "0/gift: `gift` of `shop.Order` is bool: ",
        ];
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for (found, start) in found.iter().zip(starts) {
            assert!(found.starts_with(start), "{found}");
        }
        assert_eq!(errors("shop.Orders/Got", json!({})), [": `shop.Orders` has no method `Got`"]);
    }

    #[test]
    fn only_streams_have_several_messages() {
        let two = [json!({}), json!({})];
        let error = call("shop.Orders/Watch", &two).bind(&pool()).unwrap_err();
        assert_eq!(error[0].error.message, "`shop.Orders/Watch` takes a single message");
        let until = CallEnd { messages: Some(1), time: None };
        let put = GrpcCall { end: until, ..call("shop.Orders/Put", &[json!({})]) };
        let error = put.bind(&pool()).unwrap_err();
        assert!(error[0].error.message.starts_with("`until` ends a stream"), "{error:?}");
        let call = call("shop.Orders/Put", &two);
        call.bind(&pool()).unwrap();
        assert_eq!((call.count(), call.is_fixed()), (2, true));
    }
}
