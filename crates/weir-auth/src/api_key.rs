//! API keys: found in a header or the query, known by their hash.
//!
//! A key that has expired or is revoked stays known, so that its use is told from that of an unknown one. Both
//! are one comparison of a lookup: the end of a revoked key is 0.

use super::{FailureKind, KeyIndex, RevokedKeys};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use percent_encoding::percent_decode;
use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use weir_config::{ApiKey, ApiKeySource, Consumer, ConsumerId};
use weir_wire::{Headers, Known};

/// Longest key that is hashed, in bytes; longer ones are unknown.
const MAX_KEY_BYTES: usize = 1024;

/// End of a key that is revoked.
const REVOKED: u64 = 0;

/// The keys of every consumer.
#[derive(Debug)]
pub(super) struct KeyRing {
    keys: Vec<Key>,
    /// Indexes of the keys.
    by_hash: HashMap<[u8; 32], KeyIndex, foldhash::fast::RandomState>,
    /// Names of the consumers: their users, with HTTP Basic.
    names: Vec<String>,
}

/// A key in the ring of one Config.
#[derive(Debug)]
struct Key {
    configured: ApiKey,
    owner: KeyOwner,
    /// From when on it is rejected, in seconds since 1970; [`REVOKED`] if it is.
    end: Cell<u64>,
}

/// Whose key it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyOwner {
    pub(super) consumer: ConsumerId,
    /// Which of the consumer's keys it is.
    pub(super) key: Rc<str>,
}

impl KeyRing {
    /// All but the revoked keys are valid until they expire.
    pub(super) fn new(consumers: &[Consumer], revoked: &RevokedKeys) -> Self {
        let (mut keys, mut by_hash) = (Vec::new(), HashMap::default());
        for (index, consumer) in consumers.iter().enumerate() {
            for configured in &consumer.api_keys {
                let key = configured.hash.id().into();
                let owner = KeyOwner { consumer: ConsumerId(index), key };
                by_hash.insert(configured.hash.0, KeyIndex(keys.len()));
                keys.push(Key { configured: configured.clone(), owner, end: Cell::default() });
            }
        }
        let names = consumers.iter().map(|consumer| consumer.name.clone()).collect();
        let ring = Self { keys, by_hash, names };
        ring.revoke(revoked);
        ring
    }

    /// Rejects these keys from now on, and no others before they expire.
    pub(super) fn revoke(&self, revoked: &RevokedKeys) {
        for Key { configured, end, .. } in &self.keys {
            let is_revoked = revoked.contains(&configured.hash);
            let expires = configured.expires.unwrap_or(u64::MAX);
            end.set(if is_revoked { REVOKED } else { expires.max(REVOKED + 1) });
        }
    }

    /// The owner of a key that was rejected although it is known.
    pub(super) fn owner_of(&self, KeyIndex(index): KeyIndex) -> Option<&KeyOwner> {
        self.keys.get(index).map(|key| &key.owner)
    }

    /// The owner of the key in the request; `None` without a key.
    pub(super) fn find(
        &self,
        source: &ApiKeySource,
        headers: &Headers,
        query: Option<&[u8]>,
        now: u64,
    ) -> Result<Option<KeyOwner>, FailureKind> {
        let sent = match source {
            ApiKeySource::Header(name) => only(headers.get_all(name).map(Cow::Borrowed))?,
            ApiKeySource::Query(name) => only(parameters(query.unwrap_or_default(), name))?,
            ApiKeySource::Basic => return self.basic(headers, now),
        };
        sent.map(|key| self.owner(&key, None, now)).transpose()
    }

    /// The consumer that `Authorization: Basic` names, if the password is a key of it.
    fn basic(&self, headers: &Headers, now: u64) -> Result<Option<KeyOwner>, FailureKind> {
        let Some(value) = only(headers.known_all(Known::Authorization))? else { return Ok(None) };
        let (scheme, pair) = value.split_at_checked(6).ok_or(FailureKind::Malformed)?;
        if !scheme.eq_ignore_ascii_case(b"basic ") || pair.len() > 2 * MAX_KEY_BYTES {
            return Err(FailureKind::Malformed);
        }
        let pair = BASE64_STANDARD.decode(pair.trim_ascii()).map_err(|_| FailureKind::Malformed)?;
        let colon = memchr::memchr(b':', &pair).ok_or(FailureKind::Malformed)?;
        self.owner(&pair[colon + 1..], Some(&pair[..colon]), now).map(Some)
    }

