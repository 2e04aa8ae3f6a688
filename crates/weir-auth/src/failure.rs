//! Authentication failures, and the response to them.

use weir_config::config::Config;
use weir_config::{Access, ApiKeySource, AuthId, AuthKind};
use weir_http::problem::Problem;

/// An API key among those of a Config.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyIndex(pub(super) usize);

/// The reason of a failure; a later one came closer to success.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// There is no credential.
    Missing,
    /// Another scheme than the required one, or no token at all.
    Malformed,
    /// The credential is sent more than once.
    Repeated,
    /// The client's certificate has no name of the required kind.
    CertificateName,
    /// The client's certificate has expired since the handshake.
    CertificateExpired,
    /// No consumer has this API key.
    UnknownApiKey,
    /// The algorithm is `none` or not among those accepted.
    Algorithm,
    /// The keys cannot be fetched.
    NoKeys,
    /// No key fits the token's `kid` and algorithm.
    UnknownKey,
    /// The signature does not verify.
    Signature,
    /// Another issuer, or none.
    Issuer,
    /// Another audience, or none.
    Audience,
    /// A required claim is missing.
    MissingClaim,
    /// `nbf` lies in the future.
    NotYetValid,
    /// `exp` lies in the past.
    Expired,
    /// The API key has expired.
    ApiKeyExpired(KeyIndex),
    /// The API key is revoked.
    ApiKeyRevoked(KeyIndex),
    /// The authorization server reports the token as not active.
    Inactive,
    /// A required scope is not granted.
    InsufficientScope,
    /// The token was not introspected yet. Late in the order: the result may be anything.
    NotIntrospected,
    /// The credential was not verified: too many from the client's address have failed. Last, as the
    /// result is unknown.
    Throttled,
}

impl FailureKind {
    /// Whether it counts as a failed authentication of the client: a credential was there and is wrong.
    pub fn is_counted(self) -> bool {
        !matches!(
            self,
            Self::Missing
                | Self::InsufficientScope
                | Self::NoKeys
                | Self::NotIntrospected
                | Self::Throttled
        )
    }
}

/// Authentication has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("authentication failed: {kind:?}")]
pub struct AuthFailure {
    kind: FailureKind,
    /// The auth whose credential failed; `None` when there was no credential.
    auth: Option<AuthId>,
}

/// What may let a request in and is not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Keys of this auth: none are known, or none fits the token.
    Keys(AuthId),
    /// The introspection of the token by the authorization server of this auth.
    Introspection(AuthId),
}

impl AuthFailure {
    pub(super) fn no_credential() -> Self {
        Self { kind: FailureKind::Missing, auth: None }
    }

    /// What to fetch before authentication is tried again.
    pub fn missing(self) -> Option<Missing> {
        match self.kind {
            FailureKind::UnknownKey | FailureKind::NoKeys => self.auth.map(Missing::Keys),
            FailureKind::NotIntrospected => self.auth.map(Missing::Introspection),
            _ => None,
        }
    }

    /// The failure of one `auth`.
    pub fn of(kind: FailureKind, auth: AuthId) -> Self {
        Self { kind, auth: Some(auth) }
    }

    /// The reason.
    pub fn kind(self) -> FailureKind {
        self.kind
    }

    /// The auth whose credential failed; `None` when there was no credential.
    pub fn auth(self) -> Option<AuthId> {
        self.auth
    }

    /// The API key that was rejected although a consumer has it.
    pub(super) fn key(self) -> Option<KeyIndex> {
        match self.kind {
            FailureKind::ApiKeyExpired(key) | FailureKind::ApiKeyRevoked(key) => Some(key),
            _ => None,
        }
    }

