//! A remote index: its parts and segments are fetched when a query needs them.

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

use weir_journal::{Address, Journal};

use crate::part::file::PartHead;

/// Where the parts and segments of a remote index come from. Its methods may block. Their errors name
/// the object.
pub trait Remote: Debug + Send + Sync {
    /// Parts that may have transactions received in this range (inclusive, in microseconds since 1970)
    /// and that were not returned before.
    ///
    /// # Errors
    /// They cannot be listed or read.
    fn parts(&self, times: (u64, u64)) -> io::Result<Vec<RemotePart>>;

    /// Fetches a file of a part, unless it is there: its path is the folder of the part with the name
    /// of the file.
    ///
    /// # Errors
    /// It cannot be fetched.
    fn file(&self, path: &Path) -> io::Result<()>;

    /// Fetches the segments that have these addresses, unless they are there, and adds them to the
    /// journal; with headers and bodies if `payload`.
    ///
    /// # Errors
    /// One cannot be fetched.
    fn segments(&self, journal: &Journal, addresses: &[Address], payload: bool) -> io::Result<()>;
}

/// A part whose files are fetched when they are needed.
#[derive(Debug)]
pub struct RemotePart {
    /// The folder into which its files are fetched.
    pub folder: PathBuf,
    /// What the part says about itself.
    pub head: PartHead,
    /// The lane of its transactions in the journal into which segments are fetched.
    pub lane: u16,
}
