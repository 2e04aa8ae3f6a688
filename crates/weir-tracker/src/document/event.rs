//! Data of the event of a transaction that has ended.

use super::{Field, Transaction};
use serde::Serialize;
use weir_journal as journal;
use weir_model::search_sink::Content;

/// A transaction with its business keys, which are a part of the payload elsewhere.
#[derive(Serialize)]
struct EventData {
    #[serde(flatten)]
    transaction: Transaction,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    keys: Vec<Field>,
}

/// Appends the document of a transaction as JSON, without a line break: that of the admin API, with
/// the business keys also without payload. These have to be [extracted](crate::read_keys) before.
/// `node` is the name of the node that recorded it; may be empty.
pub fn write_event_data(
    transaction: &journal::Transaction,
    node: &str,
    content: Content,
    out: &mut Vec<u8>,
) {
    let keys = transaction
        .keys
        .iter()
        .map(|(name, value)| Field { name: name.clone(), value: value.clone() });
    let keys = keys.collect();
    let mut document = Transaction::new(transaction.clone(), content == Content::Payload);
    node.clone_into(&mut document.summary.node);
    // Writing to memory does not fail, and the document has no map whose names are not text.
    let _ = serde_json::to_writer(out, &EventData { transaction: document, keys });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_there_without_payload() {
        let transaction = journal::Transaction {
            target: "/a?pin=secret".to_owned(),
            request_body: b"secret".to_vec(),
            keys: vec![("order".to_owned(), "A-1".to_owned())],
            ..journal::Transaction::default()
        };
        let written = |content| {
            let mut text = Vec::new();
            write_event_data(&transaction, "n1", content, &mut text);
            serde_json::from_slice::<serde_json::Value>(&text).unwrap()
        };
        let keys = written(Content::Keys);
        assert_eq!(keys["keys"][0]["value"], "A-1");
        assert_eq!((&keys["path"], &keys["node"]), (&"/a".into(), &"n1".into()));
        assert!(!keys.to_string().contains("secret"), "{keys}");
        let payload = written(Content::Payload);
        assert_eq!(payload["payload"]["request_body"]["text"], "secret");
        assert_eq!(payload["keys"], keys["keys"]);
    }
}