    /// The problem of the response: 403 for scopes, 503 if it is not the client's fault, else 401.
    pub fn problem(self) -> Problem {
        match self.kind {
            FailureKind::Missing => Problem::MissingCredential,
            FailureKind::Malformed | FailureKind::Repeated => Problem::MalformedCredential,
            FailureKind::CertificateName => Problem::CertificateName,
            FailureKind::CertificateExpired => Problem::CertificateExpired,
            FailureKind::Inactive => Problem::TokenInactive,
            FailureKind::NotIntrospected => Problem::IntrospectionUnavailable,
            FailureKind::Throttled => Problem::AuthenticationThrottled,
            FailureKind::UnknownApiKey => Problem::UnknownApiKey,
            FailureKind::ApiKeyExpired(_) => Problem::ApiKeyExpired,
            FailureKind::ApiKeyRevoked(_) => Problem::ApiKeyRevoked,
            FailureKind::Algorithm => Problem::TokenAlgorithm,
            FailureKind::NoKeys => Problem::KeysUnavailable,
            FailureKind::UnknownKey => Problem::TokenKey,
            FailureKind::Signature => Problem::TokenSignature,
            FailureKind::Issuer => Problem::TokenIssuer,
            FailureKind::Audience => Problem::TokenAudience,
            FailureKind::MissingClaim => Problem::TokenClaim,
            FailureKind::NotYetValid => Problem::TokenNotYetValid,
            FailureKind::Expired => Problem::TokenExpired,
            FailureKind::InsufficientScope => Problem::InsufficientScope,
        }
    }

    /// The value of `WWW-Authenticate` (RFC 9110 section 11.6.1, RFC 6750 section 3): a challenge
    /// for each method when there was no credential, else one for the method that failed. API keys
    /// and certificates have no registered scheme; `ApiKey` names the header or parameter of the key.
    ///
    /// Built from the configuration and fixed words only, never from the request.
    pub fn challenge(self, config: &Config, access: &Access) -> String {
        let mut out = String::new();
        for rule in &access.any_of {
            if self.auth.is_some_and(|failed| failed != rule.auth) {
                continue;
            }
            if !out.is_empty() {
                if self.auth.is_some() {
                    break;
                }
                out.push_str(", ");
            }
            let auth = &config.auths[rule.auth.0];
            match &auth.kind {
                AuthKind::Jwt(_) | AuthKind::Introspect(_) => {
                    parameter(&mut out, "Bearer realm", &auth.name);
                    self.error(&mut out);
                    if self.kind == FailureKind::InsufficientScope {
                        let required = rule.required_scopes(&auth.kind).map(String::as_str);
                        parameter(&mut out, ", scope", &required.collect::<Vec<_>>().join(" "));
                    }
                }
                AuthKind::ApiKey(ApiKeySource::Basic) => {
                    parameter(&mut out, "Basic realm", &auth.name);
                    parameter(&mut out, ", charset", "UTF-8");
                }
                AuthKind::Certificate(_) => {
                    parameter(&mut out, "Certificate realm", &auth.name);
                }
                AuthKind::ApiKey(source) => {
                    parameter(&mut out, "ApiKey realm", &auth.name);
                    match source {
                        ApiKeySource::Basic => {}
                        ApiKeySource::Header(name) => parameter(&mut out, ", header", name),
                        ApiKeySource::Query(name) => parameter(&mut out, ", query", name),
                    }
                }
            }
        }
        out
    }

    /// The error code and description of RFC 6750 section 3.1; none without a credential.
    fn error(self, out: &mut String) {
        let code = match self.kind {
            FailureKind::Missing => return,
            FailureKind::Malformed | FailureKind::Repeated => "invalid_request",
            FailureKind::InsufficientScope => "insufficient_scope",
            _ => "invalid_token",
        };
        parameter(out, ", error", code);
        parameter(out, ", error_description", self.problem().title());
    }
}

/// Appends `name="value"`, whatever the value holds (RFC 9110 section 5.6.4).
fn parameter(out: &mut String, name: &str, value: &str) {
    out.push_str(name);
    out.push_str("=\"");
    for character in value.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            ' '..='~' => out.push(character),
            // Headers are ASCII; names in other scripts are shown by their length only.
            _ => out.push('?'),
        }
    }
    out.push('"');
}
