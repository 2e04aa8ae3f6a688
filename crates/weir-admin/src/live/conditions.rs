//! What is wrong now, each with its remedy.

use super::{JournalSnapshot, TargetSnapshot};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;
use weir_store::gaps::Gap;

/// Index lag in seconds from which on searches miss what users look for.
const MAX_INDEX_LAG_SECONDS: f64 = 60.0;
/// Share of the disk budget in percent from which on retention deletes the oldest transactions early.
const DISK_PERCENT: u64 = 95;
/// Ejected targets of an upstream, or keys that expire, that are named.
const MAX_NAMED: usize = 3;
/// Time before the end of a certificate or an API key, in seconds; also the time after the end of a key.
const EXPIRY_SECONDS: i64 = 14 * 24 * 60 * 60;

/// Something that is wrong now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct Condition {
    /// Stable code.
    pub(crate) code: ConditionCode,
    /// Requests or records are lost or at risk now, in contrast to soon.
    pub(crate) is_severe: bool,
    /// The message.
    pub(crate) message: String,
    /// Name of what it is about: an upstream, a certificate, a consumer, a code of the fleet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) subject: String,
}

/// Kinds of conditions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ConditionCode {
    /// Targets of an upstream are not in rotation.
    #[default]
    TargetEjected,
    /// Searches do not find recent transactions.
    IndexLag,
    /// Requests were not recorded, or not completely, in the last 24 hours.
    RecordsMissing,
    /// Calls were not metered in the last 24 hours.
    CallsUncounted,
    /// The disk budget of the journal is used up.
    DiskBudget,
    /// A certificate expires within 14 days, or has expired.
    CertificateExpires,
    /// API keys expire within 14 days, or have expired in the last 14 days. The consumer of the first is in the
    /// subject.
    ApiKeyExpires,
    /// The last change of the configuration was rejected.
    ConfigurationRejected,
    /// A finding of the fleet: its code is in the subject.
    Fleet,
}

/// What conditions are derived from.
pub(super) struct Inputs<'a> {
    pub(super) now_seconds: i64,
    pub(super) targets: &'a [TargetSnapshot],
    pub(super) journal: Option<&'a JournalSnapshot>,
    /// Disk budget of the journal in bytes.
    pub(super) disk_budget: u64,
    /// Gaps of the last 24 hours.
    pub(super) missing: &'a Gap,
    /// Name and end of each certificate of a listener, in seconds since 1970.
    pub(super) certificates: &'a [(String, i64)],
    /// Consumers, names and ends of API keys that are not revoked.
    pub(super) keys: &'a [ExpiringKey],
    /// The last load of the configuration was rejected.
    pub(super) is_rejected: bool,
    /// Codes and messages of the fleet.
    pub(super) fleet: &'a [(String, String)],
}

/// The conditions, severe ones first.
pub(super) fn conditions(inputs: &Inputs<'_>) -> Vec<Condition> {
    let mut found = Vec::new();
    let mut add = |code, is_severe, subject: &str, message: String| {
        found.push(Condition { code, is_severe, message, subject: subject.to_owned() });
    };
    for (upstream, is_last, message) in ejected(inputs.targets) {
        add(ConditionCode::TargetEjected, is_last, upstream, message);
    }
    if let Some(journal) = inputs.journal {
        let JournalSnapshot { index_lag_seconds, index_lag_records, disk_bytes, .. } = journal;
        if *index_lag_seconds > MAX_INDEX_LAG_SECONDS {
            let message = format!(
                "Searches miss the last {index_lag_seconds:.0} s: {index_lag_records} transactions \
                 are not indexed yet."
            );
            add(ConditionCode::IndexLag, false, "", message);
        }
        let budget = inputs.disk_budget;
        if budget > 0 && disk_bytes.saturating_mul(100) / budget >= DISK_PERCENT {
            let message = "The disk budget of the journal is used up: the oldest transactions are \
                           deleted, maybe before the end of their retention (`journal.disk`)."
                .to_owned();
            add(ConditionCode::DiskBudget, false, "", message);
        }
    }
    let Gap { unrecorded, shortened, uncounted } = *inputs.missing;
    if unrecorded + shortened > 0 {
        let message = format!(
            "The journal was full in the last 24 hours: {unrecorded} requests were not recorded, \
             {shortened} without all of their headers and bodies."
        );
        add(ConditionCode::RecordsMissing, true, "", message);
    }
    if uncounted > 0 {
        let message = format!("{uncounted} calls of the last 24 hours were not metered.");
        add(ConditionCode::CallsUncounted, true, "", message);
    }
    for (name, end) in inputs.certificates {
        let left = end - inputs.now_seconds;
        if left < EXPIRY_SECONDS {
            let message = format!("The certificate of {name} {}.", expires(left));
            add(ConditionCode::CertificateExpires, left < 0, name, message);
        }
    }
    if let Some((consumer, message)) = expiring(inputs.keys, inputs.now_seconds) {
        add(ConditionCode::ApiKeyExpires, false, consumer, message);
    }
    if inputs.is_rejected {
        // The reasons are for those who may see the configuration.
        let message = "The last change of the configuration was rejected.".to_owned();
        add(ConditionCode::ConfigurationRejected, false, "", message);
    }
    for (code, message) in inputs.fleet {
        add(ConditionCode::Fleet, code == "node-down", code, message.clone());
    }
    found.sort_by_key(|condition| !condition.is_severe);
    found
}

