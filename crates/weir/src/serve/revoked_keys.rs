//! API keys that an operator has revoked, from the database to the workers.

use anyhow::Context;
use std::path::Path;
use std::sync::Arc;
use weir_config::KeyHash;
use weir_server::{Bound, Gateway};
use weir_store::revoked_keys::RevokedKeys;

/// Opens those of a data folder, which the workers reject from the first request on; without a database that
/// could be opened, none.
///
/// # Errors
/// There is a database, and it cannot be read: revoked keys would be accepted.
pub(super) fn open(data: &Path, bound: &mut Bound) -> anyhow::Result<Arc<RevokedKeys>> {
    let keys = match RevokedKeys::open(data) {
        // The admin API is off then, so none will be revoked.
        Err(_) if !weir_store::exists(data) => RevokedKeys::in_memory()?,
        opened => opened.context("cannot read the revoked API keys")?,
    };
    bound.revoke_keys(revoked(&keys.hashes()));
    Ok(Arc::new(keys))
}

/// Has the workers reject them from now on, and those that are revoked later.
pub(super) fn connect(keys: &RevokedKeys, gateway: &Arc<Gateway>) {
    let gateway = Arc::clone(gateway);
    keys.publish_to(move |hashes| gateway.revoke_keys(revoked(&hashes)));
}

/// As the gateway has them.
fn revoked(hashes: &[String]) -> weir_server::RevokedKeys {
    hashes.iter().filter_map(|hash| KeyHash::of_digits(hash)).collect()
}
