//! JWT verification: claims, algorithms and keys.

use super::{Fields, Resolver};
use crate::algorithm::{Algorithm, KeyFamily};
use crate::config::{AuthId, JwtAuth, KeySource, RemoteKeys, TokenKeys, TokenRules};
use crate::formats;
use std::time::Duration;
use weir_document::draft::Node;
use weir_document::finding::codes;
use weir_document::settings;
use weir_document::shape::{Group, Kind};
use weir_document::source_map::Span;

settings! {
    /// Verification of JSON Web Tokens (RFC 7519).
    pub(super) struct JwtKeys is "a JWT auth" {
        /// Accepted values of `iss`.
        issuer = by_hand(Kind::OneOrMany(&Kind::Text)).absent("any"),
        /// Accepted values of `aud`; the token must have one of them.
        audience = by_hand(Kind::OneOrMany(&Kind::Text)).absent("any"),
        /// Accepted algorithms: `HS256`, `HS384`, `HS512`, `RS256`, `RS384`, `RS512`, `PS256`,
        /// `PS384`, `PS512`, `ES256`, `ES384`, `EdDSA`.
        algorithms = by_hand(Kind::OneOrMany(&Kind::Format(formats::ALGORITHM))).required(),
        /// Public key in PEM, or for HS algorithms the shared secret of at least 32 bytes:
        /// `file:key.pem`.
        key = by_hand(Kind::Secret),
        /// Key set (RFC 7517): `file:jwks.json`, or its URL (`https`; on this machine also `http`).
        jwks = by_hand(Kind::Secret),
        /// Interval between fetches of a key set from its URL, from 5s to 24h. An unknown `kid`
        /// triggers a fetch at once, at most every 30s.
        refresh: Duration = positive().default("5m"),
        /// Clock tolerance for `exp` and `nbf`; maximum 60s.
        leeway: Duration = duration().default("0s"),
        /// Whether tokens must have `exp`.
        require_exp: bool = boolean().default("true"),
        /// Claims that a token must have.
        required_claims = by_hand(Kind::OneOrMany(&Kind::Text)),
        /// Scopes that `scope` or `scp` must grant.
        scopes = by_hand(Kind::OneOrMany(&Kind::Text)),
    },
    groups: &[Group { keys: &["key", "jwks"], required: true }],
    misspellings: &[
        ("secret", "write `key: \"file:secret\"`"),
        ("jwks_url", "write `jwks: \"https://…\"`"),
        ("jwks_uri", "write `jwks: \"https://…\"`"),
    ],
}

/// Maximum clock tolerance.
const MAX_LEEWAY: Duration = Duration::from_secs(60);
/// Minimum length of a shared secret in bytes (RFC 7518 section 3.2: the length of the hash).
const SECRET: usize = 32;
/// How often a key set is fetched, and the timeout of a fetch.
const REFRESHES: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(5)..=Duration::from_secs(24 * 60 * 60);
const FETCH: Duration = Duration::from_secs(2);

