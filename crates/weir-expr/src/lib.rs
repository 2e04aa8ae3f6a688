//! Compiled expressions: values that are parsed once, with the configuration, and evaluated on
//! requests and records.
//!
//! [`Expr`] is a CEL expression, [`map::JsonMap`] a structural map of JSON, [`body_mask::BodyMask`]
//! the paths to redact, [`business_keys::BusinessKeys`] the keys of a transaction, [`price::Price`]
//! the price of a call. [`xml`] and [`format`] convert between XML and JSON.

pub mod body_mask;
pub mod business_keys;
mod expr;
pub mod format;
mod json_tokens;
pub mod map;
pub mod price;
pub mod redaction;
pub mod url_encoding;
pub mod xml;

pub use body_mask::BodyMask;
pub use business_keys::BusinessKeys;
pub use expr::{CallFacts, Expr, RequestFacts, Scope, VARIABLES};
pub use format::Format;
