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

pub use body::{FileBody, PATIENCE, Piece};
pub use disk::{Trouble, Way, on_thread, read_whole};
pub use resource::{Coding, Found, Resource, decoded};
pub use root::Root;
pub use stored::{Compressing, Stored};
pub use types::is_part;
