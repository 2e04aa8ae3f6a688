//! Transactions as documents of OpenSearch, and queries in its query DSL.
//!
//! A document is in the index of its state and day, `weir-NAME-done-YYYY.MM.DD` or
//! `weir-NAME-failed-YYYY.MM.DD`. The day is that of the id, a UUIDv7: so a document always has the
//! same index and id, whenever it is sent.
//!
//! | field | content |
//! |---|---|
//! | `id` `state` `status` `took_us` `time` `time_us`, names as in a query | metadata; names are cut at 256 bytes, as queries compare them |
//! | `node` `node_name` | id and display name of the node that recorded it, in a fleet |
//! | `keys` | business keys as `NAME=VALUE`; `%` and `=` of a name are `%25` and `%3D` |
//! | `has` | `target`, `headers`, `body`: texts that exist |
//! | `header_names` | names of headers, lower case |
//! | `words.target` `words.headers` `words.body` `words.other` | words of the texts, as the tokenizer of the Tracker splits them, separated by a space. The analyzer `whitespace` returns the same words, so that a phrase is found there if and only if the Tracker finds it |
//! | `words.header` | words of header values, each as `NAME=WORD` |
//! | `payload` | heads, bodies and whatever a resubmission needs; not indexed |
//!
//! `words` is indexed and not stored; `has`, `header_names`, `words` and `payload` exist with
//! the content `payload` only.

mod document;
mod mapping;
mod query;
mod recorded;
mod search;

pub use document::{day, write_action, write_document};
pub use mapping::{index_template, is_own_template};
pub use query::Translation;
pub use search::{Found, SearchBody, found_document};

use crate::field::cut;

/// A business key as a value of the field `keys`; without a value, the prefix of all its values.
fn key_value(name: &str, value: Option<&str>) -> String {
    let name = cut(name).replace('%', "%25").replace('=', "%3D");
    format!("{name}={}", cut(value.unwrap_or_default()))
}

/// The name of a header as in `header_names` and `words.header`.
fn header_name(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    let name: String = name.chars().filter(|letter| !letter.is_whitespace()).collect();
    cut(&name).to_ascii_lowercase()
}
