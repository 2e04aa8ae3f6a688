//! Signatures of requests between nodes.
//!
//! A node sends a request to another node on behalf of a person, whom it has authenticated. The request
//! has `Authorization: Weir-Node CLAIMS.MAC`. CLAIMS is base64url (RFC 4648 section 5) of JSON: the nodes,
//! the time, a nonce, the hash of the body, and the person. MAC is base64url of HMAC-SHA256 (RFC 2104) by
//! the key of the fleet over a fixed prefix, the method, the target and CLAIMS, each on a line.
//!
//! The time is that of the database, as far as the node knows it. A signature is valid for 60 s, once.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Scheme of the header `Authorization`.
pub const SCHEME: &str = "Weir-Node";
/// Start of the signed text: separates this use of the key from others.
const PREFIX: &str = "weir-node-1";
/// Largest difference between the time of a request and the time of its receiver.
const MAX_SKEW: Duration = Duration::from_secs(60);
/// Most nonces that are remembered. Only nodes with the key fill it.
const MAX_NONCES: usize = 1 << 16;

/// The person on whose behalf a node sends a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Person {
    /// Id of the admin token.
    pub token: String,
    /// Name of its holder.
    pub name: String,
    /// Name of its role.
    pub role: String,
}

/// What a node says about a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claims {
    /// The node that sends it.
    pub(super) from: Uuid,
    /// The node that it is for.
    pub(super) to: Uuid,
    /// Time in milliseconds since 1970.
    pub(super) at_ms: i64,
    /// Drawn for this request.
    pub(super) nonce: Uuid,
    /// SHA-256 of the body, in base64url.
    body: String,
    /// On whose behalf.
    pub(super) person: Person,
}

impl Claims {
    /// The claims of a new request.
    pub(super) fn new(from: Uuid, to: Uuid, at_ms: i64, body: &[u8], person: Person) -> Self {
        Self { from, to, at_ms, nonce: Uuid::new_v4(), body: body_hash(body), person }
    }
}

/// A request whose signature is valid; its body has to be compared.
#[derive(Clone, Debug)]
pub struct Verified {
    /// The node that has sent it.
    pub from: Uuid,
    /// On whose behalf.
    pub person: Person,
    body: String,
}

impl Verified {
    /// Whether this is the signed body.
    #[must_use]
    pub fn is_body(&self, body: &[u8]) -> bool {
        self.body == body_hash(body)
    }
}

/// Why a request of another node is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// This node has no key.
    #[error("this node accepts no requests of other nodes: `fleet.key` is not set")]
    NoKey,
    /// The credential cannot be read.
    #[error("the credential of the node is malformed")]
    Malformed,
    /// It was not signed with the key of this node.
    #[error("the signature of the node is wrong: all nodes need the same `fleet.key`")]
    Wrong,
    /// It is for another node.
    #[error("the request is for another node")]
    OtherNode,
    /// It is too old, or from the future.
    #[error("the time of the request is {}.{:03} s from that of this node", .0 / 1000, .0 % 1000)]
    Time(u64),
    /// It was received before.
    #[error("the request was received before")]
    Replay,
    /// Too many requests in the last minutes.
    #[error("too many requests of other nodes")]
    Full,
}

/// The value of the header `Authorization`.
///
/// # Errors
/// The claims cannot be written as JSON: not in practice.
pub(super) fn sign(
    key: &str,
    method: &str,
    target: &str,
    claims: &Claims,
) -> Result<String, serde_json::Error> {
    let claims = URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims)?);
    let tag = hmac::sign(&hmac_key(key), signed_text(method, target, &claims).as_bytes());
    Ok(format!("{SCHEME} {claims}.{}", URL_SAFE_NO_PAD.encode(tag)))
}

/// The claims of a credential, the part of the header after the scheme, if its signature is right. The
/// comparison takes constant time.
pub(super) fn verify(
    key: &str,
    method: &str,
    target: &str,
    credential: &str,
) -> Result<Claims, SignatureError> {
    let (claims, tag) = credential.split_once('.').ok_or(SignatureError::Malformed)?;
    let tag = URL_SAFE_NO_PAD.decode(tag).map_err(|_| SignatureError::Malformed)?;
    hmac::verify(&hmac_key(key), signed_text(method, target, claims).as_bytes(), &tag)
        .map_err(|_| SignatureError::Wrong)?;
    let claims = URL_SAFE_NO_PAD.decode(claims).map_err(|_| SignatureError::Malformed)?;
    serde_json::from_slice(&claims).map_err(|_| SignatureError::Malformed)
}

