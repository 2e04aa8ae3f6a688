//! When targets left the rotation and returned, in memory.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use strum::VariantNames;
use utoipa::ToSchema;
use weir_model::UnixMicros;
use weir_server::snapshot::TargetSeries;
use weir_telemetry::labels::EjectionReason;

/// Changes that are kept.
const MAX_CHANGES: usize = 1000;

/// A target left the rotation, or returned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct HealthChange {
    /// When (RFC 3339, UTC), within a second.
    #[schema(value_type = String)]
    pub(crate) time: UnixMicros,
    /// Name of the upstream.
    pub(crate) upstream: String,
    /// The target, as configured.
    pub(crate) target: String,
    /// The target is in rotation again; otherwise it was ejected.
    pub(crate) up: bool,
    /// Reason of the ejection: `check`, `failures` or `errors`; empty if it is in rotation again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
}

/// State of a target at the last look.
#[derive(Debug)]
struct Seen {
    out: Option<&'static str>,
    ejections: [u64; EjectionReason::VARIANTS.len()],
}

/// Changes of all targets since the start, the oldest first.
#[derive(Debug, Default)]
pub(super) struct HealthChanges {
    seen: BTreeMap<(String, String), Seen>,
    changes: VecDeque<HealthChange>,
}

impl HealthChanges {
    /// Compares the targets with those of the last look. Removed targets are forgotten, their changes stay.
    pub(super) fn add(&mut self, now: UnixMicros, targets: &[TargetSeries]) {
        let mut before = std::mem::take(&mut self.seen);
        for TargetSeries { key, health, .. } in targets {
            let name = (key.upstream.clone(), key.name.clone());
            let (was_up, ejections) = match before.remove(&name) {
                Some(seen) => (seen.out.is_none(), seen.ejections),
                // All targets begin in rotation.
                None => (true, [0; EjectionReason::VARIANTS.len()]),
            };
            let grown = health.ejections.iter().zip(ejections).position(|(now, was)| *now > was);
            let reason = health.out.or_else(|| grown.map(|at| EjectionReason::VARIANTS[at]));
            // One that was ejected again since has returned before.
            let steps: &[bool] = match (was_up, health.out.is_none(), grown.is_some()) {
                (true, true, false) | (false, false, _) => &[],
                (true, true, true) => &[false, true],
                (true, false, _) => &[false],
                (false, true, _) => &[true],
            };
            for up in steps {
                self.push(HealthChange {
                    time: now,
                    upstream: key.upstream.clone(),
                    target: key.name.clone(),
                    up: *up,
                    reason: reason.filter(|_| !up).unwrap_or_default().to_owned(),
                });
            }
            self.seen.insert(name, Seen { out: health.out, ejections: health.ejections });
        }
    }

    fn push(&mut self, change: HealthChange) {
        if self.changes.len() >= MAX_CHANGES {
            self.changes.pop_front();
        }
        self.changes.push_back(change);
    }

    /// The changes, the last one first.
    pub(super) fn latest(&self) -> impl Iterator<Item = &HealthChange> {
        self.changes.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(out: Option<&'static str>, failures: u64) -> TargetSeries {
        let mut one = TargetSeries::default();
        (one.key.upstream, one.key.name) = ("shop".to_owned(), "a:1".to_owned());
        (one.health.out, one.health.ejections) = (out, [0, failures, 0]);
        one
    }

    #[test]
    fn changes_are_listed_once_and_short_ejections_too() {
        let mut all = HealthChanges::default();
        let looks = [
            (None, 0),
            (Some("failures"), 1),
            (Some("failures"), 1),
            (None, 1),
            // It was ejected, and returned, between two looks.
            (None, 2),
        ];
        for (at, (out, failures)) in (1..).zip(looks) {
            all.add(UnixMicros(at), &[series(out, failures)]);
        }
        let seen: Vec<_> =
            all.latest().map(|one| (one.time.0, one.up, one.reason.as_str())).collect();
        assert_eq!(
            seen,
            [(5, true, ""), (5, false, "failures"), (4, true, ""), (2, false, "failures")]
        );
    }

    #[test]
    fn the_number_of_changes_is_bounded() {
        let mut all = HealthChanges::default();
        for at in 0..MAX_CHANGES as u64 {
            all.add(UnixMicros(at), &[series(None, at)]);
        }
        assert_eq!(all.latest().count(), MAX_CHANGES);
    }
}
