//! Roles of admin tokens.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Role of an admin token; each role includes the permissions of the previous ones.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Reads metadata, but neither headers nor bodies nor business keys.
    Viewer,
    /// Reads headers, bodies and business keys, too.
    PayloadViewer,
    /// Acts on transactions.
    Operator,
    /// Creates and revokes tokens.
    Admin,
}

impl Role {
    /// All roles, lowest first.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::PayloadViewer, Self::Operator, Self::Admin];

    /// Name, used everywhere.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::PayloadViewer => "payload-viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

/// The text is not the name of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a role is viewer, payload-viewer, operator or admin")]
pub struct NoRole;

impl std::str::FromStr for Role {
    type Err = NoRole;

    fn from_str(text: &str) -> Result<Self, NoRole> {
        Self::ALL.into_iter().find(|role| role.name() == text).ok_or(NoRole)
    }
}