impl Resolver<'_> {
    pub(super) fn jwt(&mut self, auth: AuthId, fields: &Fields<'_>) -> Option<JwtAuth> {
        let keys = JwtKeys::read(fields);
        let rules = self.token_rules(fields, keys.leeway, keys.require_exp);
        let algorithms = self.algorithms(fields)?;
        let mut remote = None;
        let source = match (fields.get("key"), fields.get("jwks")) {
            (Some(node), None) => Some((node.at, self.single_key(node, &algorithms)?)),
            (None, Some(node)) if is_url(node) => {
                remote = Some(self.remote_keys(node, fields, &algorithms)?);
                None
            }
            (None, Some(node)) => Some((node.at, KeySource::KeySet(node.text()?.to_owned()))),
            _ => return None,
        };
        if let (Some(node), None) = (fields.get("refresh"), &remote) {
            let message = "`refresh` needs a key set with a URL";
            self.report.error(codes::CONFLICT, node.at, message);
        }
        let accepted = algorithms.iter().map(|(algorithm, _)| *algorithm).collect();
        if let Some((at, source)) = source {
            self.uncompiled.token_keys.push(TokenKeys { auth, source, at, algorithms });
        }
        Some(JwtAuth { rules, algorithms: accepted, remote })
    }

    /// Requirements on the claims of a token.
    pub(super) fn token_rules(
        &mut self,
        fields: &Fields<'_>,
        leeway: Duration,
        require_exp: bool,
    ) -> TokenRules {
        if leeway > MAX_LEEWAY
            && let Some(node) = fields.get("leeway")
        {
            self.report.error(codes::BAD_VALUE, node.at, "`leeway` must be at most 60s");
        }
        TokenRules {
            issuers: fields.texts("issuer"),
            audiences: fields.texts("audience"),
            leeway,
            require_exp,
            required_claims: fields.texts("required_claims"),
            scopes: fields.texts("scopes"),
        }
    }

    /// Algorithms and their locations; shared secrets and public keys must not be mixed.
    fn algorithms(&mut self, fields: &Fields<'_>) -> Option<Vec<(Algorithm, Span)>> {
        let algorithms: Vec<(Algorithm, Span)> = fields
            .many("algorithms")
            .iter()
            .filter_map(|n| Some((Algorithm::parse(n.text()?).ok()?, n.at)))
            .collect();
        let hmac = |a: Algorithm| a.family() == KeyFamily::Hmac;
        let (first, _) = *algorithms.first()?;
        if let Some((_, at)) = algorithms.iter().find(|(a, _)| hmac(*a) != hmac(first)) {
            self.report
                .error(
                    codes::ALGORITHM_CONFUSION,
                    *at,
                    "shared secrets and public keys cannot be combined in one auth",
                )
                .help("use two auths: one with HS algorithms, one with the others");
            return None;
        }
        Some(algorithms)
    }

    /// `key`: a secret for HS algorithms, a public key in PEM for the others.
    fn single_key(&mut self, node: &Node, algorithms: &[(Algorithm, Span)]) -> Option<KeySource> {
        let text = node.text()?.trim_end_matches(['\r', '\n']);
        let (first, at) = *algorithms.first()?;
        let pem = text.trim_start().starts_with("-----BEGIN");
        if first.family() == KeyFamily::Hmac {
            if pem {
                self.report
                    .error(
                        codes::ALGORITHM_CONFUSION,
                        at,
                        format!("{first:?} needs a shared secret, but the key is in PEM"),
                    )
                    .related(node.at, "the key")
                    .help("anyone with the public key could sign tokens: use RS256 or ES256");
                return None;
            }
            if text.len() < SECRET {
                self.report
                    .error(
                        codes::WEAK_SECRET,
                        node.at,
                        format!(
                            "a shared secret needs at least {SECRET} bytes, not {}",
                            text.len()
                        ),
                    )
                    .help("for example the output of `openssl rand -base64 48`");
                return None;
            }
            return Some(KeySource::Secret(text.to_owned()));
        }
        if !pem {
            self.report
                .error(
                    codes::ALGORITHM_CONFUSION,
                    at,
                    format!("{first:?} needs a public key, but the key is not in PEM"),
                )
                .related(node.at, "the key")
                .help("`-----BEGIN PUBLIC KEY-----` …; from a file: `key: \"file:key.pem\"`");
            return None;
        }
        if text.contains("PRIVATE KEY-----") {
            self.report
                .error(codes::BAD_KEY, node.at, "a private key instead of a public key")
                .help("use the public key; the private key belongs to the issuer");
            return None;
        }
        Some(KeySource::PublicKey(text.to_owned()))
    }

    /// `jwks` as a URL.
    fn remote_keys(
        &mut self,
        node: &Node,
        fields: &Fields<'_>,
        algorithms: &[(Algorithm, Span)],
    ) -> Option<RemoteKeys> {
        let (first, at) = *algorithms.first()?;
        if first.family() == KeyFamily::Hmac {
            let message = format!("{first:?} needs a shared secret, which cannot come from a URL");
            self.report.error(codes::ALGORITHM_CONFUSION, at, message);
            return None;
        }
        let url = node.text()?.trim_end();
        let (upstream, target) = self.url(url, node, "jwks")?;
        let JwtKeys { refresh, .. } = JwtKeys::read(fields);
        if let (Some(node), false) = (fields.get("refresh"), REFRESHES.contains(&refresh)) {
            self.report.error(codes::BAD_VALUE, node.at, "`refresh` must be from 5s to 24h");
        }
        Some(RemoteKeys { url: url.to_owned(), upstream, target, refresh, timeout: FETCH })
    }
}

fn is_url(node: &Node) -> bool {
    node.text().is_some_and(|text| text.starts_with("https://") || text.starts_with("http://"))
}
