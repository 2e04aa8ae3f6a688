//! Keys read from files.

use anyhow::{Context, bail};
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, EncodingKey};
use std::path::Path;

/// Reads a file whose path the user gave.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// A shared secret: the content of a file, without the line end that editors and `echo` append.
pub(super) fn secret(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut secret = read(path)?;
    let line = secret.strip_suffix(b"\r\n").or_else(|| secret.strip_suffix(b"\n"));
    secret.truncate(line.map_or(secret.len(), <[u8]>::len));
    if secret.is_empty() {
        bail!("{} is empty", path.display());
    }
    Ok(secret)
}

/// A private key in PEM (PKCS#8, or PKCS#1 for RSA) and its default algorithm.
pub(super) fn private(path: &Path) -> anyhow::Result<(EncodingKey, Algorithm)> {
    let pem = read(path)?;
    if let Ok(key) = EncodingKey::from_rsa_pem(&pem) {
        return Ok((key, Algorithm::RS256));
    }
    if let Ok(key) = EncodingKey::from_ec_pem(&pem) {
        let algorithm = curve_algorithm(&key)
            .with_context(|| format!("{}: unknown curve; use P-256 or P-384", path.display()))?;
        return Ok((key, algorithm));
    }
    if let Ok(key) = EncodingKey::from_ed_pem(&pem) {
        return Ok((key, Algorithm::EdDSA));
    }
    bail!("{} is not a supported private key in PEM (RSA, P-256, P-384, Ed25519)", path.display())
}

fn curve_algorithm(key: &EncodingKey) -> Option<Algorithm> {
    [Algorithm::ES256, Algorithm::ES384].into_iter().find(|&algorithm| {
        let Ok(jwk) = Jwk::from_encoding_key(key, algorithm) else { return false };
        match jwk.algorithm {
            AlgorithmParameters::EllipticCurve(parameters) => matches!(
                (parameters.curve, algorithm),
                (EllipticCurve::P256, Algorithm::ES256) | (EllipticCurve::P384, Algorithm::ES384)
            ),
            _ => false,
        }
    })
}

/// A public key in PEM, of the family that `algorithm` needs: a public key is never used as a shared
/// secret, even if the token names HMAC.
pub(super) fn public(path: &Path, algorithm: Algorithm) -> anyhow::Result<DecodingKey> {
    let pem = read(path)?;
    let key = match algorithm.family() {
        AlgorithmFamily::Rsa => DecodingKey::from_rsa_pem(&pem),
        AlgorithmFamily::Ec => DecodingKey::from_ec_pem(&pem),
        AlgorithmFamily::Ed => DecodingKey::from_ed_pem(&pem),
        AlgorithmFamily::Hmac => {
            bail!("the token's algorithm {algorithm:?} needs a shared secret (--secret-file)")
        }
    };
    key.with_context(|| format!("{} is not a public key for {algorithm:?}", path.display()))
}
