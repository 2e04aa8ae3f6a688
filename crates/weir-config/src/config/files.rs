//! Files that answer a route.

use std::path::PathBuf;

/// Files of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The folder. Absolute, or from the folder that weir was started in.
    pub root: PathBuf,
    /// Only this file of it, whatever the path; else what the path's wildcard took.
    pub file: Option<String>,
    /// Names of what answers for a folder, in order of preference; may be empty.
    pub index: Vec<String>,
    /// Path from `root` of what answers where nothing is found.
    pub fallback: Option<String>,
    /// Siblings that are compressed already answer for their originals.
    pub precompressed: bool,
    /// Names that begin with a dot are served, too.
    pub dot_files: bool,
    /// Value of the Cache-Control header.
    pub cache_control: Option<String>,
    /// Content types by extension in lower case, before those known anyway.
    pub types: Vec<(String, String)>,
    /// Most bytes of contents that are kept in memory, all workers together.
    pub memory: u64,
}
