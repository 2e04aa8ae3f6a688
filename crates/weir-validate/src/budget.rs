//! Budget of work and memory for one validation. The library that validates documents has no
//! limits: an `anyOf` that refers to itself doubles the work with each level, and the errors of all
//! branches are kept as a tree. So documents count each access to a value, a name or a text (a
//! step), and each error and name that may be kept (memory). Once either is exhausted, documents
//! appear empty and schemas that others refer to match nothing, so that the comparison ends soon;
//! its result is void.

use std::cell::Cell;

/// Base number of steps for any value.
pub(crate) const BASE_STEPS: i64 = 200_000;
/// Additional steps for each byte of a body.
const STEPS_PER_BYTE: i64 = 128;
/// Maximum number of steps for a body of any length. A step takes some 4 ns.
const MOST_STEPS: i64 = 8_000_000;
/// Maximum number of steps for collecting errors: steps that create errors take longer.
pub(crate) const MOST_ERROR_STEPS: i64 = 3_000_000;
/// Maximum number of steps of backtracking patterns in one comparison.
const BACKTRACKING_STEPS: i64 = 4_000_000;
/// Maximum memory of the errors and name sets of one comparison, in bytes.
pub(crate) const MEMORY: i64 = 8 << 20;
/// Maximum size of an error in bytes, without its path and its copies of the schema.
const ERROR: i64 = 1024;
/// Size of a stored name in bytes, without its text.
const NAME: i64 = 64;
thread_local! {
    /// Remaining budget of the comparison that this thread runs. Outside of a comparison nothing is
    /// counted.
    static LEFT: Left = const {
        Left {
            steps: Cell::new(i64::MAX),
            memory: Cell::new(i64::MAX),
            backtracking: Cell::new(BACKTRACKING_STEPS),
        }
    };
}

/// Remaining budget, with a separate field for each part: most accesses take steps only.
struct Left {
    /// Negative: exhausted.
    steps: Cell<i64>,
    memory: Cell<i64>,
    backtracking: Cell<i64>,
}

/// Restores the remaining budget of the outer comparison, also on unwinding.
struct Outer {
    steps: i64,
    memory: i64,
    backtracking: i64,
}

impl Drop for Outer {
    fn drop(&mut self) {
        LEFT.with(|left| {
            left.steps.set(self.steps);
            left.memory.set(self.memory);
            left.backtracking.set(self.backtracking);
        });
    }
}

/// Number of steps for a body of this length in bytes.
pub(crate) fn of_body(bytes: usize) -> i64 {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(BASE_STEPS).min(MOST_STEPS)
}

/// Runs a comparison within this number of steps and bytes, and within the remaining budget of the
/// outer comparison. `None`: budget exhausted.
pub(crate) fn within<T>(steps: i64, memory: i64, work: impl FnOnce() -> T) -> Option<T> {
    let (mut outer, given) = LEFT.with(|left| {
        let outer = Outer {
            steps: left.steps.get(),
            memory: left.memory.get(),
            backtracking: left.backtracking.get(),
        };
        let given = steps.min(outer.steps);
        left.steps.set(given);
        left.memory.set(memory.min(outer.memory));
        (outer, given)
    });
    let done = work();
    let (left, backtracking) = LEFT.with(|left| (left.steps.get(), left.backtracking.get()));
    if outer.steps != i64::MAX {
        outer.steps -= given - left.max(0);
        outer.backtracking = backtracking;
    }
    (left >= 0).then_some(done)
}

/// Takes steps; returns whether enough were left.
#[inline]
pub(crate) fn charge(steps: i64) -> bool {
    LEFT.with(|left| take(&left.steps, steps))
}

/// Takes a step for a name of this length, and the memory of a copy.
#[inline]
pub(crate) fn charge_name(length: u32) -> bool {
    LEFT.with(|left| {
        if !take(&left.memory, NAME + i64::from(length)) {
            left.steps.set(-1);
        }
        take(&left.steps, 1 + i64::from(length / 16))
    })
}

/// Takes steps of backtracking patterns, which have a separate budget: the charge is an upper bound
/// of their work. Returns whether enough were left.
pub(crate) fn charge_backtracking(steps: i64) -> bool {
    LEFT.with(|left| {
        if !take(&left.backtracking, steps) {
            left.steps.set(-1);
        }
        left.steps.get() >= 0
    })
}

/// Takes from a part of the budget; returns whether enough was left.
#[inline]
fn take(left: &Cell<i64>, taken: i64) -> bool {
    let rest = left.get().saturating_sub(taken);
    left.set(rest);
    rest >= 0
}

/// Takes the memory of an error with this number of bytes of path and copies; returns whether
/// enough was left. An error created after exhaustion is void.
pub(crate) fn charge_error(bytes: usize) -> bool {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    LEFT.with(|left| {
        if !take(&left.memory, bytes.saturating_add(ERROR)) {
            left.steps.set(-1);
        }
        left.steps.get() >= 0
    })
}
