//! API keys: found in a header or the query, known by their hash.

use super::FailureKind;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use percent_encoding::percent_decode;
use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;
use weir_config::{ApiKeySource, Consumer, ConsumerId, KeyHash};
use weir_wire::{Headers, Known};

/// Longest key that is hashed, in bytes; longer ones are unknown.
const MAX_KEY_BYTES: usize = 1024;

/// The keys of every consumer.
#[derive(Debug)]
pub(super) struct KeyRing {
    by_hash: HashMap<[u8; 32], (KeyHash, KeyOwner), foldhash::fast::RandomState>,
    /// Names of the consumers: their users, with HTTP Basic.
    names: Vec<String>,
}

/// Whose key it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyOwner {
    pub(super) consumer: ConsumerId,
    /// Which of the consumer's keys it is.
    pub(super) key: Rc<str>,
}

impl KeyRing {
    pub(super) fn new(consumers: &[Consumer]) -> Self {
        let mut by_hash = HashMap::default();
        for (index, consumer) in consumers.iter().enumerate() {
            for hash in &consumer.api_keys {
                let owner = KeyOwner { consumer: ConsumerId(index), key: hash.id().into() };
                by_hash.insert(hash.0, (hash.clone(), owner));
            }
        }
        Self { by_hash, names: consumers.iter().map(|consumer| consumer.name.clone()).collect() }
    }

    /// The owner of the key in the request; `None` without a key.
    pub(super) fn find(
        &self,
        source: &ApiKeySource,
        headers: &Headers,
        query: Option<&[u8]>,
    ) -> Result<Option<KeyOwner>, FailureKind> {
        let sent = match source {
            ApiKeySource::Header(name) => only(headers.get_all(name).map(Cow::Borrowed))?,
            ApiKeySource::Query(name) => only(parameters(query.unwrap_or_default(), name))?,
            ApiKeySource::Basic => return self.basic(headers),
        };
        sent.map(|key| self.owner(&key).ok_or(FailureKind::UnknownApiKey)).transpose()
    }

    /// The consumer that `Authorization: Basic` names, if the password is a key of it.
    fn basic(&self, headers: &Headers) -> Result<Option<KeyOwner>, FailureKind> {
        let Some(value) = only(headers.known_all(Known::Authorization))? else { return Ok(None) };
        let (scheme, pair) = value.split_at_checked(6).ok_or(FailureKind::Malformed)?;
        if !scheme.eq_ignore_ascii_case(b"basic ") || pair.len() > 2 * MAX_KEY_BYTES {
            return Err(FailureKind::Malformed);
        }
        let pair = BASE64_STANDARD.decode(pair.trim_ascii()).map_err(|_| FailureKind::Malformed)?;
        let colon = memchr::memchr(b':', &pair).ok_or(FailureKind::Malformed)?;
        let owner = self.owner(&pair[colon + 1..]).ok_or(FailureKind::UnknownApiKey)?;
        match self.names.get(owner.consumer.0) {
            Some(name) if name.as_bytes() == &pair[..colon] => Ok(Some(owner)),
            _ => Err(FailureKind::UnknownApiKey),
        }
    }

    /// Looks the key up by its hash.
    ///
    /// The time of a lookup depends on the hash of the key that was sent. An attacker who wants to learn
    /// a stored hash from it has to find keys whose SHA-256 approaches that hash, and the hash is no
    /// credential, only its preimage is. The final comparison is in constant time, so that the comparison
    /// of the map does not matter.
    fn owner(&self, key: &[u8]) -> Option<KeyOwner> {
        if key.len() > MAX_KEY_BYTES {
            return None;
        }
        let sent = digest::digest(&digest::SHA256, key);
        let (stored, owner) = self.by_hash.get(sent.as_ref())?;
        verify_slices_are_equal(&stored.0, sent.as_ref()).ok()?;
        Some(owner.clone())
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

    fn ring(keys: &[&str]) -> KeyRing {
        let consumers: Vec<_> = keys
            .iter()
            .map(|key| {
                let mut hash = [0; 32];
                hash.copy_from_slice(digest::digest(&digest::SHA256, key.as_bytes()).as_ref());
                let name = (*key).to_owned();
                Consumer { name, plan: None, matches: None, api_keys: vec![KeyHash(hash)] }
            })
            .collect();
        KeyRing::new(&consumers)
    }

    fn in_header(values: &[&str]) -> Result<Option<ConsumerId>, FailureKind> {
        let mut headers = Headers::new();
        for value in values {
            headers.push("X-Api-Key", value.as_bytes());
        }
        let source = ApiKeySource::Header("x-api-key".into());
        consumer(ring(&["one", "two"]).find(&source, &headers, None))
    }

    fn in_query(query: &str) -> Result<Option<ConsumerId>, FailureKind> {
        let source = ApiKeySource::Query("api key".into());
        consumer(ring(&["one", "t+w o"]).find(&source, &Headers::new(), Some(query.as_bytes())))
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
    fn debug_output_shows_no_hash_of_a_consumer() {
        assert!(!format!("{:?}", KeyHash([7; 32])).contains('7'));
    }

    proptest! {
        #[test]
        fn any_query_is_read_without_panic(query in prop::collection::vec(any::<u8>(), 0..60)) {
            let source = ApiKeySource::Query("k".into());
            let _ = ring(&["one"]).find(&source, &Headers::new(), Some(&query));
        }
    }
}
