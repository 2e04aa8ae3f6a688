//! Sealing.
use crate::background::Inner;
use std::io;
impl Inner {
    pub(crate) fn seal_one(&self) -> io::Result<bool> { Ok(false) }
    pub(crate) fn seal_all(&self) -> io::Result<()> { Ok(()) }
    pub(crate) fn retain(&self) -> io::Result<()> { Ok(()) }
    pub(crate) fn sync(&self) -> bool { false }
}
