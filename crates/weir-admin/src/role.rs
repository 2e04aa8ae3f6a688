//! Roles of admin tokens.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Role of an admin token; each role includes the permissions of the previous ones.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    ToSchema,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", parse_err_ty = NoRole, parse_err_fn = NoRole::new)]
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
    /// Name, used everywhere.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The text is not the name of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a role is viewer, payload-viewer, operator or admin")]
pub struct NoRole;

impl NoRole {
    fn new(_: &str) -> Self {
        Self
    }
}
