//! Ways to prove who calls: plain data.

use super::UpstreamId;
use super::upstream::Credential;
use jsonwebtoken::DecodingKey;
use std::time::Duration;

pub use jsonwebtoken::Algorithm;

/// A way to prove who calls.
#[derive(Debug)]
pub struct Auth {
    /// Name, the key under `auth`.
    pub name: String,
    /// How.
    pub kind: AuthKind,
}

/// How a caller proves who it is.
#[derive(Debug)]
pub enum AuthKind {
    /// A JSON Web Token in `Authorization: Bearer`.
    Jwt(Box<JwtAuth>),
    /// A key in a header, a query parameter or a password; the keys stand with their consumers.
    ApiKey(ApiKeySource),
    /// A token in `Authorization: Bearer` that an authorization server is asked about.
    Introspect(Box<IntrospectAuth>),
    /// The client's certificate, which the listener verified.
    Certificate(CertificateName),
}

impl AuthKind {
    /// Where credentials of this kind stand; `None` if they are no part of requests.
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

    /// What a token must be like; `None` if this is no token, which grants no scopes and has no
    /// claims but those of a certificate.
    #[must_use]
    pub fn token(&self) -> Option<&TokenRules> {
        match self {
            Self::Jwt(jwt) => Some(&jwt.rules),
            Self::Introspect(introspect) => Some(&introspect.rules),
            Self::ApiKey(_) | Self::Certificate(_) => None,
        }
    }
}

/// Where a credential stands in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier<'a> {
    /// The whole value of this header (lower case).
    Header(&'a str),
    /// The value of this query parameter (decoded name).
    Query(&'a str),
}

/// Where an API key is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiKeySource {
    /// This header, lower case.
    Header(String),
    /// This query parameter.
    Query(String),
    /// The password of `Authorization: Basic` (RFC 7617); the user is the consumer's name.
    Basic,
}

/// What a token must say of itself, or what is said of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenRules {
    /// Accepted issuers; empty: `iss` is not looked at.
    pub issuers: Vec<String>,
    /// Accepted audiences, one of which must be in `aud`; empty: a token is accepted whatever
    /// its `aud`.
    pub audiences: Vec<String>,
    /// Tolerance for `exp`, `nbf` (at most 60 s; written as `leeway`).
    pub leeway: Duration,
    /// `exp` must be there.
    pub require_exp: bool,
    /// Claims that must be present.
    pub required_claims: Vec<String>,
    /// Scopes that must be granted by `scope` (space separated) or `scp` (array or text).
    pub scopes: Vec<String>,
}

/// A JSON Web Token, and what it must be like.
pub struct JwtAuth {
    /// What it must say.
    pub rules: TokenRules,
    /// Accepted algorithms; never empty, never `none`.
    pub algorithms: Vec<Algorithm>,
    /// Keys, from `key` or `jwks`; empty only if they are fetched.
    pub keys: Vec<VerificationKey>,
    /// Where keys are fetched from, if they are.
    pub remote: Option<RemoteKeys>,
}

/// A key set by URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteKeys {
    /// The URL as written.
    pub url: String,
    /// The server, an upstream that no name leads to.
    pub upstream: UpstreamId,
    /// Path and query.
    pub target: String,
    /// How often the set is fetched.
    pub refresh: Duration,
    /// How long a fetch may take, and so a request that waits for one.
    pub timeout: Duration,
}

impl std::fmt::Debug for JwtAuth {
    /// Never the keys: some are shared secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JwtAuth")
            .field("rules", &self.rules)
            .field("algorithms", &self.algorithms)
            .finish_non_exhaustive()
    }
}

/// A key that verifies tokens.
pub struct VerificationKey {
    /// Its `kid`, if it has one: tokens with a `kid` are verified with that key only, tokens
    /// without one with every key that fits the algorithm.
    pub kid: Option<String>,
    /// Algorithms of the auth that this key's type (and `alg`, when the JWK says it) fits: the
    /// guard against algorithm confusion. Never empty.
    pub algorithms: Vec<Algorithm>,
    /// The key.
    pub key: DecodingKey,
}

/// Most that verifying one token may cost, in the units of [`verification_cost`]: of keys that fit a
/// token the first are tried, until it is spent.
pub const VERIFICATION_BUDGET: u32 = 128;

/// What verifying a signature costs, about, in units of some microseconds.
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
    /// The server, an upstream that no name leads to.
    pub upstream: UpstreamId,
    /// Path and query.
    pub target: String,
    /// What weir proves itself with.
    pub credential: Credential,
    /// What must be said of a token beside that it is active.
    pub rules: TokenRules,
    /// Longest that an answer is believed (1 s to 5 min); of an active token never
    /// past its `exp`.
    pub remember: Duration,
    /// How long a question may take, and so a request that waits for its answer.
    pub timeout: Duration,
}

impl std::fmt::Debug for IntrospectAuth {
    /// Never the credential.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IntrospectAuth")
            .field("url", &self.url)
            .field("rules", &self.rules)
            .field("remember", &self.remember)
            .finish_non_exhaustive()
    }
}

/// What of a client certificate is its owner's name, the principal's subject. Of several the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateName {
    /// The whole subject, as RFC 4514 writes it (`CN=billing,O=Acme`).
    Subject,
    /// The common name of the subject.
    CommonName,
    /// A DNS name among the alternative names.
    Dns,
    /// A URI among the alternative names, as SPIFFE has it.
    Uri,
    /// A mail address among the alternative names.
    Email,
}
