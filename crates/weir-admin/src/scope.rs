//! Scopes of admin tokens: what a role may do, narrowed to some APIs and to a depth.
//!
//! Each endpoint states its [`Reach`], and [`TokenScope::rejection`] decides about all of them. An
//! endpoint whose reach can be narrowed to APIs narrows it itself.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

/// Maximum number of APIs of a scope.
pub(crate) const MAX_APIS: usize = 64;
/// Longest name of an API in bytes.
const MAX_API_BYTES: usize = 128;

/// How much of a transaction is visible; each depth includes the previous ones.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    ToSchema,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase", parse_err_ty = NoDepth, parse_err_fn = NoDepth::new)]
pub enum Depth {
    /// Usage and live figures, no transactions.
    Counts,
    /// Transactions without headers, bodies and business keys.
    Metadata,
    /// Everything that the role permits.
    #[default]
    Payloads,
}

impl Depth {
    /// Name, used everywhere.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The text is not the name of a depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a depth is counts, metadata or payloads")]
pub struct NoDepth;

impl NoDepth {
    fn new(_: &str) -> Self {
        Self
    }
}

/// Narrows a role; the default narrows nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TokenScope {
    /// Names of the APIs, at least one; absent: all, also requests without an API.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "some_apis")]
    pub apis: Vec<String>,
    /// Depth.
    pub depth: Depth,
    /// Transactions may be sent again, if the role permits it.
    pub resubmit: bool,
}

impl Default for TokenScope {
    fn default() -> Self {
        Self { apis: Vec::new(), depth: Depth::default(), resubmit: true }
    }
}

/// A list that is present names something: an empty one, meant as no API, would be all of them.
fn some_apis<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let apis = Vec::deserialize(from)?;
    if apis.is_empty() {
        return Err(D::Error::custom("`apis` names at least one API; leave it out for all APIs"));
    }
    Ok(apis)
}

/// What an endpoint shows or changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Reach {
    /// The caller itself, or what everybody knows.
    Own,
    /// Figures and settings by API. The endpoint leaves out other APIs.
    Apis,
    /// Figures and settings of the whole server, which have no API.
    Server,
    /// Metadata of transactions. The endpoint adds the APIs to the query.
    Transactions,
    /// Recorded payloads. The endpoint looks at the API.
    Payloads,
    /// The resolution of a transaction. The endpoint looks at the API.
    Resolution,
    /// Sends a transaction again. The endpoint looks at the API.
    Resubmission,
    /// Jobs over queries, on behalf of everybody.
    Jobs,
    /// Records, and what would be done with requests, of all APIs.
    Records,
    /// Requests of any API, with their responses.
    Requests,
    /// Access, and settings of the server.
    Administration,
}

impl Reach {
    /// Name, for the description of the API.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }

    /// The lowest depth that is enough.
    fn depth(self) -> Depth {
        match self {
            Self::Own | Self::Apis | Self::Server => Depth::Counts,
            Self::Transactions | Self::Resolution | Self::Resubmission | Self::Jobs => {
                Depth::Metadata
            }
            Self::Payloads | Self::Records | Self::Requests | Self::Administration => {
                Depth::Payloads
            }
        }
    }

    /// Whether it covers all APIs, and cannot be narrowed to some.
    fn covers_all_apis(self) -> bool {
        matches!(
            self,
            Self::Server | Self::Jobs | Self::Records | Self::Requests | Self::Administration
        )
    }

    /// Whether it sends requests, or lets others send some.
    fn sends(self) -> bool {
        matches!(self, Self::Resubmission | Self::Jobs | Self::Requests | Self::Administration)
    }
}

impl TokenScope {
    /// Whether it names all that there is to name.
    pub(crate) fn is_valid(&self) -> bool {
        let is_name = |api: &String| {
            (1..=MAX_API_BYTES).contains(&api.len()) && !api.chars().any(char::is_control)
        };
        self.apis.len() <= MAX_APIS && self.apis.iter().all(is_name)
    }

    /// Whether it narrows nothing.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// Whether an API is included; the empty name is that of requests without an API.
    #[must_use]
    pub fn includes(&self, api: &str) -> bool {
        self.apis.is_empty() || self.apis.iter().any(|one| one == api)
    }

    /// Why it does not permit this; `None` if it does.
    pub(crate) fn rejection(&self, reach: Reach) -> Option<String> {
        let least = reach.depth();
        if self.depth < least {
            let (own, least) = (self.depth.name(), least.name());
            return Some(format!(
                "The scope of the token has the depth {own}; this requires {least}."
            ));
        }
        if reach.covers_all_apis() && !self.apis.is_empty() {
            return Some(format!(
                "The token is for {}; this covers all APIs and cannot be narrowed.",
                self.apis.join(", ")
            ));
        }
        (reach.sends() && !self.resubmit)
            .then(|| "The scope of the token does not permit to send requests.".to_owned())
    }

    /// In a few words, for people.
    #[must_use]
    pub fn words(&self) -> String {
        let apis = if self.apis.is_empty() { "all APIs".to_owned() } else { self.apis.join(", ") };
        let resubmit = if self.resubmit { "" } else { ", no resubmission" };
        format!("{apis}; {}{resubmit}", self.depth.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_narrows_apis_depth_and_resubmission() {
        let all = TokenScope::default();
        for reach in [Reach::Own, Reach::Server, Reach::Jobs, Reach::Administration] {
            assert_eq!(all.rejection(reach), None, "{reach:?}");
        }
        let orders = TokenScope { apis: vec!["orders".to_owned()], ..TokenScope::default() };
        assert!(orders.includes("orders") && !orders.includes("other") && !orders.includes(""));
        for reach in [Reach::Apis, Reach::Transactions, Reach::Payloads, Reach::Resubmission] {
            assert_eq!(orders.rejection(reach), None, "{reach:?}");
        }
        for reach in [Reach::Server, Reach::Jobs, Reach::Requests, Reach::Administration] {
            assert!(orders.rejection(reach).unwrap().contains("orders"), "{reach:?}");
        }
        let counts = TokenScope { depth: Depth::Counts, ..TokenScope::default() };
        assert_eq!((counts.rejection(Reach::Server), counts.rejection(Reach::Apis)), (None, None));
        assert!(counts.rejection(Reach::Transactions).unwrap().contains("counts"));
        let metadata = TokenScope { depth: Depth::Metadata, ..TokenScope::default() };
        assert_eq!(metadata.rejection(Reach::Transactions), None);
        assert!(metadata.rejection(Reach::Payloads).is_some());
        assert!(metadata.rejection(Reach::Administration).is_some());
        let silent = TokenScope { resubmit: false, ..TokenScope::default() };
        assert_eq!(silent.rejection(Reach::Payloads), None);
        assert!(silent.rejection(Reach::Resubmission).is_some());
    }

    #[test]
    fn an_absent_member_narrows_nothing() {
        assert_eq!(serde_json::from_str::<TokenScope>("{}").unwrap(), TokenScope::default());
        assert!(serde_json::from_str::<TokenScope>(r#"{"api":["a"]}"#).is_err());
        let empty = serde_json::from_str::<TokenScope>(r#"{"apis":[]}"#).unwrap_err();
        assert!(empty.to_string().contains("at least one API"), "{empty}");
        let many = TokenScope { apis: vec!["a".to_owned(); MAX_APIS + 1], ..TokenScope::default() };
        assert!(!many.is_valid());
    }
}
