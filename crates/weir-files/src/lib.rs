//! Files of a folder as one worker remembers them for a moment.
//!
//! A path leads beneath the folder and nowhere else (`disk`); a file and its compressed forms are a
//! `resource`, whose bytes are in memory if they are few. A worker never waits for a disk.

mod body;
mod disk;
mod resource;
mod root;
mod stored;
mod types;

pub use body::{Chunk, FileBody, READ_TIMEOUT};
pub use disk::{IoMode, ReadError, on_thread, read_all};
pub use resource::{Coding, Lookup, Resource, decode_path};
pub use root::Root;
pub use stored::{Compressing, Stored};
pub use types::is_asset;
