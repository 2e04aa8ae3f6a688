//! Accounts of the identity provider, and the mapping of their groups to rights.
//!
//! A session or a token of an account keeps the groups of the sign-in. Each request maps them with the
//! configuration in force, so that a removed or narrowed entry of `admin.oidc.roles` takes effect at once.

use crate::role::Role;
use crate::scope::{Depth, TokenScope};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use weir_config::{AdminDepth, AdminRole, Oidc};

/// Most groups that are kept of an account; those of the configuration go first.
const MAX_GROUPS: usize = 64;
/// Longest name of a kept group in bytes.
const MAX_GROUP_BYTES: usize = 256;

/// What the rights of an account depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Account {
    /// The issuer that has authenticated it.
    issuer: String,
    /// Its groups at sign-in.
    groups: Vec<String>,
}

/// The rights of an account under the configuration in force; `None`: it has no access any more.
pub(crate) type Mapping = Box<dyn Fn(&Account) -> Option<(Role, TokenScope)> + Send + Sync>;

impl Account {
    /// The account of verified claims.
    pub(crate) fn of(settings: &Oidc, claims: &Map<String, Value>) -> Self {
        let claimed = match claims.get(&settings.groups_claim) {
            None => &[],
            Some(Value::Array(groups)) => groups.as_slice(),
            Some(group) => std::slice::from_ref(group),
        };
        let named = claimed.iter().filter_map(Value::as_str);
        let mut groups: Vec<String> =
            named.filter(|group| group.len() <= MAX_GROUP_BYTES).map(str::to_owned).collect();
        groups.sort_by_key(|group| settings.roles.iter().all(|one| one.group != *group));
        groups.truncate(MAX_GROUPS);
        Self { issuer: settings.issuer.clone(), groups }
    }

    /// The rights of the first entry whose group the account has; none at another provider.
    pub(crate) fn rights(&self, settings: &Oidc) -> Option<(Role, TokenScope)> {
        if self.issuer != settings.issuer {
            return None;
        }
        let rights = settings.roles.iter().find(|one| self.groups.contains(&one.group))?;
        let role = match rights.role {
            AdminRole::Viewer => Role::Viewer,
            AdminRole::PayloadViewer => Role::PayloadViewer,
            AdminRole::Operator => Role::Operator,
            AdminRole::Admin => Role::Admin,
        };
        let depth = match rights.depth {
            AdminDepth::Counts => Depth::Counts,
            AdminDepth::Metadata => Depth::Metadata,
            AdminDepth::Payloads => Depth::Payloads,
        };
        Some((role, TokenScope { apis: rights.apis.clone(), depth, resubmit: rights.resubmit }))
    }
}
