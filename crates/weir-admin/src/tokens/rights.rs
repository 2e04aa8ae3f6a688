//! What a token or a person may do, as one text for other nodes of the fleet.
//!
//! Without limits the text is the name of the role. With limits, JSON follows after a space: a version
//! of weir that knows no limits does not know such a role either, and rejects the token.

use crate::account::Account;
use crate::role::Role;
use crate::scope::TokenScope;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A role and what limits it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rights {
    pub(crate) role: Role,
    pub(crate) scope: TokenScope,
    /// When they end, in seconds since 1970.
    pub(crate) expires: Option<u64>,
    /// Subject of the account that they belong to.
    pub(crate) person: Option<String>,
    /// What the rights of the account depend on.
    pub(crate) account: Option<Account>,
}

/// The part after the role.
#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Limits {
    #[serde(skip_serializing_if = "TokenScope::is_unlimited")]
    scope: TokenScope,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    person: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    account: Option<Account>,
}

/// The text is of a later version, or wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the role or its limits are not known to this version")]
pub(crate) struct UnknownRights;

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { role, scope, expires, person, account } = self.clone();
        f.write_str(role.name())?;
        let limits = Limits { scope, expires, person, account };
        if limits == Limits::default() {
            return Ok(());
        }
        write!(f, " {}", serde_json::to_string(&limits).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Rights {
    type Err = UnknownRights;

    fn from_str(text: &str) -> Result<Self, UnknownRights> {
        let (role, limits) = match text.split_once(' ') {
            None => (text, Limits::default()),
            Some((role, limits)) => {
                (role, serde_json::from_str(limits).map_err(|_| UnknownRights)?)
            }
        };
        let role = role.parse().map_err(|_| UnknownRights)?;
        let Limits { scope, expires, person, account } = limits;
        Ok(Self { role, scope, expires, person, account })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::Depth;

    #[test]
    fn limits_follow_the_role_and_old_versions_do_not_know_the_text() {
        let plain = Rights {
            role: Role::Operator,
            scope: TokenScope::default(),
            expires: None,
            person: None,
            account: None,
        };
        assert_eq!(plain.to_string(), "operator");
        assert_eq!("operator".parse(), Ok(plain.clone()));
        let scope = TokenScope {
            apis: vec!["orders api".to_owned()],
            depth: Depth::Metadata,
            resubmit: false,
        };
        let limited = Rights { scope, expires: Some(5), ..plain };
        let text = limited.to_string();
        assert_eq!(text.parse(), Ok(limited));
        assert!(text.parse::<Role>().is_err());
        for wrong in ["", "operator ", "operator {\"later\":1}", "root"] {
            assert_eq!(wrong.parse::<Rights>(), Err(UnknownRights), "{wrong}");
        }
    }
}
