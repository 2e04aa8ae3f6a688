//! ID tokens of an identity provider (OpenID Connect Core 1.0 section 3.1.3.7), verified as all other JSON
//! Web Tokens are.

use super::FailureKind;
use super::jwks::{self, Origin, VerificationKey};
use super::jwt;
use serde_json::{Map, Value};
use std::time::Duration;
use weir_config::{Algorithm, JwtAuth, TokenRules};

/// Accepted algorithms: signatures by a key of the provider. A client secret signs nothing here.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];
/// Clock tolerance.
const LEEWAY: Duration = Duration::from_secs(30);

/// The keys of a provider.
pub struct ProviderKeys(Vec<VerificationKey>);

impl std::fmt::Debug for ProviderKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ProviderKeys").field(&self.0.len()).finish()
    }
}

impl ProviderKeys {
    /// The keys of a key set (RFC 7517).
    ///
    /// # Errors
    /// It is no key set, or has no usable key; the text has the reason.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let keys = jwks::parse(text, &ALGORITHMS, Origin::Url);
        keys.map(Self).map_err(|error| error.to_string())
    }

    /// The claims of an ID token of this issuer for this client at `now`, seconds since 1970: signature,
    /// `iss`, `aud`, `azp`, `exp`, `nbf`, and the nonce if the request had one.
    ///
    /// # Errors
    /// What is wrong.
    pub fn verify(
        &self,
        token: &str,
        issuer: &str,
        client_id: &str,
        nonce: Option<&str>,
        now: u64,
    ) -> Result<Map<String, Value>, IdTokenError> {
        let rules = TokenRules {
            issuers: vec![issuer.to_owned()],
            audiences: vec![client_id.to_owned()],
            leeway: LEEWAY,
            require_exp: true,
            required_claims: vec!["sub".to_owned(), "iat".to_owned()],
            scopes: Vec::new(),
        };
        let auth = JwtAuth { rules, algorithms: ALGORITHMS.to_vec(), remote: None };
        let verified = jwt::verify(&auth, &self.0, token.as_bytes(), now)?;
        let Value::Object(claims) = verified.claims else {
            return Err(IdTokenError::Failed(FailureKind::Malformed));
        };
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        if text("azp").is_some_and(|party| party != client_id) {
            return Err(IdTokenError::Failed(FailureKind::Audience));
        }
        // A token for several parties names the one that has asked for it.
        let is_shared =
            claims.get("aud").and_then(Value::as_array).is_some_and(|all| all.len() > 1);
        if is_shared && text("azp").is_none() {
            return Err(IdTokenError::Failed(FailureKind::Audience));
        }
        let is_same = |nonce: &str| {
            let found = text("nonce").unwrap_or_default();
            aws_lc_rs::constant_time::verify_slices_are_equal(nonce.as_bytes(), found.as_bytes())
        };
        if nonce.is_some_and(|nonce| is_same(nonce).is_err()) {
            return Err(IdTokenError::Nonce);
        }
        match text("sub") {
            Some(subject) if (1..=255).contains(&subject.len()) => Ok(claims),
            _ => Err(IdTokenError::Failed(FailureKind::Malformed)),
        }
    }
}

/// Why an ID token is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdTokenError {
    /// As for any other token.
    #[error("the ID token is wrong: {0:?}")]
    Failed(FailureKind),
    /// It is for another sign-in.
    #[error("the ID token is for another sign-in: `nonce` differs")]
    Nonce,
}

impl From<FailureKind> for IdTokenError {
    fn from(kind: FailureKind) -> Self {
        Self::Failed(kind)
    }
}

impl IdTokenError {
    /// Whether new keys of the provider may help.
    #[must_use]
    pub fn is_unknown_key(self) -> bool {
        matches!(self, Self::Failed(FailureKind::UnknownKey | FailureKind::Signature))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
    use jsonwebtoken::{EncodingKey, Header};
    use serde_json::json;

    const NOW: u64 = 1_800_000_000;

    struct Provider {
        key: EncodingKey,
        keys: ProviderKeys,
    }

    impl Provider {
        fn new() -> Self {
            let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
            let point = pair.public_key_raw();
            let (x, y) = (BASE64.encode(&point[1..33]), BASE64.encode(&point[33..65]));
            let set = json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": "1", "x": x, "y": y}]});
            Self {
                key: EncodingKey::from_ec_der(&pair.serialize_der()),
                keys: ProviderKeys::parse(set.to_string().as_bytes()).unwrap(),
            }
        }

        fn token(&self, changes: Value) -> String {
            let mut claims = json!({"iss": "https://idp", "aud": "weir", "sub": "ann",
                "iat": NOW, "exp": NOW + 60, "nonce": "n"});
            for (name, value) in changes.as_object().unwrap() {
                claims[name] = value.clone();
            }
            let mut header = Header::new(jsonwebtoken::Algorithm::ES256);
            header.kid = Some("1".to_owned());
            jsonwebtoken::encode(&header, &claims, &self.key).unwrap()
        }

        fn verify(&self, token: &str) -> Result<(), IdTokenError> {
            self.keys.verify(token, "https://idp", "weir", Some("n"), NOW).map(drop)
        }
    }

    #[test]
    fn only_a_token_of_this_sign_in_is_accepted() {
        let provider = Provider::new();
        assert_eq!(provider.verify(&provider.token(json!({}))), Ok(()));
        let both = json!({"aud": ["weir", "other"], "azp": "weir"});
        assert_eq!(provider.verify(&provider.token(both)), Ok(()));
        for (changes, error) in [
            (json!({"iss": "https://other"}), FailureKind::Issuer.into()),
            (json!({"aud": "other"}), FailureKind::Audience.into()),
            (json!({"aud": ["weir", "other"]}), FailureKind::Audience.into()),
            (json!({"azp": "other"}), FailureKind::Audience.into()),
            (json!({"exp": NOW - 60}), FailureKind::Expired.into()),
            (json!({"exp": null}), FailureKind::Malformed.into()),
            (json!({"sub": null}), FailureKind::MissingClaim.into()),
            (json!({"sub": ""}), FailureKind::Malformed.into()),
            (json!({"nonce": "m"}), IdTokenError::Nonce),
            (json!({"nonce": null}), IdTokenError::Nonce),
        ] {
            assert_eq!(provider.verify(&provider.token(changes.clone())), Err(error), "{changes}");
        }
        let other = Provider::new().token(json!({}));
        assert_eq!(provider.verify(&other), Err(FailureKind::Signature.into()));
        let unsigned = provider.token(json!({}));
        let payload = unsigned.split('.').nth(1).unwrap();
        let none = format!("{}.{payload}.", BASE64.encode(r#"{"alg":"none"}"#));
        assert_eq!(provider.verify(&none), Err(FailureKind::Algorithm.into()));
    }

    #[test]
    fn a_client_secret_is_no_key_of_a_provider() {
        let secret = json!({"keys": [{"kty": "oct", "k": BASE64.encode([7; 32])}]});
        assert!(ProviderKeys::parse(secret.to_string().as_bytes()).is_err());
    }
}