impl Claims {
    /// Checks receiver and time. `now_ms` is the time of the receiver.
    pub(super) fn check(self, own: Uuid, now_ms: i64) -> Result<Verified, SignatureError> {
        if self.to != own {
            return Err(SignatureError::OtherNode);
        }
        let skew = self.at_ms.abs_diff(now_ms);
        if u128::from(skew) > MAX_SKEW.as_millis() {
            return Err(SignatureError::Time(skew));
        }
        Ok(Verified { from: self.from, person: self.person, body: self.body })
    }
}

/// Nonces of requests that may still be repeated.
#[derive(Debug, Default)]
pub(super) struct Nonces {
    seen: HashSet<Uuid>,
    /// By time of receipt.
    order: VecDeque<(Instant, Uuid)>,
}

impl Nonces {
    /// Remembers the nonce of a request with a valid signature.
    pub(super) fn add(&mut self, nonce: Uuid, now: Instant) -> Result<(), SignatureError> {
        // A request from the future is valid for twice the skew.
        while let Some((at, old)) = self.order.front().copied()
            && now.saturating_duration_since(at) > 2 * MAX_SKEW
        {
            self.seen.remove(&old);
            self.order.pop_front();
        }
        if self.seen.contains(&nonce) {
            return Err(SignatureError::Replay);
        }
        if self.seen.len() >= MAX_NONCES {
            return Err(SignatureError::Full);
        }
        self.seen.insert(nonce);
        self.order.push_back((now, nonce));
        Ok(())
    }
}

fn hmac_key(key: &str) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes())
}

fn signed_text(method: &str, target: &str, claims: &str) -> String {
    format!("{PREFIX}\n{method}\n{target}\n{claims}")
}

fn body_hash(body: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0123456789abcdef0123456789abcdef";
    const TARGET: &str = "/v1/transactions?q=a";

    fn claims(to: Uuid) -> Claims {
        let text = str::to_owned;
        let person = Person { token: text("id"), name: text("ann"), role: text("viewer") };
        Claims::new(Uuid::new_v4(), to, 1_000_000, b"body", person)
    }

    fn credential(claims: &Claims) -> String {
        let header = sign(KEY, "GET", TARGET, claims).unwrap();
        header.strip_prefix("Weir-Node ").unwrap().to_owned()
    }

    #[test]
    fn only_what_was_signed_is_accepted() {
        let claims = claims(Uuid::new_v4());
        let signed = credential(&claims);
        assert_eq!(verify(KEY, "GET", TARGET, &signed), Ok(claims.clone()));
        let wrong = Err(SignatureError::Wrong);
        assert_eq!(verify(KEY, "POST", TARGET, &signed), wrong);
        assert_eq!(verify(KEY, "GET", "/v1/transactions?q=b", &signed), wrong);
        assert_eq!(verify("another key", "GET", TARGET, &signed), wrong);
        // A higher role with the signature of the lower one.
        let (text, tag) = signed.split_once('.').unwrap();
        let json = String::from_utf8(URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap();
        let raised = URL_SAFE_NO_PAD.encode(json.replace("viewer", "admin"));
        assert_eq!(verify(KEY, "GET", TARGET, &format!("{raised}.{tag}")), wrong);
        for malformed in ["", "a", "a.!", &format!("{text}.")] {
            assert!(verify(KEY, "GET", TARGET, malformed).is_err(), "{malformed}");
        }
    }

    #[test]
    fn a_request_is_for_one_node_and_one_minute_and_has_one_body() {
        let own = Uuid::new_v4();
        let claims = claims(own);
        let check = |own, now| claims.clone().check(own, now).map(|verified| verified.from);
        assert_eq!(check(Uuid::new_v4(), 1_000_000), Err(SignatureError::OtherNode));
        for now in [1_060_001, 939_999] {
            assert_eq!(check(own, now), Err(SignatureError::Time(60_001)));
        }
        assert_eq!(check(own, 1_060_000), Ok(claims.from));
        let verified = claims.clone().check(own, 1_000_000).unwrap();
        assert!(verified.is_body(b"body") && !verified.is_body(b""));
    }

    #[test]
    fn a_nonce_is_accepted_once_and_the_memory_is_bounded() {
        let (mut nonces, start) = (Nonces::default(), Instant::now());
        let nonce = Uuid::new_v4();
        assert_eq!(nonces.add(nonce, start), Ok(()));
        assert_eq!(nonces.add(nonce, start + 2 * MAX_SKEW), Err(SignatureError::Replay));
        for number in 1..MAX_NONCES {
            assert_eq!(nonces.add(Uuid::from_u128(number as u128), start), Ok(()));
        }
        assert_eq!(nonces.add(Uuid::new_v4(), start), Err(SignatureError::Full));
        let later = start + 2 * MAX_SKEW + Duration::from_millis(1);
        assert_eq!(nonces.add(Uuid::new_v4(), later), Ok(()));
        assert_eq!(nonces.order.len(), 1);
    }
}
