//! Keys of the configuration that verify tokens, compiled.

use crate::jwks::{self, Origin, VerificationKey};
use jsonwebtoken::DecodingKey;
use std::sync::Arc;
use weir_config::{Algorithm, AuthId, KeyFamily, KeySource, TokenKeys};
use weir_document::finding::{Diagnostics, codes};

/// Maximum cost of verifying a token, in the units of [`verification_cost`]: matching keys are
/// tried in order up to this cost.
const VERIFICATION_BUDGET: u32 = 128;

/// Approximate cost of verifying a signature, in units of some microseconds.
fn verification_cost(algorithm: Algorithm) -> u32 {
    match algorithm {
        Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 => 1,
        Algorithm::ES384 => 16,
        _ => 8,
    }
}

/// Maximum number of keys that are tried for a token of this algorithm.
pub(crate) fn max_attempts(algorithm: Algorithm) -> usize {
    (VERIFICATION_BUDGET / verification_cost(algorithm)) as usize
}

/// Keys by auth. A clone shares them.
#[derive(Clone, Default)]
pub struct VerificationKeys(Arc<[Vec<VerificationKey>]>);

impl std::fmt::Debug for VerificationKeys {
    /// Does not print the keys: some are shared secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerificationKeys").finish_non_exhaustive()
    }
}

impl VerificationKeys {
    /// Compiles keys. Keys that cannot be used are findings.
    #[must_use]
    pub fn compile(sources: &[TokenKeys], report: &mut Diagnostics) -> Self {
        let auths = sources.iter().map(|source| source.auth.0 + 1).max().unwrap_or_default();
        let mut keys: Vec<Vec<VerificationKey>> = Vec::new();
        keys.resize_with(auths, Vec::new);
        for source in sources {
            keys[source.auth.0] = compile(source, report).unwrap_or_default();
        }
        Self(keys.into())
    }

    /// The keys of an auth; none if they are fetched.
    #[must_use]
    pub fn of(&self, auth: AuthId) -> &[VerificationKey] {
        self.0.get(auth.0).map_or(&[], Vec::as_slice)
    }
}

fn compile(source: &TokenKeys, report: &mut Diagnostics) -> Option<Vec<VerificationKey>> {
    let algorithms: Vec<Algorithm> = source.algorithms.iter().map(|(a, _)| *a).collect();
    let key = match &source.source {
        KeySource::Secret(text) => DecodingKey::from_secret(text.as_bytes()),
        KeySource::PublicKey(pem) => public_key(source, pem.as_bytes(), report)?,
        KeySource::KeySet(text) => return key_set(source, text, &algorithms, report),
    };
    Some(vec![VerificationKey { kid: None, algorithms, key }])
}

fn public_key(source: &TokenKeys, pem: &[u8], report: &mut Diagnostics) -> Option<DecodingKey> {
    let found = [
        (KeyFamily::Rsa, DecodingKey::from_rsa_pem(pem)),
        (KeyFamily::Ec, DecodingKey::from_ec_pem(pem)),
        (KeyFamily::Ed, DecodingKey::from_ed_pem(pem)),
    ]
    .into_iter()
    .find_map(|(family, key)| Some((family, key.ok()?)));
    let Some((family, key)) = found else {
        report
            .error(codes::BAD_KEY, source.at, "unsupported or malformed public key")
            .help("RSA, EC P-256 or P-384, or Ed25519, in PEM");
        return None;
    };
    if let Some((wrong, at)) = source.algorithms.iter().find(|(a, _)| a.family() != family) {
        report
            .error(codes::BAD_KEY, *at, format!("{wrong:?} does not match the key"))
            .related(source.at, format!("a key of the family {family:?}"));
        return None;
    }
    Some(key)
}

/// The keys of a set that verify signatures of the algorithms.
fn key_set(
    source: &TokenKeys,
    text: &str,
    algorithms: &[Algorithm],
    report: &mut Diagnostics,
) -> Option<Vec<VerificationKey>> {
    match jwks::parse(text.as_bytes(), algorithms, Origin::File) {
        Ok(keys) => {
            warn_of_untried(source, &keys, algorithms, report);
            Some(keys)
        }
        Err(fault) => {
            report
                .error(fault.code, source.at, fault.message)
                .maybe_help(fault.help.map(str::to_owned));
            None
        }
    }
}

/// If many keys match, only some are tried for a token without a `kid`.
fn warn_of_untried(
    source: &TokenKeys,
    keys: &[VerificationKey],
    algorithms: &[Algorithm],
    report: &mut Diagnostics,
) {
    for algorithm in algorithms {
        let tried = max_attempts(*algorithm);
        let fitting = keys.iter().filter(|key| key.algorithms.contains(algorithm)).count();
        if fitting > tried {
            let message = format!(
                "{fitting} keys match {algorithm:?}; tokens without a `kid` are verified only \
                 with the first {tried}"
            );
            report
                .warning(codes::TOO_MANY, source.at, message)
                .help("issue tokens with a `kid`, or remove unused keys");
            return;
        }
    }
}
