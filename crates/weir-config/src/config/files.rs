//! Static files of a route.

use std::path::PathBuf;

/// Static files of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The folder: absolute, or relative to the working folder of weir.
    pub root: PathBuf,
    /// The only file to serve, whatever the path; otherwise the path matched by the wildcard.
    pub file: Option<String>,
    /// Index files of a folder in order of preference; may be empty.
    pub index: Vec<String>,
    /// Path below `root` of the file to serve in place of a 404.
    pub fallback: Option<String>,
    /// Whether to serve compressed siblings of files.
    pub precompressed: bool,
    /// Whether to serve names that begin with a dot.
    pub dot_files: bool,
    /// Value of the Cache-Control header.
    pub cache_control: Option<String>,
    /// Content types by extension in lower case; they take precedence over the built-in ones.
    pub types: Vec<(String, String)>,
    /// Maximum size of the file cache in bytes, for all workers.
    pub memory: u64,
}
