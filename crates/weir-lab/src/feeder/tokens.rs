//! Signed tokens (RFC 7519), one per row, for APIs that require JWT.

use super::{FeederError, MAX_ROWS, Table};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use std::fmt;

/// Signature algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA with 2048 bits, the most common algorithm of identity servers.
    #[default]
    Rs256,
    /// The curve P-256.
    Es256,
    /// A shared secret.
    Hs256,
}

/// Tokens to create. Without a key a new one is generated; [`Signed::jwks`] has its public part for
/// the server.
#[derive(Clone)]
pub struct Tokens {
    /// Number of tokens.
    pub count: u32,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Private key in PEM (PKCS #8), or the shared secret.
    pub key: Option<String>,
    /// `kid` in the head.
    pub key_id: String,
    /// Claims of all tokens. `sub`, `jti`, `iat` and `exp` are added unless given.
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
    /// The key set (RFC 7517); of a shared secret it holds the secret.
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

enum Key {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Secret(Vec<u8>),
}

impl Tokens {
    /// Creates the tokens.
    ///
    /// # Errors
    /// Too many tokens, or the key does not match the algorithm.
    pub fn make(&self) -> Result<Signed, FeederError> {
        if self.count as usize > MAX_ROWS {
            return Err(FeederError::TooMany);
        }
        let key = self.key()?;
        let random = SystemRandom::new();
        let algorithm = match self.algorithm {
            Algorithm::Rs256 => "RS256",
            Algorithm::Es256 => "ES256",
            Algorithm::Hs256 => "HS256",
        };
        let head = json!({"alg": algorithm, "typ": "JWT", "kid": self.key_id}).to_string();
        let head = URL_SAFE_NO_PAD.encode(head);
        let rows = (0..self.count).map(|number| {
            let claims = Value::Object(self.claims_of(number)).to_string();
            let message = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims));
            let signature = sign(&key, &random, message.as_bytes())?;
            Ok(vec![format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)).into()])
        });
        let rows: Result<Vec<Vec<Box<str>>>, FeederError> = rows.collect();
        let table = Table { columns: vec!["token".to_owned()], rows: rows? };
        let mut jwk = jwk(&key)?;
        jwk["kid"] = json!(self.key_id);
        jwk["alg"] = json!(algorithm);
        jwk["use"] = json!("sig");
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

    fn key(&self) -> Result<Key, FeederError> {
        // Error texts of the library do not help a user.
        let no_rsa = |_| FeederError::Key("not an RSA key in PKCS #8".to_owned());
        let no_ec = |_| FeederError::Key("not a P-256 key in PKCS #8".to_owned());
        Ok(match (self.algorithm, &self.key) {
            (Algorithm::Hs256, Some(secret)) => Key::Secret(secret.clone().into_bytes()),
            (Algorithm::Hs256, None) => {
                let mut secret = vec![0; 48];
                aws_lc_rs::rand::fill(&mut secret).map_err(unspecified)?;
                Key::Secret(secret)
            }
            (Algorithm::Rs256, Some(pem)) => {
                Key::Rsa(RsaKeyPair::from_pkcs8(&der(pem)?).map_err(no_rsa)?)
            }
            (Algorithm::Rs256, None) => {
                Key::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).map_err(unspecified)?)
            }
            (Algorithm::Es256, Some(pem)) => {
                let curve = &ECDSA_P256_SHA256_FIXED_SIGNING;
                Key::Ec(EcdsaKeyPair::from_pkcs8(curve, &der(pem)?).map_err(no_ec)?)
            }
            (Algorithm::Es256, None) => {
                let curve = &ECDSA_P256_SHA256_FIXED_SIGNING;
                Key::Ec(EcdsaKeyPair::generate(curve).map_err(unspecified)?)
            }
        })
    }
}

fn unspecified(_: aws_lc_rs::error::Unspecified) -> FeederError {
    FeederError::Key("rejected by the cryptographic library".to_owned())
}

fn sign(key: &Key, random: &SystemRandom, message: &[u8]) -> Result<Vec<u8>, FeederError> {
    Ok(match key {
        Key::Rsa(pair) => {
            let mut signature = vec![0; pair.public_modulus_len()];
            pair.sign(&RSA_PKCS1_SHA256, random, message, &mut signature).map_err(unspecified)?;
            signature
        }
        Key::Ec(pair) => pair.sign(random, message).map_err(unspecified)?.as_ref().to_vec(),
        Key::Secret(secret) => {
            hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message).as_ref().to_vec()
        }
    })
}

/// The key as JWK (RFC 7517, 7518).
fn jwk(key: &Key) -> Result<Value, FeederError> {
    let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
    Ok(match key {
        Key::Rsa(pair) => {
            let (modulus, exponent) = rsa_parts(pair.public_key().as_ref())
                .ok_or_else(|| FeederError::Key("invalid public key".to_owned()))?;
            json!({"kty": "RSA", "n": encode(modulus), "e": encode(exponent)})
        }
        Key::Ec(pair) => {
            // An uncompressed point: 4, x, y (SEC 1, section 2.3.3).
            let point = pair.public_key().as_ref();
            let (x, y) = point
                .get(1..65)
                .map(|xy| xy.split_at(32))
                .ok_or_else(|| FeederError::Key("invalid public key".to_owned()))?;
            json!({"kty": "EC", "crv": "P-256", "x": encode(x), "y": encode(y)})
        }
        Key::Secret(secret) => json!({"kty": "oct", "k": encode(secret)}),
    })
}

/// Modulus and exponent of `RSAPublicKey ::= SEQUENCE { INTEGER, INTEGER }` (RFC 8017, A.1.1).
fn rsa_parts(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (sequence, _) = element(der, 0x30)?;
    let (modulus, rest) = element(sequence, 0x02)?;
    let (exponent, _) = element(rest, 0x02)?;
    // DER adds a leading zero to keep a number positive; JWK omits it.
    let plain = |number| <[u8]>::strip_prefix(number, &[0]).unwrap_or(number);
    Some((plain(modulus), plain(exponent)))
}

/// The content of the first element, which has this tag, and the remaining bytes.
fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.split_first()?;
    let (length, rest) = rest.split_first()?;
    let (length, rest) = match length {
        length @ 0..=0x7f => (usize::from(*length), rest),
        0x81 => (usize::from(*rest.first()?), &rest[1..]),
        0x82 => (usize::from(u16::from_be_bytes([*rest.first()?, *rest.get(1)?])), &rest[2..]),
        _ => return None,
    };
    if *first != tag { None } else { rest.split_at_checked(length) }
}

/// The bytes of a PEM block.
fn der(pem: &str) -> Result<Vec<u8>, FeederError> {
    let body: String = pem.lines().filter(|line| !line.contains("-----")).map(str::trim).collect();
    base64::engine::general_purpose::STANDARD
        .decode(body)
        .map_err(|_| FeederError::Key("not PEM".to_owned()))
}
