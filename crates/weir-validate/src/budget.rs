//! How much work and memory one validation may take. The library that compares a schema with a
//! document knows no limits: an `anyOf` that refers to itself doubles the work with each level, and
//! the errors of all branches are kept as a tree. So documents count each access to a value, a name
//! or a text (a step), and each error and name that may be kept (memory). Once either is used up,
//! documents appear empty and the schemas that others refer to match nothing, so that the comparison
//! ends soon; its result is then void.

use std::cell::Cell;

/// Steps of any value.
pub(crate) const BASE_STEPS: i64 = 200_000;
/// Steps of a body for each of its bytes.
const STEPS_PER_BYTE: i64 = 128;
/// Most steps of a body, however long. A step takes some 4 ns.
const MOST_STEPS: i64 = 8_000_000;
/// Most steps of collecting errors: steps that make errors take longer.
pub(crate) const MOST_ERROR_STEPS: i64 = 3_000_000;
/// Most steps of patterns that backtrack, of one comparison.
const BACKTRACKING_STEPS: i64 = 4_000_000;
/// Most bytes that the errors and name sets of one comparison take.
pub(crate) const MEMORY: i64 = 8 << 20;
/// Bytes of one error at most, without its path and its copies of the schema.
const ERROR: i64 = 1024;
/// Bytes of a name that is kept, without its text.
const NAME: i64 = 64;
thread_local! {
    /// What is left to the comparison that this thread runs. Outside of one nothing is counted.
    static LEFT: Left = const {
        Left {
            steps: Cell::new(i64::MAX),
            memory: Cell::new(i64::MAX),
            backtracking: Cell::new(BACKTRACKING_STEPS),
        }
    };
}

/// What is left, each by itself: most accesses take steps only.
struct Left {
    /// Negative: exhausted.
    steps: Cell<i64>,
    memory: Cell<i64>,
    backtracking: Cell<i64>,
}

/// Restores what is left of the comparison around this one, also when unwinding.
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

/// Steps of a body of this length in bytes.
pub(crate) fn of_body(bytes: usize) -> i64 {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    bytes.saturating_mul(STEPS_PER_BYTE).saturating_add(BASE_STEPS).min(MOST_STEPS)
}

/// Runs a comparison within so many steps and bytes, and within what is left of the one around it.
/// `None`: they were not enough.
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

/// Takes steps; whether there were enough.
#[inline]
pub(crate) fn charge(steps: i64) -> bool {
    LEFT.with(|left| take(&left.steps, steps))
}

/// Takes a step for a name of this length, and the memory that a copy of it takes.
#[inline]
pub(crate) fn charge_name(length: u32) -> bool {
    LEFT.with(|left| {
        if !take(&left.memory, NAME + i64::from(length)) {
            left.steps.set(-1);
        }
        take(&left.steps, 1 + i64::from(length / 16))
    })
}

/// Takes steps of patterns that backtrack, which have a number of their own: what is charged is the
/// most that they may take. Whether there were enough.
pub(crate) fn charge_backtracking(steps: i64) -> bool {
    LEFT.with(|left| {
        if !take(&left.backtracking, steps) {
            left.steps.set(-1);
        }
        left.steps.get() >= 0
    })
}

/// Takes some of what is left; whether there was enough.
#[inline]
fn take(left: &Cell<i64>, taken: i64) -> bool {
    let rest = left.get().saturating_sub(taken);
    left.set(rest);
    rest >= 0
}

/// Takes the memory of an error with so many bytes of path and copies; whether there was enough. An
/// error that is made once there is not is void.
pub(crate) fn charge_error(bytes: usize) -> bool {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    LEFT.with(|left| {
        if !take(&left.memory, bytes.saturating_add(ERROR)) {
            left.steps.set(-1);
        }
        left.steps.get() >= 0
    })
}
