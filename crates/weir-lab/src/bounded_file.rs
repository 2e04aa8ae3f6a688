//! Reads files that must not be endless or very large.

use std::io;
use std::path::Path;

/// Reads a regular file of at most `max_bytes`: a pipe or a device may be endless.
pub(crate) fn read(path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > max_bytes {
        let mebibytes = max_bytes >> 20;
        let reason = format!("not a regular file, or larger than {mebibytes} MiB");
        return Err(io::Error::other(reason));
    }
    std::fs::read(path)
}
