//! Authentication methods: plain data.

use super::AuthId;
use super::credential::Credential;
use crate::algorithm::Algorithm;
use std::time::Duration;
use weir_document::source_map::Span;
use weir_model::UpstreamId;

/// An authentication method.
#[derive(Debug)]
pub struct Auth {
    /// Name, the key under `auth`.
    pub name: String,
    /// Kind and settings.
    pub kind: AuthKind,
}

/// Kind of an authentication method.
#[derive(Debug)]
pub enum AuthKind {
    /// A JSON Web Token in `Authorization: Bearer`.
    Jwt(Box<JwtAuth>),
    /// An API key in a header, a query parameter or a password; consumers have the keys.
    ApiKey(ApiKeySource),
    /// An opaque token in `Authorization: Bearer`, verified by an authorization server.
    Introspect(Box<IntrospectAuth>),
    /// The client certificate, verified by the listener.
    Certificate(CertificateName),
}

impl AuthKind {
    /// Location of credentials of this kind; `None` if requests do not contain them.
    #[must_use]
    pub fn carrier(&self) -> Option<Carrier<'_>> {
        match self {
            Self::Jwt(_) | Self::Introspect(_) | Self::ApiKey(ApiKeySource::Basic) => {
                Some(Carrier::Header("authorization"))
            }
            Self::ApiKey(ApiKeySource::Header(name)) => Some(Carrier::Header(name)),
            Self::ApiKey(ApiKeySource::Query(name)) => Some(Carrier::Query(name)),
            Self::Certificate(_) => None,
        }
    }

    /// Requirements on claims; `None` without tokens: such credentials grant no scopes, and have no
    /// claims except those of a certificate.
    #[must_use]
    pub fn token(&self) -> Option<&TokenRules> {
        match self {
            Self::Jwt(jwt) => Some(&jwt.rules),
            Self::Introspect(introspect) => Some(&introspect.rules),
            Self::ApiKey(_) | Self::Certificate(_) => None,
        }
    }
}

/// Location of a credential in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier<'a> {
    /// The entire value of this header (lower case).
    Header(&'a str),
    /// The value of this query parameter (decoded name).
    Query(&'a str),
}

/// Location of an API key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiKeySource {
    /// This header, lower case.
    Header(String),
    /// This query parameter.
    Query(String),
    /// The password of `Authorization: Basic` (RFC 7617); the user name is the consumer's name.
    Basic,
}

/// Requirements on the claims of a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRules {
    /// Accepted issuers; empty: `iss` is not checked.
    pub issuers: Vec<String>,
    /// Accepted audiences, one of which must be in `aud`; empty: `aud` is not checked.
    pub audiences: Vec<String>,
    /// Clock tolerance for `exp`, `nbf` (at most 60 s; written as `leeway`).
    pub leeway: Duration,
    /// Whether `exp` is required.
    pub require_exp: bool,
    /// Required claims.
    pub required_claims: Vec<String>,
    /// Scopes that `scope` (space separated) or `scp` (array or string) must grant.
    pub scopes: Vec<String>,
}

/// Verification of JSON Web Tokens.
pub struct JwtAuth {
    /// Requirements on claims.
    pub rules: TokenRules,
    /// Accepted algorithms; never empty, never `none`.
    pub algorithms: Vec<Algorithm>,
    /// Source of fetched keys; `None`: the keys are in [`super::Uncompiled::token_keys`].
    pub remote: Option<RemoteKeys>,
}

/// A key set by URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteKeys {
    /// The URL as written.
    pub url: String,
    /// Index of the server in the upstreams; it has no configured name.
    pub upstream: UpstreamId,
    /// Path and query.
    pub target: String,
    /// Interval between fetches of the set.
    pub refresh: Duration,
    /// Timeout of a fetch, and of a request that waits for one.
    pub timeout: Duration,
}

impl std::fmt::Debug for JwtAuth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JwtAuth")
            .field("rules", &self.rules)
            .field("algorithms", &self.algorithms)
            .finish_non_exhaustive()
    }
}

/// Keys that verify tokens, as they are written.
pub struct TokenKeys {
    /// The auth that they belong to.
    pub auth: AuthId,
    /// The keys.
    pub source: KeySource,
    /// Location of the keys.
    pub at: Span,
    /// Accepted algorithms and their locations: all of HMAC, or none. Never empty.
    pub algorithms: Vec<(Algorithm, Span)>,
}

/// Text of keys.
pub enum KeySource {
    /// A shared secret, long enough.
    Secret(String),
    /// A public key in PEM.
    PublicKey(String),
    /// A key set (RFC 7517).
    KeySet(String),
}

impl std::fmt::Debug for TokenKeys {
    /// Without the keys: some are shared secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { auth, algorithms, .. } = self;
        let mut shown = f.debug_struct("TokenKeys");
        shown.field("auth", auth).field("algorithms", algorithms).finish_non_exhaustive()
    }
}

/// OAuth 2.0 token introspection (RFC 7662).
#[derive(Clone, PartialEq, Eq)]
pub struct IntrospectAuth {
    /// The URL as written.
    pub url: String,
    /// Index of the server in the upstreams; it has no configured name.
    pub upstream: UpstreamId,
    /// Path and query.
    pub target: String,
    /// Credential of weir at the authorization server.
    pub credential: Credential,
    /// Requirements on the introspection response, in addition to `active`.
    pub rules: TokenRules,
    /// Maximum time for which a result is cached (1 s to 5 min); of an active token never past its
    /// `exp`.
    pub remember: Duration,
    /// Timeout of an introspection request, and of a request that waits for one.
    pub timeout: Duration,
}

impl std::fmt::Debug for IntrospectAuth {
    /// Does not print the credential.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IntrospectAuth")
            .field("url", &self.url)
            .field("rules", &self.rules)
            .field("remember", &self.remember)
            .finish_non_exhaustive()
    }
}

/// Field of a client certificate that identifies its owner (the principal's subject). The first one
/// of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateName {
    /// The entire subject in the format of RFC 4514 (`CN=billing,O=Acme`).
    Subject,
    /// The common name of the subject.
    CommonName,
    /// A DNS name among the alternative names.
    Dns,
    /// A URI among the alternative names, as in SPIFFE.
    Uri,
    /// An email address among the alternative names.
    Email,
}
