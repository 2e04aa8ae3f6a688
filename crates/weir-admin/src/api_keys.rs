//! API keys of consumers as operators see them: their ends, and who has revoked them.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use utoipa::ToSchema;
use weir_config::{ApiKey, AuthKind, Config};
use weir_model::{UnixMicros, UnixSeconds};
use weir_store::clock;
use weir_store::revoked_keys::{KeyChange, RevokedKeys};

/// Prefix of the id of a key.
const PREFIX: &str = "sha256:";
/// Fewest digits of an id: as many as records have.
const MIN_DIGITS: usize = 8;

/// An API key of a consumer, without its hash.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ApiKeyInfo {
    /// The first digits of its hash, the principal of its transactions.
    pub id: String,
    /// Its consumer; of a key that the configuration does not have any more, the one that it had.
    pub consumer: String,
    /// Name in the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// When it expires (RFC 3339, UTC); absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub expires: Option<UnixSeconds>,
    /// It has expired.
    #[serde(default)]
    pub expired: bool,
    /// Who has revoked it; absent: it is not revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Revocation>,
    /// The configuration in force has it. A key that it does not have stays revoked, in case that it returns.
    pub configured: bool,
}

/// The revocation of an API key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Revocation {
    /// Name of the token that has revoked it.
    pub who: String,
    /// When (RFC 3339, UTC).
    #[schema(value_type = String)]
    pub at: UnixMicros,
    /// Why.
    pub reason: String,
}

/// A key and its hash, 64 hexadecimal digits.
#[derive(Clone, Debug)]
pub(crate) struct KnownKey {
    pub(crate) hash: String,
    pub(crate) info: ApiKeyInfo,
}

/// Why an id names no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoKey {
    /// It is no id.
    Malformed,
    /// No key has these digits.
    Unknown,
    /// Several keys have these digits.
    Ambiguous,
}

/// Revocations by hash, as of now.
pub(crate) struct Revocations(HashMap<String, KeyChange>);

impl Revocations {
    pub(crate) fn of(keys: &RevokedKeys) -> Self {
        Self(keys.revoked().into_iter().map(|change| (change.hash.clone(), change)).collect())
    }

    /// The key of a consumer.
    pub(crate) fn describe(&self, consumer: &str, key: &ApiKey) -> ApiKeyInfo {
        ApiKeyInfo {
            id: key.hash.id(),
            consumer: consumer.to_owned(),
            name: key.name.clone(),
            expires: key.expires.map(UnixSeconds),
            expired: key.has_expired(clock::now().as_secs()),
            revoked: self.0.get(&key.hash.digits()).map(revocation),
            configured: true,
        }
    }
}

fn revocation(change: &KeyChange) -> Revocation {
    Revocation { who: change.who.clone(), at: change.at, reason: change.reason.clone() }
}

/// All keys of a configuration by consumer, and the revoked ones that it does not have.
pub(crate) fn all(config: &Config, keys: &RevokedKeys) -> Vec<KnownKey> {
    let mut revocations = Revocations::of(keys);
    let mut known = Vec::new();
    for consumer in &config.consumers {
        for key in &consumer.api_keys {
            let info = revocations.describe(&consumer.name, key);
            known.push(KnownKey { hash: key.hash.digits(), info });
        }
    }
    for KnownKey { hash, .. } in &known {
        revocations.0.remove(hash);
    }
    let mut rest: Vec<KeyChange> = revocations.0.into_values().collect();
    rest.sort_by(|a, b| (&a.consumer, &a.hash).cmp(&(&b.consumer, &b.hash)));
    known.extend(rest.into_iter().map(|change| {
        let id = format!("{PREFIX}{}", change.hash.get(..MIN_DIGITS).unwrap_or_default());
        let revoked = Some(revocation(&change));
        let info = ApiKeyInfo { id, consumer: change.consumer, revoked, ..ApiKeyInfo::default() };
        KnownKey { hash: change.hash, info }
    }));
    known
}

