//! Access to the admin API of a running server.

use super::messages::Messages;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_admin::{Access, Tokens};
use weir_fleet::Handle;
use weir_store::audit::AuditLog;
use weir_store::revoked_keys::RevokedKeys;
use weir_store::views::Views;

/// Opens tokens and audit log of a data folder, and returns the path of the first token, if just
/// created. If this fails, traffic is served and the admin API is off.
pub(super) fn open(
    data: &Path,
    of_node: (Option<&Handle>, &Arc<RevokedKeys>),
    messages: &Messages,
) -> Option<(Access, Option<PathBuf>)> {
    let off = |error: &_| messages.err(format!("weir: the admin API is off: {error:#}"));
    try_open(data, of_node).inspect_err(off).ok()
}

fn try_open(
    data: &Path,
    (fleet, revoked_keys): (Option<&Handle>, &Arc<RevokedKeys>),
) -> anyhow::Result<(Access, Option<PathBuf>)> {
    let folder = |error: io::Error| anyhow::anyhow!("{}: {error}", data.display());
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(data).map_err(folder)?;
    let (tokens, first_token) = Tokens::open(data)?;
    let tokens = tokens.with_fleet(fleet.map(|fleet| Arc::clone(fleet.tokens())));
    let (tokens, audit) = (Arc::new(tokens), Arc::new(AuditLog::open(data)?));
    let views = Arc::new(Views::open(data)?);
    let revoked_keys = Arc::clone(revoked_keys);
    Ok((Access { tokens, audit, views, revoked_keys }, first_token))
}
