//! Signed tokens (RFC 7519), one per row, for APIs that require JWT.

use super::{FeederError, MAX_ROWS, Table};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::rand::{self, SystemRandom};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jsonwebtoken::jwk::{Jwk, PublicKeyUse};
use jsonwebtoken::{EncodingKey, Header};
use serde_json::{Map, Value, json};
use std::fmt;

pub use jsonwebtoken::Algorithm;

/// Tokens to create. Without a key a new one is generated; [`Signed::jwks`] has its public part for
/// the server.
#[derive(Clone)]
pub struct Tokens {
    /// Number of tokens.
    pub count: u32,
    /// RS256, ES256 or HS256.
    pub algorithm: Algorithm,
    /// Private key in PEM (PKCS #8), or the shared secret.
    pub key: Option<String>,
    /// `kid` in the head.
    pub key_id: String,
    /// Claims of all tokens. `sub`, `jti`, `iat` and `exp` are added unless present.
    pub claims: Map<String, Value>,
    /// Time of issue, in seconds since 1970.
    pub now: u64,
    /// Lifetime in seconds.
    pub lifetime: u64,
}

/// Tokens and the key set that verifies them.
#[derive(Clone)]
pub struct Signed {
    /// One column, `token`.
    pub table: Table,
    /// The key set (RFC 7517); of a shared secret it contains the secret.
    pub jwks: Value,
}

/// Hides tokens and keys.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens {{ count: {}, algorithm: {:?} }}", self.count, self.algorithm)
    }
}

impl fmt::Debug for Signed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signed {{ tokens: {} }}", self.table.rows.len())
    }
}

impl Tokens {
    /// Creates and signs the tokens.
    ///
    /// # Errors
    /// Too many tokens, or the key does not fit the algorithm.
    pub fn sign(&self) -> Result<Signed, FeederError> {
        if self.count as usize > MAX_ROWS {
            return Err(FeederError::TooMany);
        }
        let key = self.key()?;
        let mut jwk =
            Jwk::from_encoding_key(&key, self.algorithm).map_err(|_| self.invalid_key())?;
        jwk.common.key_id = Some(self.key_id.clone());
        jwk.common.public_key_use = Some(PublicKeyUse::Signature);
        let header = Header { kid: Some(self.key_id.clone()), ..Header::new(self.algorithm) };
        let rows = (0..self.count).map(|number| {
            let token = jsonwebtoken::encode(&header, &self.claims_of(number), &key);
            Ok(vec![token.map_err(|error| FeederError::Key(error.to_string()))?.into()])
        });
        let rows: Result<Vec<Vec<Box<str>>>, FeederError> = rows.collect();
        let table = Table { columns: vec!["token".to_owned()], rows: rows? };
        Ok(Signed { table, jwks: json!({ "keys": [jwk] }) })
    }

    fn claims_of(&self, number: u32) -> Map<String, Value> {
        let mut claims = self.claims.clone();
        let mut set = |name: &str, value: Value| {
            claims.entry(name).or_insert(value);
        };
        set("sub", json!(format!("user-{number:06}")));
        set("jti", json!(format!("{}-{number}", self.now)));
        set("iat", json!(self.now));
        set("exp", json!(self.now.saturating_add(self.lifetime)));
        claims
    }

    fn key(&self) -> Result<EncodingKey, FeederError> {
        let key = match (self.algorithm, &self.key) {
            (Algorithm::HS256, Some(secret)) => Ok(EncodingKey::from_secret(secret.as_bytes())),
            (Algorithm::ES256, Some(pem)) => EncodingKey::from_ec_pem(pem.as_bytes()),
            (_, Some(pem)) => EncodingKey::from_rsa_pem(pem.as_bytes()),
            (_, None) => return self.generated_key().map_err(|_| self.invalid_key()),
        };
        key.map_err(|_| self.invalid_key())
    }

    fn generated_key(&self) -> Result<EncodingKey, Unspecified> {
        Ok(match self.algorithm {
            Algorithm::HS256 => {
                let mut secret = [0; 48];
                rand::fill(&mut secret)?;
                EncodingKey::from_secret(&secret)
            }
            Algorithm::ES256 => {
                let random = SystemRandom::new();
                let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random)?;
                EncodingKey::from_ec_der(key.as_ref())
            }
            _ => {
                let key: Pkcs8V1Der<'_> = RsaKeyPair::generate(KeySize::Rsa2048)?.as_der()?;
                // The library takes PKCS #8 in PEM only.
                let body = STANDARD.encode(key.as_ref());
                let pem =
                    format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
                EncodingKey::from_rsa_pem(pem.as_bytes()).map_err(|_| Unspecified)?
            }
        })
    }

    fn invalid_key(&self) -> FeederError {
        let needed = match self.algorithm {
            Algorithm::HS256 => "a secret",
            Algorithm::ES256 => "a P-256 key in PKCS #8",
            _ => "an RSA key in PKCS #8",
        };
        FeederError::Key(format!("not {needed}"))
    }
}