    /// Looks the key up by its hash; with HTTP Basic, the user must be its consumer.
    ///
    /// The time of a lookup depends on the hash of the key that was sent. An attacker who wants to learn
    /// a stored hash from it has to find keys whose SHA-256 approaches that hash, and the hash is no
    /// credential, only its preimage is. The final comparison is in constant time, so that the comparison
    /// of the map does not matter.
    fn owner(&self, key: &[u8], user: Option<&[u8]>, now: u64) -> Result<KeyOwner, FailureKind> {
        const UNKNOWN: FailureKind = FailureKind::UnknownApiKey;
        if key.len() > MAX_KEY_BYTES {
            return Err(UNKNOWN);
        }
        let sent = digest::digest(&digest::SHA256, key);
        let index = *self.by_hash.get(sent.as_ref()).ok_or(UNKNOWN)?;
        let Key { configured, owner, end } = self.keys.get(index.0).ok_or(UNKNOWN)?;
        verify_slices_are_equal(&configured.hash.0, sent.as_ref()).map_err(|_| UNKNOWN)?;
        let name = || self.names.get(owner.consumer.0).map(String::as_bytes);
        if user.is_some_and(|user| name() != Some(user)) {
            return Err(UNKNOWN);
        }
        match end.get() {
            end if now < end => Ok(owner.clone()),
            REVOKED => Err(FailureKind::ApiKeyRevoked(index)),
            _ => Err(FailureKind::ApiKeyExpired(index)),
        }
    }
}

/// The credential, if there is one.
pub(super) fn only<T>(mut sent: impl Iterator<Item = T>) -> Result<Option<T>, FailureKind> {
    match (sent.next(), sent.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => Err(FailureKind::Repeated),
    }
}

/// Decoded values of a query parameter, compared by its decoded name.
fn parameters<'q>(query: &'q [u8], name: &'q str) -> impl Iterator<Item = Cow<'q, [u8]>> {
    query.split(|&b| b == b'&').filter_map(move |pair| {
        let equals = memchr::memchr(b'=', pair).unwrap_or(pair.len());
        if decode(&pair[..equals]) != name.as_bytes() {
            return None;
        }
        Some(decode(pair.get(equals + 1..).unwrap_or_default()))
    })
}

