//! Readings of the clock, shared by all that happens in one turn of a worker.
//!
//! A limit of seconds needs no reading of its own: what the turn has read already is good enough.

use std::cell::Cell;
use std::time::Instant;

/// How often a reading is used before the clock is asked again: a turn may be long.
const USES: u8 = 32;

thread_local! {
    static RECENT: Cell<Option<(Instant, u8)>> = const { Cell::new(None) };
}

/// The time.
pub(crate) fn now() -> Instant {
    let now = Instant::now();
    RECENT.set(Some((now, USES)));
    now
}

/// The time as it was a moment ago, in this turn.
pub(crate) fn recent() -> Instant {
    match RECENT.get() {
        Some((then, uses @ 1..)) => {
            RECENT.set(Some((then, uses - 1)));
            then
        }
        _ => now(),
    }
}

/// A turn begins: the worker may have slept before it.
pub(crate) fn turn() {
    RECENT.set(None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_lasts_for_a_turn_and_not_too_long() {
        let first = now();
        assert_eq!(recent(), first);
        turn();
        assert!(recent() > first);
        let second = recent();
        let uses = std::iter::repeat_with(recent).take_while(|&then| then == second).count();
        assert!(uses < usize::from(USES), "{uses}");
    }
}
