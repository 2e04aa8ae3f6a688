//! JSON Web Tokens in `Authorization: Bearer` (RFC 6750, 7515, 7519), following RFC 8725.

use super::FailureKind;
use super::api_key::only;
use super::jwks::VerificationKey;
use super::token_keys::max_attempts;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::borrow::Cow;
use weir_config::{Algorithm, JwtAuth, TokenRules};
use weir_wire::{Headers, Known};

/// Longest token that is parsed, in bytes.
const MAX_TOKEN_BYTES: usize = 16 * 1024;

/// A verified token.
pub(super) struct Verified {
    /// Its claims, an object.
    pub(super) claims: Value,
    /// `sub`, if it is text.
    pub(super) subject: Option<String>,
    /// The scopes of `scope` and `scp`.
    pub(super) scopes: Vec<String>,
    /// The first second since 1970 at which it is no longer valid, leeway included.
    pub(super) expires: Option<u64>,
}

/// The part of the JOSE header that verification needs. `jwk`, `jku` and `x5u` are never followed: keys
/// come from the configuration only.
#[derive(Deserialize)]
struct Header<'a> {
    #[serde(borrow)]
    alg: Cow<'a, str>,
    #[serde(borrow, default)]
    kid: Option<Cow<'a, str>>,
    /// Extensions that must be understood. weir understands none.
    #[serde(default)]
    crit: Option<Value>,
}

/// The bearer token of a request; `None` without an Authorization header.
pub fn bearer(headers: &Headers) -> Result<Option<&[u8]>, FailureKind> {
    let Some(value) = only(headers.known_all(Known::Authorization))? else { return Ok(None) };
    let (scheme, token) = value.split_at_checked(7).ok_or(FailureKind::Malformed)?;
    if !scheme.eq_ignore_ascii_case(b"bearer ") {
        return Err(FailureKind::Malformed);
    }
    let token = token.trim_ascii();
    if token.is_empty() || token.len() > MAX_TOKEN_BYTES {
        return Err(FailureKind::Malformed);
    }
    Ok(Some(token))
}

/// Verifies a token against an auth and its keys at `now`, seconds since 1970. Scopes are not checked
/// here: routes require scopes, too.
pub(super) fn verify(
    auth: &JwtAuth,
    keys: &[VerificationKey],
    token: &[u8],
    now: u64,
) -> Result<Verified, FailureKind> {
    let token = std::str::from_utf8(token).map_err(|_| FailureKind::Malformed)?;
    let (message, signature) = token.rsplit_once('.').ok_or(FailureKind::Malformed)?;
    let (header, payload) = message.split_once('.').ok_or(FailureKind::Malformed)?;
    if payload.contains('.') {
        return Err(FailureKind::Malformed);
    }
    check_signature(auth, keys, &decode(header)?, message.as_bytes(), signature)?;
    // Nothing of the payload is read before its signature holds.
    let claims: Map<String, Value> =
        serde_json::from_slice(&decode(payload)?).map_err(|_| FailureKind::Malformed)?;
    accept(&auth.rules, claims, now)
}

/// Checks the claims of a token or of an introspection against the rules.
pub(super) fn accept(
    rules: &TokenRules,
    claims: Map<String, Value>,
    now: u64,
) -> Result<Verified, FailureKind> {
    check_claims(rules, &claims)?;
    let expires = check_times(rules, &claims, now)?;
    let subject = claims.get("sub").and_then(Value::as_str).map(str::to_owned);
    let scopes = scopes(&claims);
    Ok(Verified { claims: Value::Object(claims), subject, scopes, expires })
}

fn decode(part: &str) -> Result<Vec<u8>, FailureKind> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| FailureKind::Malformed)
}