/// Percent-decoding; `+` is a space, as in forms.
fn decode(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'%', b'+', text).is_none() {
        return Cow::Borrowed(text);
    }
    let spaced: Vec<u8> = text.iter().map(|&b| if b == b'+' { b' ' } else { b }).collect();
    Cow::Owned(percent_decode(&spaced).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_config::KeyHash;

    const NOW: u64 = 1_800_000_000;

    fn ring(keys: &[&str]) -> KeyRing {
        let consumers: Vec<_> = keys
            .iter()
            .map(|key| {
                let mut hash = [0; 32];
                hash.copy_from_slice(digest::digest(&digest::SHA256, key.as_bytes()).as_ref());
                let name = (*key).to_owned();
                let expires = key.starts_with("ends").then_some(NOW);
                let key = ApiKey { hash: KeyHash(hash), name: None, expires };
                Consumer { name, plan: None, matches: None, api_keys: vec![key] }
            })
            .collect();
        KeyRing::new(&consumers, &RevokedKeys::default())
    }

    fn in_header(values: &[&str]) -> Result<Option<ConsumerId>, FailureKind> {
        let mut headers = Headers::new();
        for value in values {
            headers.push("X-Api-Key", value.as_bytes());
        }
        let source = ApiKeySource::Header("x-api-key".into());
        consumer(ring(&["one", "two"]).find(&source, &headers, None, NOW))
    }

    fn in_query(query: &str) -> Result<Option<ConsumerId>, FailureKind> {
        let source = ApiKeySource::Query("api key".into());
        consumer(ring(&["one", "t+w o"]).find(
            &source,
            &Headers::new(),
            Some(query.as_bytes()),
            NOW,
        ))
    }

    fn consumer(
        found: Result<Option<KeyOwner>, FailureKind>,
    ) -> Result<Option<ConsumerId>, FailureKind> {
        found.map(|owner| owner.map(|owner| owner.consumer))
    }

    #[test]
    fn a_key_in_a_header_is_known_or_not() {
        assert_eq!(in_header(&["two"]), Ok(Some(ConsumerId(1))));
        assert_eq!(in_header(&[]), Ok(None));
        for wrong in ["", "Two", "two ", "three"] {
            assert_eq!(in_header(&[wrong]), Err(FailureKind::UnknownApiKey), "{wrong}");
        }
        let long = "x".repeat(MAX_KEY_BYTES + 1);
        assert_eq!(in_header(&[&long]), Err(FailureKind::UnknownApiKey));
        assert_eq!(in_header(&["two", "two"]), Err(FailureKind::Repeated));
    }

    #[test]
    fn a_key_in_the_query_is_decoded() {
        assert_eq!(in_query("a=b&api+key=one&c"), Ok(Some(ConsumerId(0))));
        assert_eq!(in_query("api%20key=t%2Bw%20o"), Ok(Some(ConsumerId(1))));
        assert_eq!(in_query("a=b&key=one"), Ok(None));
        assert_eq!(in_query(""), Ok(None));
        assert_eq!(in_query("api+key"), Err(FailureKind::UnknownApiKey));
        assert_eq!(in_query("api+key=one&api%20key=one"), Err(FailureKind::Repeated));
    }

    #[test]
    fn a_key_is_rejected_from_its_end_on_and_while_it_is_revoked() {
        let ring = ring(&["one", "ends"]);
        let hashes: Vec<KeyHash> = ring.keys.iter().map(|key| key.configured.hash).collect();
        let at = |key: &str, now| {
            let mut headers = Headers::new();
            headers.push("X-Api-Key", key.as_bytes());
            let source = ApiKeySource::Header("x-api-key".into());
            consumer(ring.find(&source, &headers, None, now))
        };
        assert_eq!(at("ends", NOW - 1), Ok(Some(ConsumerId(1))));
        let expired = FailureKind::ApiKeyExpired(KeyIndex(1));
        assert_eq!((at("ends", NOW), at("ends", u64::MAX)), (Err(expired), Err(expired)));
        ring.revoke(&hashes.iter().copied().collect());
        for (index, key) in ["one", "ends"].into_iter().enumerate() {
            let revoked = Err(FailureKind::ApiKeyRevoked(KeyIndex(index)));
            assert_eq!((at(key, 0), at(key, NOW)), (revoked, revoked), "{key}");
        }
        assert_eq!(ring.owner_of(KeyIndex(1)).unwrap().consumer, ConsumerId(1));
        ring.revoke(&RevokedKeys::from_iter([hashes[1]]));
        assert_eq!(at("one", NOW), Ok(Some(ConsumerId(0))), "it is restored");
        ring.revoke(&RevokedKeys::default());
        assert_eq!((at("ends", NOW - 1), at("ends", NOW)), (Ok(Some(ConsumerId(1))), Err(expired)));
    }

    #[test]
    fn a_password_under_another_name_is_unknown_even_if_it_is_revoked() {
        let ring = ring(&["one", "two"]);
        ring.revoke(&ring.keys.iter().map(|key| key.configured.hash).collect());
        let as_user = |user: &str| {
            let mut headers = Headers::new();
            let pair = BASE64_STANDARD.encode(format!("{user}:one"));
            headers.push("Authorization", format!("Basic {pair}").as_bytes());
            ring.find(&ApiKeySource::Basic, &headers, None, NOW).unwrap_err()
        };
        assert_eq!(as_user("one"), FailureKind::ApiKeyRevoked(KeyIndex(0)));
        assert_eq!(as_user("two"), FailureKind::UnknownApiKey);
    }

    #[test]
    fn debug_output_shows_no_hash_of_a_consumer() {
        assert!(!format!("{:?}", KeyHash([7; 32])).contains('7'));
    }

    proptest! {
        #[test]
        fn any_query_is_read_without_panic(query in prop::collection::vec(any::<u8>(), 0..60)) {
            let source = ApiKeySource::Query("k".into());
            let _ = ring(&["one"]).find(&source, &Headers::new(), Some(&query), NOW);
        }
    }
}
