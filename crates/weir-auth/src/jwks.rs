//! Key sets (RFC 7517): the keys of a set that verify signatures of certain algorithms.

use jsonwebtoken::DecodingKey;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use serde::Deserialize;
use serde_json::value::RawValue;
use weir_config::{Algorithm, KeyFamily};
use weir_document::finding::codes;

/// Maximum number of keys of a set.
const KEYS: usize = 100;
/// Minimum length of a shared secret (RFC 7518 section 3.2: the length of the hash).
const SECRET: usize = 32;

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

/// Source of a key set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The configuration: every fault is reported.
    File,
    /// A URL: unsupported keys and shared secrets are left out.
    Url,
}

/// Why there are no keys, without quoting the source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct NoKeys {
    /// Code of a finding.
    pub code: &'static str,
    /// The fault.
    pub message: String,
    /// The remedy.
    pub help: Option<&'static str>,
}

#[derive(Deserialize)]
struct Set<'a> {
    #[serde(borrow)]
    keys: Vec<&'a RawValue>,
}

fn fault(message: impl Into<String>) -> NoKeys {
    NoKeys { code: codes::BAD_JWKS, message: message.into(), help: None }
}

/// The keys of a set that verify signatures of the algorithms; at least one.
///
/// # Errors
/// The text is no key set, no key matches, or, in a file, a key is invalid.
pub(crate) fn parse(
    text: &[u8],
    algorithms: &[Algorithm],
    origin: Origin,
) -> Result<Vec<VerificationKey>, NoKeys> {
    let set: Set<'_> = serde_json::from_slice(text).map_err(|error| NoKeys {
        help: Some("RFC 7517: `{\"keys\": […]}`; from a file: `jwks: \"file:jwks.json\"`"),
        ..fault(format!("not a key set: {}", without_value(&error)))
    })?;
    if set.keys.len() > KEYS {
        return Err(fault(format!("the key set exceeds {KEYS} keys")));
    }
    let mut keys: Vec<VerificationKey> = Vec::new();
    for raw in set.keys {
        let jwk: Jwk = match serde_json::from_str(raw.get()) {
            Ok(jwk) => jwk,
            Err(_) if origin == Origin::Url => continue,
            Err(error) => {
                return Err(fault(format!("not a key set: {}", without_value(&error))));
            }
        };
        let kid = jwk.common.key_id.clone();
        if kid.is_some() && keys.iter().any(|k| k.kid == kid) {
            return Err(fault("two keys of the set have the same `kid`"));
        }
        match key(&jwk, algorithms) {
            Ok(Some(key)) if origin == Origin::File || !is_secret(&jwk) => keys.push(key),
            Err(fault) if origin == Origin::File => return Err(fault),
            _ => {}
        }
    }
    if keys.is_empty() {
        return Err(NoKeys {
            help: Some("keys for encryption and of other kinds are ignored"),
            ..fault("no key of the set matches the algorithms")
        });
    }
    Ok(keys)
}

fn is_secret(jwk: &Jwk) -> bool {
    matches!(jwk.algorithm, AlgorithmParameters::OctetKey(_))
}

/// A key; `None` if it is not usable here.
fn key(jwk: &Jwk, algorithms: &[Algorithm]) -> Result<Option<VerificationKey>, NoKeys> {
    if matches!(jwk.common.public_key_use, Some(PublicKeyUse::Encryption)) {
        return Ok(None);
    }
    let declared = jwk.common.key_algorithm.map(|a| a.to_string());
    let fits: Vec<Algorithm> = algorithms
        .iter()
        .copied()
        .filter(|a| fits_key(*a, &jwk.algorithm))
        .filter(|a| declared.as_ref().is_none_or(|d| *d == format!("{a:?}")))
        .collect();
    if fits.is_empty() {
        return Ok(None);
    }
    if let AlgorithmParameters::OctetKey(secret) = &jwk.algorithm
        && secret.value.trim_end_matches('=').len() * 3 / 4 < SECRET
    {
        let message = format!("a shared secret of the set is shorter than {SECRET} bytes");
        return Err(NoKeys { code: codes::WEAK_SECRET, ..fault(message) });
    }
    match DecodingKey::from_jwk(jwk) {
        Ok(key) => {
            Ok(Some(VerificationKey { kid: jwk.common.key_id.clone(), algorithms: fits, key }))
        }
        Err(_) => Err(fault("a key of the set cannot be read")),
    }
}

/// Whether a key of this kind verifies signatures of this algorithm.
fn fits_key(algorithm: Algorithm, key: &AlgorithmParameters) -> bool {
    match (algorithm, key) {
        (Algorithm::ES256, AlgorithmParameters::EllipticCurve(ec)) => {
            ec.curve == EllipticCurve::P256
        }
        (Algorithm::ES384, AlgorithmParameters::EllipticCurve(ec)) => {
            ec.curve == EllipticCurve::P384
        }
        (Algorithm::EdDSA, AlgorithmParameters::OctetKeyPair(ed)) => {
            ed.curve == EllipticCurve::Ed25519
        }
        (algorithm, AlgorithmParameters::RSA(_)) => algorithm.family() == KeyFamily::Rsa,
        (algorithm, AlgorithmParameters::OctetKey(_)) => algorithm.family() == KeyFamily::Hmac,
        _ => false,
    }
}

/// Location and reason, without quoting the source: a key set may contain secrets.
fn without_value(error: &serde_json::Error) -> String {
    let what = if error.is_data() { "a member is missing or of another type" } else { "not JSON" };
    format!("{what}, line {} column {}", error.line(), error.column())
}