fn check_signature(
    auth: &JwtAuth,
    keys: &[VerificationKey],
    header: &[u8],
    message: &[u8],
    signature: &str,
) -> Result<(), FailureKind> {
    let header: Header<'_> = serde_json::from_slice(header).map_err(|_| FailureKind::Malformed)?;
    if header.crit.is_some() {
        return Err(FailureKind::Malformed);
    }
    // `none` is no algorithm this type knows, in whatever case it is written.
    let algorithm: Algorithm = header.alg.parse().map_err(|_| FailureKind::Algorithm)?;
    if !auth.algorithms.contains(&algorithm) {
        return Err(FailureKind::Algorithm);
    }
    decode(signature)?;
    // A token without a `kid` may fit any number of keys, and is forged at no cost.
    let mut fitting = candidates(keys, header.kid.as_deref(), algorithm).peekable();
    if fitting.peek().is_none() {
        return Err(FailureKind::UnknownKey);
    }
    // Both types have the names of RFC 7518.
    let name = <&str>::from(algorithm).parse().map_err(|_| FailureKind::Algorithm)?;
    let holds = fitting.take(max_attempts(algorithm)).any(|key| {
        jsonwebtoken::crypto::verify(signature, message, &key.key, name).unwrap_or(false)
    });
    if holds { Ok(()) } else { Err(FailureKind::Signature) }
}

/// The keys to try: those with the token's `kid`; if there are none, or it has no `kid`, those
/// without one or all of them, respectively. A key takes part only if its own kind fits the
/// algorithm: a public key never serves as a shared secret.
fn candidates<'a>(
    keys: &'a [VerificationKey],
    kid: Option<&'a str>,
    algorithm: Algorithm,
) -> impl Iterator<Item = &'a VerificationKey> {
    let named = kid.is_some() && keys.iter().any(|key| key.kid.as_deref() == kid);
    keys.iter().filter(move |key| {
        let by_name = match kid {
            None => true,
            Some(_) if named => key.kid.as_deref() == kid,
            // A key given as a plain file has no name; identity providers name theirs always.
            Some(_) => key.kid.is_none(),
        };
        by_name && key.algorithms.contains(&algorithm)
    })
}

fn check_claims(auth: &TokenRules, claims: &Map<String, Value>) -> Result<(), FailureKind> {
    if !auth.issuers.is_empty() {
        let issuer = claims.get("iss").and_then(Value::as_str);
        if !issuer.is_some_and(|issuer| auth.issuers.iter().any(|accepted| accepted == issuer)) {
            return Err(FailureKind::Issuer);
        }
    }
    if !auth.audiences.is_empty()
        && !texts(claims.get("aud")).any(|a| is_one_of(a, &auth.audiences))
    {
        return Err(FailureKind::Audience);
    }
    let present = |name: &String| claims.get(name).is_some_and(|value| !value.is_null());
    if !auth.required_claims.iter().all(present) {
        return Err(FailureKind::MissingClaim);
    }
    Ok(())
}

fn is_one_of(text: &str, accepted: &[String]) -> bool {
    accepted.iter().any(|one| one == text)
}

/// A text, or the texts of an array.
fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let items = match value {
        Some(Value::Array(items)) => items.as_slice(),
        Some(value) => std::slice::from_ref(value),
        None => &[],
    };
    items.iter().filter_map(Value::as_str)
}

/// Checks `exp` and `nbf`; gives the second from which the token is no longer valid.
///
/// Both are NumericDates, which may have a fraction (RFC 7519 section 2). Anything else in their
/// place makes the token malformed, rather than one without a limit.
fn check_times(
    auth: &TokenRules,
    claims: &Map<String, Value>,
    now: u64,
) -> Result<Option<u64>, FailureKind> {
    let date = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or(FailureKind::Malformed),
    };
    let leeway = auth.leeway.as_secs_f64();
    let expires = match date("exp")? {
        // Rounded up: at a whole second before it, the token still holds. Casting saturates.
        Some(exp) => Some((exp + leeway).ceil() as u64),
        None if auth.require_exp => return Err(FailureKind::MissingClaim),
        None => None,
    };
    if expires.is_some_and(|expires| now >= expires) {
        return Err(FailureKind::Expired);
    }
    if date("nbf")?.is_some_and(|nbf| (now as f64) + leeway < nbf) {
        return Err(FailureKind::NotYetValid);
    }
    Ok(expires)
}

/// `scope` is text with spaces (RFC 8693 section 4.2); `scp`, as some providers have it, an array or
/// text. Both count, in either form.
fn scopes(claims: &Map<String, Value>) -> Vec<String> {
    ["scope", "scp"]
        .iter()
        .flat_map(|name| texts(claims.get(*name)))
        .flat_map(str::split_ascii_whitespace)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests;
