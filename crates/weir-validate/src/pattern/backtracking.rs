//! Patterns with look-around or back-references, which only backtracking can match. The engine
//! cannot be interrupted, but stops after a number of failed attempts. The work of each attempt is
//! bounded by a power of the text's length. So a match starts with few attempts, and gets more as
//! long as the budget covers that many attempts of maximum cost; a text that is too long is
//! rejected before matching.

use super::super::budget::charge_backtracking;
use fancy_regex::{Error, Expr, Regex, RegexBuilder, RuntimeError};

/// Number of attempts per stage.
const ATTEMPTS: [usize; 3] = [100, 1_000, 10_000];
/// Maximum size of a compiled part of a pattern, in bytes.
const PART_BYTES: usize = 1 << 20;
/// Minimum text length for computing the work, in bytes.
const SHORTEST: i64 = 8;
/// Parts of a pattern, repetitions included, per step of an attempt at one position of a text.
const PARTS_PER_STEP: i64 = 4;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Backtracking {
    stages: Vec<(i64, Regex)>,
    /// Steps of one attempt at one position of a text.
    steps: i64,
    /// An attempt may visit each position as often as the text has positions, to this power.
    exponent: u32,
}

impl Backtracking {
    /// # Errors
    /// Why the pattern is invalid.
    pub(super) fn new(pattern: &str) -> Result<Self, String> {
        let stage = |attempts: usize| {
            let mut builder = RegexBuilder::new(pattern);
            builder.backtrack_limit(attempts).delegate_size_limit(PART_BYTES);
            let regex = builder.build().map_err(|error| error.to_string())?;
            Ok((i64::try_from(attempts).unwrap_or(i64::MAX), regex))
        };
        let stages = ATTEMPTS.into_iter().map(stage).collect::<Result<_, String>>()?;
        let tree = Expr::parse_tree(pattern).map_err(|error| error.to_string())?;
        let exponent = exponent(&tree.expr).max(1);
        Ok(Self { stages, steps: 1 + parts(&tree.expr) / PARTS_PER_STEP, exponent })
    }

    /// Whether a text matches. Takes steps; `None`: budget exhausted.
    pub(super) fn is_match(&self, text: &str) -> Option<bool> {
        let length = i64::try_from(text.len()).unwrap_or(i64::MAX).max(SHORTEST);
        let attempt = length.saturating_pow(self.exponent).saturating_mul(self.steps);
        for (attempts, regex) in &self.stages {
            if !charge_backtracking(attempts.saturating_mul(attempt)) {
                return None;
            }
            match regex.is_match(text) {
                Ok(is_match) => return Some(is_match),
                Err(Error::RuntimeError(RuntimeError::BacktrackLimitExceeded)) => {}
                Err(_) => break,
            }
        }
        charge_backtracking(i64::MAX);
        None
    }
}

/// Number of parts of a pattern with its repetitions expanded.
fn parts(expr: &Expr) -> i64 {
    let below = expr.children_iter().map(parts).fold(1, i64::saturating_add);
    match expr {
        Expr::Literal { val, .. } => i64::try_from(val.len()).unwrap_or(i64::MAX),
        Expr::Repeat { lo, hi, .. } => {
            let times = if *hi == usize::MAX { *lo } else { *hi };
            below.saturating_mul(i64::try_from(times.max(1)).unwrap_or(i64::MAX))
        }
        _ => below,
    }
}

/// Exponent of the work of one attempt on a text of length n: n to this power. An attempt passes
/// over the text once; look-around in a repetition may do so at each position.
fn exponent(expr: &Expr) -> u32 {
    match expr {
        Expr::Empty
        | Expr::Any { .. }
        | Expr::Assertion(_)
        | Expr::Literal { .. }
        | Expr::Delegate { .. }
        | Expr::Backref { .. } => 0,
        Expr::Concat(parts) | Expr::Alt(parts) => parts.iter().map(exponent).max().unwrap_or(0),
        Expr::Group(inner) => exponent(inner),
        Expr::LookAround(inner, _) | Expr::AtomicGroup(inner) => exponent(inner),
        Expr::Repeat { child, .. } => 1 + looks(child),
        // ECMA-262 has no other expressions.
        _ => 3,
    }
}

/// The largest exponent of look-around in a part of a pattern.
fn looks(expr: &Expr) -> u32 {
    match expr {
        Expr::LookAround(inner, _) => exponent(inner),
        _ => expr.children_iter().map(looks).max().unwrap_or(0),
    }
}
