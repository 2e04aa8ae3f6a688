//! Audit of denied calls of the admin API.
//!
//! A denied caller may repeat the call at will. Therefore the entries of each caller are
//! rate-limited; further denials are counted, and the next entry contains their number.

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
const REFILL: Duration = Duration::from_secs(10);
/// Maximum number of tracked callers; there are no more tokens at a time.
const MAX_CALLERS: usize = 512;
/// Longest method and path of an entry, in characters.
const MAX_SUBJECT_CHARS: usize = 300;

/// Remaining entries.
#[derive(Default)]
pub(crate) struct Denials(Mutex<HashMap<String, Budget>>);

struct Budget {
    left: u32,
    since: Instant,
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
            number: 0,
            time: UnixMicros(now_us()),
            token: id,
            name: caller.map_or("unknown", |caller| &caller.name).to_owned(),
            role: caller.map_or("none", |caller| caller.role.name()).to_owned(),
            action: "denied".to_owned(),
            about: "request".to_owned(),
            subject: request.chars().take(MAX_SUBJECT_CHARS).collect(),
            details: format!("{reason}{others}"),
        })
    }

    /// Consumes one; returns the number of denials that were not audited since the last entry.
    fn take(&self, caller: &str, now: Instant) -> Option<u64> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_CALLERS && !all.contains_key(caller) {
            all.retain(|_, budget| now.duration_since(budget.since) < REFILL * BURST);
            if all.len() >= MAX_CALLERS {
                return None;
            }
        }
        let fresh = Budget { left: BURST, since: now, suppressed: 0 };
        let budget = all.entry(caller.to_owned()).or_insert(fresh);
        let refilled = now.duration_since(budget.since).as_secs() / REFILL.as_secs();
        if refilled > 0 {
            let refilled = u32::try_from(refilled).unwrap_or(BURST);
            budget.left = budget.left.saturating_add(refilled).min(BURST);
            budget.since = now;
        }
        if budget.left == 0 {
            budget.suppressed += 1;
            return None;
        }
        budget.left -= 1;
        Some(std::mem::take(&mut budget.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_fills_no_audit_and_hides_no_other() {
        let (denials, now) = (Denials::default(), Instant::now());
        let noted = |id: &str, now| denials.take(id, now);
        assert_eq!((0..100).filter(|_| noted("a", now).is_some()).count(), BURST as usize);
        assert_eq!(noted("b", now), Some(0));
        assert_eq!(noted("a", now + REFILL), Some(80));
        assert_eq!(noted("a", now + REFILL), None);
    }

    #[test]
    fn callers_are_bounded_and_forgotten() {
        let (denials, now) = (Denials::default(), Instant::now());
        for number in 0..2 * MAX_CALLERS {
            denials.take(&number.to_string(), now);
        }
        assert_eq!(denials.0.lock().unwrap().len(), MAX_CALLERS);
        assert_eq!(denials.take("new", now + REFILL * BURST), Some(0));
    }

    #[test]
    fn a_line_says_who_was_denied_what() {
        let event = Denials::default().event(None, &"GET /".repeat(200), "r", Instant::now());
        let event = event.unwrap();
        assert_eq!((event.name.as_str(), event.action.as_str()), ("unknown", "denied"));
        assert_eq!((event.subject.len(), event.details.as_str()), (MAX_SUBJECT_CHARS, "r"));
    }
}
