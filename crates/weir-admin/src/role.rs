//! What an admin token allows.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What an admin token allows; each role allows what those before it do, too.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Sees what happened, but neither headers nor bodies nor business keys.
    Viewer,
    /// Sees those, too.
    PayloadViewer,
    /// Acts on transactions.
    Operator,
    /// Makes and revokes tokens.
    Admin,
}

impl Role {
    /// Every role, the least first.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::PayloadViewer, Self::Operator, Self::Admin];

    /// Its name, as it is written everywhere.
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