/// When something expires, by the seconds that are left.
fn expires(left: i64) -> String {
    match left.div_euclid(24 * 60 * 60) {
        ..0 => "has expired".to_owned(),
        0 => "expires within a day".to_owned(),
        1 => "expires in 1 day".to_owned(),
        days => format!("expires in {days} days"),
    }
}

/// An API key with an end.
#[derive(Clone, Debug)]
pub(super) struct ExpiringKey {
    pub(super) consumer: String,
    /// Its name, or the first digits of its hash.
    pub(super) name: String,
    /// In seconds since 1970.
    pub(super) end: i64,
}

/// The API keys whose end is close, the first of them first: its consumer, and a message.
fn expiring(keys: &[ExpiringKey], now: i64) -> Option<(&str, String)> {
    let is_close = |key: &&ExpiringKey| {
        (-EXPIRY_SECONDS..EXPIRY_SECONDS).contains(&(key.end.saturating_sub(now)))
    };
    let mut close: Vec<_> = keys.iter().filter(is_close).collect();
    close.sort_by_key(|key| key.end);
    let name = |key: &ExpiringKey| {
        format!("{} of {} {}", key.name, key.consumer, expires(key.end.saturating_sub(now)))
    };
    let first = *close.first()?;
    let message = match close.len().saturating_sub(MAX_NAMED) {
        0 if close.len() == 1 => format!("The API key {}.", name(first)),
        more => {
            let named: Vec<_> = close.iter().take(MAX_NAMED).map(|key| name(key)).collect();
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            format!("{} API keys expire: {}{more}.", close.len(), named.join(", "))
        }
    };
    Some((&first.consumer, message))
}

