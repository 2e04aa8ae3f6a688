//! Security of operations: schemes and requirements.

use super::{Cursor, Description, Operation};
use weir_document::finding::{Diagnostics, codes};
use weir_document::source_map::Span;

/// A required scheme.
#[derive(Clone, Debug)]
pub(crate) struct RequiredScheme<'d> {
    /// Its name under `components.securitySchemes`.
    pub(crate) scheme: &'d str,
    /// Required scopes or roles.
    pub(crate) scopes: Vec<String>,
    /// Location of the requirement.
    pub(crate) span: Span,
}

/// Schemes required together; empty: callers without a credential are admitted.
pub(crate) type Requirement<'d> = Vec<RequiredScheme<'d>>;

/// Kind of credential of a scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme<'d> {
    /// A key in this header.
    Header(&'d str),
    /// A key in this query parameter.
    Query(&'d str),
    /// `Authorization: Bearer`; also for OAuth 2 and OpenID Connect.
    Bearer,
    /// `Authorization: Basic`.
    Basic,
    /// A client certificate.
    Certificate,
}

impl<'d> Description<'d> {
    /// The schemes by name, with their locations.
    pub(crate) fn schemes(&self, report: &mut Diagnostics) -> Vec<(&'d str, Cursor<'d>)> {
        let components = self.top().get("components");
        let Some(schemes) = components.and_then(|c| c.get("securitySchemes")) else {
            return Vec::new();
        };
        let named = schemes.members();
        named.filter_map(|(m, at)| Some((m.key.as_str(), self.follow(&at, report)?))).collect()
    }

    /// Security requirements of an operation: one of them is enough. Empty: no authentication.
    pub(crate) fn security(
        &self,
        operation: Option<&Operation<'d>>,
        report: &mut Diagnostics,
    ) -> Vec<Requirement<'d>> {
        let own = operation.and_then(|operation| operation.at.get("security"));
        let Some(list) = own.or_else(|| self.top().get("security")) else { return Vec::new() };
        if list.node.items().is_none() && !list.node.is_null() {
            report.error(codes::BAD_OPENAPI, list.node.at, "`security` must be a list");
        }
        list.items()
            .map(|requirement| requirement.members().map(required_scheme).collect())
            .collect()
    }
}

fn required_scheme<'d>(
    (member, at): (&'d weir_document::draft::Member, Cursor<'d>),
) -> RequiredScheme<'d> {
    let scopes = at.items().filter_map(|item| item.node.text()).map(str::to_owned);
    RequiredScheme { scheme: &member.key, scopes: scopes.collect(), span: member.at }
}

impl<'d> Scheme<'d> {
    /// The kind of a scheme; `None` with a finding.
    pub(crate) fn of(at: &Cursor<'d>, report: &mut Diagnostics) -> Option<Self> {
        let scheme = at.text("scheme").map(str::to_ascii_lowercase);
        let why = match (at.text("type"), at.text("in"), at.text("name"), scheme.as_deref()) {
            (Some("apiKey"), Some("header"), Some(name), _) => return Some(Self::Header(name)),
            (Some("apiKey"), Some("query"), Some(name), _) => return Some(Self::Query(name)),
            (Some("apiKey"), Some("cookie"), ..) => "API keys in cookies are not supported",
            (Some("http"), _, _, Some("bearer")) => return Some(Self::Bearer),
            (Some("http"), _, _, Some("basic")) => return Some(Self::Basic),
            (Some("oauth2" | "openIdConnect"), ..) => return Some(Self::Bearer),
            (Some("mutualTLS"), ..) => return Some(Self::Certificate),
            _ => "this security scheme is not supported",
        };
        report.error(codes::UNMAPPED_SECURITY, at.node.at, why);
        None
    }
}
