//! YAML documents: read with the location of every node, validated against a description of their
//! keys, with findings. The configuration and the Lab's scenarios are such documents.
//!
//! ```text
//! files → draft (nodes with locations) → check (against a shape) → values by typed keys
//! ```

pub mod check;
pub mod difference;
pub mod document;
pub mod draft;
pub mod finding;
pub mod reference;
pub mod schema;
pub mod secret_names;
pub mod shape;
pub mod source_map;
pub mod units;
