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

pub(crate) use body::{FileBody, PATIENCE, Piece};
pub(crate) use disk::{Trouble, Way, on_thread, read_whole};
pub(crate) use resource::{Coding, Found, Resource, decoded};
pub(crate) use root::Root;
pub(crate) use stored::{Compressing, Stored};
pub(crate) use types::is_part;