/// Upstreams with ejected targets: whether none is left, and a message.
fn ejected(targets: &[TargetSnapshot]) -> Vec<(&str, bool, String)> {
    let mut upstreams: BTreeMap<&str, (bool, Vec<&TargetSnapshot>)> = BTreeMap::new();
    for target in targets {
        let (is_left, ejected) = upstreams.entry(&target.upstream).or_default();
        *is_left |= target.up;
        if !target.up {
            ejected.push(target);
        }
    }
    let found = upstreams.into_iter().filter_map(|(upstream, (is_left, ejected))| {
        let rest = if is_left { "" } else { "; no target of the upstream is left" };
        let message = match ejected.as_slice() {
            [] => return None,
            [TargetSnapshot { target, out, .. }] => {
                let reason = match out.as_str() {
                    "check" => "its health check fails",
                    "errors" => "too many of its responses are errors",
                    _ => "connections or requests to it fail",
                };
                format!("Target {target} of {upstream} is ejected: {reason}{rest}.")
            }
            several => {
                let named: Vec<_> =
                    several.iter().take(MAX_NAMED).map(|one| &*one.target).collect();
                let more = match several.len().saturating_sub(MAX_NAMED) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                let (count, named) = (several.len(), named.join(", "));
                format!("{count} targets of {upstream} are ejected: {named}{more}{rest}.")
            }
        };
        Some((upstream, !is_left, message))
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(name: &str, up: bool) -> TargetSnapshot {
        TargetSnapshot {
            upstream: "orders".to_owned(),
            target: name.to_owned(),
            up,
            out: if up { String::new() } else { "check".to_owned() },
            ..TargetSnapshot::default()
        }
    }

    /// Of a weir without anything to report.
    fn healthy(missing: &Gap) -> Inputs<'_> {
        Inputs {
            now_seconds: 1_000_000_000,
            targets: &[],
            journal: None,
            disk_budget: 100,
            missing,
            certificates: &[],
            keys: &[],
            is_rejected: false,
            fleet: &[],
        }
    }

    fn key(name: &str, end: i64) -> ExpiringKey {
        ExpiringKey { consumer: "acme".to_owned(), name: name.to_owned(), end }
    }

    #[test]
    fn keys_that_expire_are_one_condition_around_their_ends() {
        let (now, day) = (1_000_000_000, 24 * 60 * 60);
        let of = |keys: &[ExpiringKey]| {
            let all = conditions(&Inputs { keys, ..healthy(&Gap::default()) });
            all.iter().map(|one| (one.is_severe, one.message.clone())).collect::<Vec<_>>()
        };
        assert_eq!(of(&[key("ci", now + 14 * day), key("old", now - 14 * day - 1)]), []);
        let one = of(&[key("ci", now + 14 * day - 1)]);
        assert_eq!(one, [(false, "The API key ci of acme expires in 13 days.".to_owned())]);
        let two = of(&[key("b", now + day), key("a", now - 1)]);
        let message = "2 API keys expire: a of acme has expired, b of acme expires in 1 day.";
        assert_eq!(two, [(false, message.to_owned())]);
        let many: Vec<_> = (0..500).map(|n| key(&format!("k{n}"), now + n)).collect();
        let message = &of(&many)[0].1;
        assert!(
            message.starts_with("500 API keys") && message.ends_with("and 497 more."),
            "{message}"
        );
    }

    #[test]
    fn nothing_is_wrong_with_a_weir_that_works() {
        let targets = [target("a:1", true)];
        let journal = JournalSnapshot { index_lag_seconds: 59.0, disk_bytes: 94, ..<_>::default() };
        let day = 24 * 60 * 60;
        let certificates = [("example.com".to_owned(), 1_000_000_000 + 15 * day)];
        let keys = [key("ci", 1_000_000_000 + 15 * day), key("forever", i64::MAX)];
        let all = conditions(&Inputs {
            targets: &targets,
            journal: Some(&journal),
            certificates: &certificates,
            keys: &keys,
            ..healthy(&Gap::default())
        });
        assert_eq!(all, []);
    }

    #[test]
    fn an_upstream_without_targets_is_worse_than_one_with_some() {
        for (other, severe) in [(true, false), (false, true)] {
            let targets = [target("a:1", false), target("b:1", other)];
            let all = conditions(&Inputs { targets: &targets, ..healthy(&Gap::default()) });
            let [Condition { code, is_severe, message, subject }] = &all[..] else {
                panic!("{all:?}")
            };
            let found = (*code, *is_severe, &**subject);
            assert_eq!(found, (ConditionCode::TargetEjected, severe, "orders"));
            let expected =
                if other { "health check" } else { "2 targets of orders are ejected: a:1, b:1;" };
            assert!(message.contains(expected), "{message}");
        }
        let targets: Vec<_> = (0..2000).map(|one| target(&format!("t{one}"), false)).collect();
        let all = conditions(&Inputs { targets: &targets, ..healthy(&Gap::default()) });
        assert!(all.len() == 1 && all[0].message.contains("t0, t1, t2 and 1997 more"), "{all:?}");
    }

    #[test]
    fn each_condition_has_its_message_and_severe_ones_come_first() {
        let journal = JournalSnapshot {
            index_lag_seconds: 61.0,
            index_lag_records: 5,
            disk_bytes: 95,
            ..<_>::default()
        };
        let certificates = [("soon".to_owned(), 1_000_086_500), ("past".to_owned(), 999_999_999)];
        let fleet = [("node-down".to_owned(), "two is down".to_owned())];
        let missing = Gap { unrecorded: 1, uncounted: 2, ..Gap::default() };
        let all = conditions(&Inputs {
            journal: Some(&journal),
            certificates: &certificates,
            is_rejected: true,
            fleet: &fleet,
            ..healthy(&missing)
        });
        use ConditionCode::*;
        let codes: Vec<_> = all.iter().map(|one| (one.code, one.is_severe)).collect();
        let severe = [RecordsMissing, CallsUncounted, CertificateExpires, Fleet];
        let others = [IndexLag, DiskBudget, CertificateExpires, ConfigurationRejected];
        let expected: Vec<_> = severe.map(|code| (code, true)).into_iter().collect();
        assert_eq!(codes[..4], expected[..]);
        assert_eq!(codes[4..], others.map(|code| (code, false)));
        let message =
            |subject: &str| &all.iter().find(|one| one.subject == subject).unwrap().message;
        assert!(message("soon").contains("in 1 day.") && message("past").contains("has expired"));
    }
}