/// The key whose hash begins with the digits of an id: `sha256:` and at least 8 of them.
pub(crate) fn find(all: Vec<KnownKey>, id: &str) -> Result<KnownKey, NoKey> {
    let digits = id.strip_prefix(PREFIX).unwrap_or(id).to_ascii_lowercase();
    let is_hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if digits.len() < MIN_DIGITS || !is_hexadecimal {
        return Err(NoKey::Malformed);
    }
    let mut matching = all.into_iter().filter(|key| key.hash.starts_with(&digits));
    let found = matching.next().ok_or(NoKey::Unknown)?;
    // One key of two consumers is the same key.
    if matching.any(|other| other.hash != found.hash) { Err(NoKey::Ambiguous) } else { Ok(found) }
}

/// Names of the auths that accept API keys.
pub(crate) fn auths(config: &Config) -> Vec<String> {
    let of_keys = config.auths.iter().filter(|auth| matches!(auth.kind, AuthKind::ApiKey(_)));
    of_keys.map(|auth| auth.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "aaaaaaaa00000000000000000000000000000000000000000000000000000000";
    const B: &str = "aaaaaaaa11111111111111111111111111111111111111111111111111111111";
    const C: &str = "cccccccc00000000000000000000000000000000000000000000000000000000";
    const GONE: &str = "dddddddd00000000000000000000000000000000000000000000000000000000";

    fn known() -> Vec<KnownKey> {
        let text = format!(
            "auth: {{keys: {{api_key: {{header: x-key}}}}}}\n\
             consumers:\n  acme: {{api_keys: [\"sha256:{A}\", \"sha256:{B}\"]}}\n  \
             beta: {{api_keys: [{{hash: \"sha256:{C}\", name: ci, expires: 2001-01-31}}]}}\n\
             apis: {{orders: {{base: /, auth: keys, routes: [{{get: /, reply: {{text: hi}}}}]}}}}\n"
        );
        let loaded = weir_gateway::configuration::load_text("test", &text).unwrap();
        let keys = RevokedKeys::in_memory().unwrap();
        for hash in [B, GONE] {
            let text = |text: &str| text.to_owned();
            let (consumer, who, reason) = (text("old"), text("ann"), text("leaked"));
            let at = UnixMicros::default();
            let hash = text(hash);
            keys.change(KeyChange { hash, revoked: true, consumer, who, reason, at }).unwrap();
        }
        all(&loaded.config, &keys)
    }

    #[test]
    fn keys_have_their_consumers_ends_and_revocations() {
        let found: Vec<_> = known()
            .into_iter()
            .map(|KnownKey { info, .. }| {
                let revoked = info.revoked.map(|revocation| revocation.reason);
                (info.consumer, info.id, revoked, info.expired, info.configured)
            })
            .collect();
        let text = |text: &str| text.to_owned();
        let leaked = Some(text("leaked"));
        let expected = [
            (text("acme"), text("sha256:aaaaaaaa"), None, false, true),
            (text("acme"), text("sha256:aaaaaaaa"), leaked.clone(), false, true),
            (text("beta"), text("sha256:cccccccc"), None, true, true),
            (text("old"), text("sha256:dddddddd"), leaked, false, false),
        ];
        assert_eq!(found, expected);
        let [.., ci, _] = &known()[..] else { panic!("four keys") };
        assert_eq!(ci.info.name.as_deref(), Some("ci"));
        assert_eq!(ci.info.expires.unwrap().to_string(), "2001-02-01T00:00:00Z");
        let shown: Vec<ApiKeyInfo> = known().into_iter().map(|key| key.info).collect();
        assert!(!serde_json::to_string(&shown).unwrap().contains(&A[..10]), "no hash is shown");
    }

    #[test]
    fn an_id_names_one_key_or_none() {
        let find = |id: &str| find(known(), id).map(|key| key.hash);
        assert_eq!(find("sha256:cccccccc").as_deref(), Ok(C));
        assert_eq!(find("CCCCCCCC00").as_deref(), Ok(C));
        assert_eq!(find("sha256:dddddddd").as_deref(), Ok(GONE));
        assert_eq!(find("sha256:aaaaaaaa"), Err(NoKey::Ambiguous));
        assert_eq!(find("sha256:aaaaaaaa1").as_deref(), Ok(B));
        assert_eq!(find("sha256:bbbbbbbb"), Err(NoKey::Unknown));
        for malformed in
            ["", "sha256:", "sha256:ccccccc", "sha256:ccccccc~", "sha256:sha256:cccccccc"]
        {
            assert_eq!(find(malformed), Err(NoKey::Malformed), "{malformed}");
        }
    }
}
