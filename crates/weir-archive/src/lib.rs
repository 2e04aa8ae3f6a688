//! The archive: sealed segments of the journal in S3-compatible object storage.
//!
//! An [`Uploader`] is a follower of the journal with a bounded backlog. It uploads each sealed segment
//! with parts of the index that were written for this segment alone, and then a manifest that names
//! these objects. An [`Archive`] finds manifests by the times in their names, and fetches what a search
//! needs: first the columns of parts, then their terms, then the segments of candidates.
//!
//! The modules in the order of a segment: `staged` links and indexes it, `layout` has names and contents
//! of objects, `bucket` reads and writes them, `uploader` combines these and advances the checkpoint,
//! `retention` deletes what is too old. `cache` keeps fetched files for the next search, `archive`
//! searches.

mod archive;
mod bucket;
mod cache;
mod error;
mod gaps;
mod layout;
mod retention;
mod staged;
mod uploader;

pub use archive::{Archive, Fetched};
pub use bucket::{BucketSettings, Credentials};
pub use error::ArchiveError;
pub use uploader::{FOLLOWER, Settings, Statistics, Uploader, remove_follower};
