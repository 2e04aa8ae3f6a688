//! Messages in the JSON form of protobuf (`protobuf.dev/programming-guides/json`).

use super::frame::frame;
use super::schema::{SchemaError, suggested};
use bytes::Bytes;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, SerializeOptions};
use serde_json::Value;

/// Largest message that is shown in its JSON form: a field takes many times its bytes.
const MAX_DECODED_BYTES: usize = 4 << 20;

/// A message in its frame.
pub(crate) fn encode(message: &MessageDescriptor, value: Value) -> Result<Bytes, String> {
    let message = DynamicMessage::deserialize(message.clone(), value);
    frame(&message.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
}

/// The JSON form of a message, with fields that have their default value. 64-bit integers are texts, as
/// the JSON form requires. `None` if the message is too large.
pub(crate) fn json_of(
    message: &MessageDescriptor,
    bytes: Bytes,
) -> Result<Option<Vec<u8>>, String> {
    if bytes.len() > MAX_DECODED_BYTES {
        return Ok(None);
    }
    let decoded = DynamicMessage::decode(message.clone(), bytes);
    let name = message.full_name();
    let decoded = decoded.map_err(|error| format!("a message is no {name}: {error}"))?;
    let mut json = serde_json::Serializer::new(Vec::new());
    let options = SerializeOptions::new().skip_default_fields(false);
    let written = decoded.serialize_with_options(&mut json, &options);
    written.map_err(|error| format!("a {name} has no JSON form: {error}"))?;
    Ok(Some(json.into_inner()))
}

/// The field with a name of the JSON form (`orderId`) or of the schema (`order_id`).
pub(crate) fn field_of(
    message: &MessageDescriptor,
    name: &str,
) -> Result<FieldDescriptor, SchemaError> {
    let found = message.get_field_by_json_name(name).or_else(|| message.get_field_by_name(name));
    found.ok_or_else(|| {
        let names: Vec<String> = message.fields().map(|field| field.name().to_owned()).collect();
        let text = format!("`{}` has no field `{name}`", message.full_name());
        SchemaError::new(text, suggested(name, &names, "fields"))
    })
}

/// The message of a field whose fields have names; well-known types such as `Timestamp` have a JSON form of
/// their own.
pub(crate) fn fields_of(kind: &Kind) -> Option<MessageDescriptor> {
    let Kind::Message(message) = kind else { return None };
    (!message.full_name().starts_with("google.protobuf.")).then(|| message.clone())
}

/// Whether a value is `true` or `false`.
pub(crate) fn is_bool(kind: &Kind) -> bool {
    match kind {
        Kind::Bool => true,
        Kind::Message(message) => message.full_name() == "google.protobuf.BoolValue",
        _ => false,
    }
}

/// Checks the value of a field.
pub(crate) fn check(field: &FieldDescriptor, value: &Value) -> Result<(), SchemaError> {
    let mut object = serde_json::Map::new();
    object.insert(field.json_name().to_owned(), value.clone());
    let parent = field.parent_message();
    let parsed = DynamicMessage::deserialize(parent.clone(), Value::Object(object));
    let Err(error) = parsed else { return Ok(()) };
    let kind = described(field);
    let text = format!("`{}` of `{}` is {kind}: {error}", field.name(), parent.full_name());
    let help = match (field.kind(), value) {
        (Kind::Enum(names), Value::String(name)) => {
            let known: Vec<String> = names.values().map(|v| v.name().to_owned()).collect();
            suggested(name, &known, "values")
        }
        (Kind::Bytes, _) => Some("bytes are written in Base64".to_owned()),
        _ => None,
    };
    Err(SchemaError::new(text, help))
}

/// The type of a field, in the words of a `.proto` file.
pub(crate) fn described(field: &FieldDescriptor) -> String {
    let kind = |kind: &Kind| format!("{kind:?}");
    match field.kind() {
        Kind::Message(entry) if field.is_map() => {
            let (key, value) = (entry.map_entry_key_field(), entry.map_entry_value_field());
            format!("map<{}, {}>", kind(&key.kind()), kind(&value.kind()))
        }
        own if field.is_list() => format!("repeated {}", kind(&own)),
        own => kind(&own),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::grpc::schema::compile;
    use prost_reflect::DescriptorPool;
    use serde_json::json;

    /// A schema with fields of every kind.
    pub(crate) const SCHEMA: &str = "syntax = \"proto3\"; package shop;\n\
        import \"google/protobuf/timestamp.proto\";\n\
        enum State { NEW = 0; PAID = 1; }\n\
        message Item { string name = 1; int32 count = 2; }\n\
        message Order {\n\
          string order_id = 1; int64 cents = 2; bool gift = 3; bytes raw = 4; State state = 5;\n\
          repeated Item items = 6; map<string, Item> by_name = 7; repeated int32 numbers = 8;\n\
          google.protobuf.Timestamp at = 9; Item first = 10; optional double weight = 11;\n\
        }\n\
        service Orders {\n\
          rpc Get(Order) returns (Order); rpc Watch(Order) returns (stream Order);\n\
          rpc Put(stream Order) returns (Order); rpc Talk(stream Order) returns (stream Order);\n\
        }\n";

    pub(crate) fn pool() -> DescriptorPool {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("shop.proto"), SCHEMA).unwrap();
        compile(folder.path(), (&["shop.proto".to_owned()], &[])).unwrap()
    }

    fn order() -> MessageDescriptor {
        pool().get_message_by_name("shop.Order").unwrap()
    }

    #[test]
    fn messages_have_a_json_form() {
        let value = json!({
            "orderId": "7", "cents": "12", "gift": true, "raw": "AQI=", "state": "PAID",
            "items": [{"name": "tea", "count": 2}], "byName": {"a": {"name": "a", "count": 0}},
            "numbers": [1, 2], "at": "2026-01-01T00:00:00Z",
        });
        let framed = encode(&order(), value.clone()).unwrap();
        let json = json_of(&order(), framed.slice(5..)).unwrap().unwrap();
        let back: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(back, value);
        let empty = json_of(&order(), Bytes::new()).unwrap().unwrap();
        let empty: Value = serde_json::from_slice(&empty).unwrap();
        assert_eq!((&empty["orderId"], &empty["state"]), (&json!(""), &json!("NEW")));
        let by_schema = encode(&order(), json!({"order_id": "7"})).unwrap();
        assert_eq!(by_schema, &b"\0\0\0\0\x03\x0a\x017"[..]);
        let malformed = json_of(&order(), Bytes::from_static(b"\x0a\x05x")).unwrap_err();
        assert!(malformed.starts_with("a message is no shop.Order: "), "{malformed}");
        let large = json_of(&order(), vec![0; MAX_DECODED_BYTES + 1].into());
        assert_eq!(large, Ok(None));
    }

    #[test]
    fn errors_name_field_and_type() {
        let wrong = |name: &str, value: Value| {
            let error = check(&field_of(&order(), name).unwrap(), &value).unwrap_err();
            (error.message, error.help.unwrap_or_default())
        };
        let (text, help) = wrong("state", json!("PAYD"));
        assert!(text.starts_with("`state` of `shop.Order` is shop.State: "), "{text}");
        assert_eq!(help, "did you mean `PAID`?");
        let (text, _) = wrong("cents", json!("many"));
        assert!(text.starts_with("`cents` of `shop.Order` is int64: "), "{text}");
        let (text, _) = wrong("numbers", json!([1, "x"]));
        assert!(text.starts_with("`numbers` of `shop.Order` is repeated int32: "), "{text}");
        let (_, help) = wrong("raw", json!("?"));
        assert_eq!(help, "bytes are written in Base64");
        let unknown = field_of(&order(), "cent").unwrap_err();
        assert_eq!(unknown.message, "`shop.Order` has no field `cent`");
        assert_eq!(unknown.help.as_deref(), Some("did you mean `cents`?"));
        let by_name = field_of(&order(), "byName").unwrap();
        assert_eq!(described(&by_name), "map<string, shop.Item>");
    }
}
