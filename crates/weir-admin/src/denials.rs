//! Audit of denied calls of the admin API.
//!
//! A denied caller may repeat the call at will. Therefore the entries of each caller are
//! rate-limited; further denials are counted, and the next entry contains their number.

use crate::budget::Budget;
use crate::tokens::Caller;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use weir_model::UnixMicros;
use weir_store::audit::AuditEvent;
use weir_store::clock::now_us;

/// Denials of a caller that are audited individually in a burst.
const BURST: u32 = 20;
/// Interval after which one more is audited.
const REFILL_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of tracked callers; there are no more tokens at a time.
const MAX_CALLERS: usize = 512;
/// Longest method and path of an entry, in characters.
const MAX_SUBJECT_CHARS: usize = 300;

/// Remaining entries by caller.
#[derive(Default)]
pub(crate) struct Denials(Mutex<HashMap<String, CallerBudget>>);

struct CallerBudget {
    budget: Budget,
    /// Denials since the last entry.
    suppressed: u64,
}

impl Denials {
    /// The audit event of a denied call (method and path, without query), unless it is rate-limited;
    /// `caller` is `None` if the credential is unknown.
    pub(crate) fn event(
        &self,
        caller: Option<&Caller>,
        request: &str,
        reason: &str,
        now: Instant,
    ) -> Option<AuditEvent> {
        let id = caller.map(|caller| caller.id.clone()).unwrap_or_default();
        let suppressed = self.take(&id, now)?;
        let others = match suppressed {
            0 => String::new(),
            n => format!(" ({n} further denials before were not audited)"),
        };
        Some(AuditEvent {
            time: UnixMicros(now_us()),
            token: id,
            name: caller.map_or("unknown", |caller| &caller.name).to_owned(),
            role: caller.map_or("none", |caller| caller.role.name()).to_owned(),
            action: "denied".to_owned(),
            about: "request".to_owned(),
            subject: request.chars().take(MAX_SUBJECT_CHARS).collect(),
            details: format!("{reason}{others}"),
            ..AuditEvent::default()
        })
    }

    /// Consumes one; returns the number of denials that were not audited since the last entry.
    fn take(&self, caller: &str, now: Instant) -> Option<u64> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_CALLERS && !all.contains_key(caller) {
            all.retain(|_, one| now.duration_since(one.budget.since) < REFILL_INTERVAL * BURST);
            if all.len() >= MAX_CALLERS {
                return None;
            }
        }
        let caller = all.entry(caller.to_owned()).or_insert_with(|| CallerBudget {
            budget: Budget::new(BURST, REFILL_INTERVAL, now),
            suppressed: 0,
        });
        if !caller.budget.take(now) {
            caller.suppressed += 1;
            return None;
        }
        Some(std::mem::take(&mut caller.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_have_separate_budgets() {
        let (denials, now) = (Denials::default(), Instant::now());
        let audited = |id: &str, now| denials.take(id, now);
        assert_eq!((0..100).filter(|_| audited("a", now).is_some()).count(), BURST as usize);
        assert_eq!(audited("b", now), Some(0));
        assert_eq!(audited("a", now + REFILL_INTERVAL), Some(80));
        assert_eq!(audited("a", now + REFILL_INTERVAL), None);
    }

    #[test]
    fn callers_are_bounded_and_forgotten() {
        let (denials, now) = (Denials::default(), Instant::now());
        for number in 0..2 * MAX_CALLERS {
            denials.take(&number.to_string(), now);
        }
        assert_eq!(denials.0.lock().unwrap().len(), MAX_CALLERS);
        assert_eq!(denials.take("new", now + REFILL_INTERVAL * BURST), Some(0));
    }

    #[test]
    fn an_event_names_caller_request_and_reason() {
        let event = Denials::default().event(None, &"GET /".repeat(200), "r", Instant::now());
        let event = event.unwrap();
        assert_eq!((event.name.as_str(), event.action.as_str()), ("unknown", "denied"));
        assert_eq!((event.subject.len(), event.details.as_str()), (MAX_SUBJECT_CHARS, "r"));
    }
}
