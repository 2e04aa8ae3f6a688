//! Static files of a folder, cached by each worker for a moment.
//!
//! A path never leads out of the folder (`disk`). A file and its compressed siblings are a
//! `resource`; small files are kept in memory. A worker never waits for a disk.

mod body;
mod disk;
mod resource;
mod root;
mod stored;
mod types;

pub use body::{Chunk, FileBody, READ_TIMEOUT};
pub use disk::{IoMode, ReadError, on_thread, read_all};
pub use resource::{CODINGS, Lookup, Resource, decode_path};
pub use root::Root;
pub use stored::{Compressing, Stored};
pub use types::is_asset;
