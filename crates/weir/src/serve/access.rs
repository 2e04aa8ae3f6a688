//! Access to the admin API of a running server.

use super::messages::Messages;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_admin::{Access, Tokens};
use weir_store::audit::AuditLog;

/// Tokens and audit log of a data folder.
pub(super) struct Opened {
    pub(super) access: Access,
    /// Path of the first token, if just created.
    pub(super) first_token: Option<PathBuf>,
}

/// Opens tokens and audit log. If this fails, traffic is served and the admin API is off.
pub(super) fn open(data: &Path, messages: &Messages) -> Option<Opened> {
    match try_open(data) {
        Ok(opened) => Some(opened),
        Err(error) => {
            messages.err(format!("weir: the admin API is off: {error:#}"));
            None
        }
    }
}

fn try_open(data: &Path) -> anyhow::Result<Opened> {
    let folder = |error: io::Error| anyhow::anyhow!("{}: {error}", data.display());
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(folder)?;
    let (tokens, first_token) = Tokens::open(data)?;
    let audit = AuditLog::open(data)?;
    Ok(Opened { access: Access { tokens: Arc::new(tokens), audit: Arc::new(audit) }, first_token })
}
