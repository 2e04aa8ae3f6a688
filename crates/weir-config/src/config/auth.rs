//! Authentication methods: plain data.

use super::upstream::Credential;
use jsonwebtoken::DecodingKey;
use std::time::Duration;
use weir_model::UpstreamId;

pub use jsonwebtoken::Algorithm;

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
    /// Keys, from `key` or `jwks`; empty only if they are fetched.
    pub keys: Vec<VerificationKey>,
    /// Source of the keys, if they are fetched.
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
    /// Does not print the keys: some are shared secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JwtAuth")
            .field("rules", &self.rules)
            .field("algorithms", &self.algorithms)
            .finish_non_exhaustive()
    }
}

/// A key that verifies tokens.
pub struct VerificationKey {
    /// The `kid`, if any: tokens with a `kid` are verified with that key only, tokens without one
    /// with every key that matches the algorithm.
    pub kid: Option<String>,
    /// Algorithms of the auth that match this key's type (and `alg`, if the JWK has one), which
    /// prevents algorithm confusion. Never empty.
    pub algorithms: Vec<Algorithm>,
    /// The key.
    pub key: DecodingKey,
}

/// Maximum cost of verifying a token, in the units of [`verification_cost`]: matching keys are
/// tried in order up to this cost.
pub const VERIFICATION_BUDGET: u32 = 128;

/// Approximate cost of verifying a signature, in units of some microseconds.
#[must_use]
pub fn verification_cost(algorithm: Algorithm) -> u32 {
    match algorithm {
        Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 => 1,
        Algorithm::ES384 => 16,
        _ => 8,
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
