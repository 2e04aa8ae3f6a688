//! gRPC without generated code: statuses, framed messages, schemas of `.proto` files and of servers, and
//! messages in their JSON form.

mod frame;
mod message;
mod reflection;
mod schema;
mod status;

pub(crate) use frame::{Decoder, Frame, FrameError, frame};
pub(crate) use message::{check, described, encode, field_of, fields_of, is_bool, json_of};
pub(crate) use reflection::{Content, Descriptors, Question, Reply, Request, SERVICES};
pub use schema::SchemaError;
pub(crate) use schema::{compile, method, parts};
pub use status::{Status, Statuses};

#[cfg(test)]
pub(crate) use message::tests;
