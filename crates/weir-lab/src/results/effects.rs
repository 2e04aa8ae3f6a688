//! Effects of two factors with two levels each, from the cases of a run.

use super::{Cell, FactorEffects};
use crate::stats::effects;

/// Effects on the throughput, if the cases are exactly the four of a 2×2 design and each has
/// rounds. A level is off if it is `false`, `off`, `no` or `0`, or else the first one.
pub(super) fn factor_effects(cells: &[Cell]) -> Option<FactorEffects> {
    let varied = |name: &&str| levels(cells, name).len() > 1;
    let first = cells.first()?;
    let names: Vec<&str> =
        first.factors.iter().map(|factor| factor.name.as_str()).filter(varied).collect();
    let [first, second] = names[..] else { return None };
    let (firsts, seconds) = (levels(cells, first), levels(cells, second));
    if cells.len() != 4 || firsts.len() != 2 || seconds.len() != 2 {
        return None;
    }
    let rounds = |a: &str, b: &str| {
        let is_at = |cell: &&Cell| cell.factor(first) == Some(a) && cell.factor(second) == Some(b);
        cells.iter().find(is_at).map(Cell::throughputs)
    };
    let (off_off, off_on) = (rounds(firsts[0], seconds[0])?, rounds(firsts[0], seconds[1])?);
    let (on_off, on_on) = (rounds(firsts[1], seconds[0])?, rounds(firsts[1], seconds[1])?);
    let effects = effects([[&off_off, &off_on], [&on_off, &on_on]], 0.95)?;
    Some(FactorEffects { first: first.to_owned(), second: second.to_owned(), effects })
}

/// Levels of a factor, off first.
fn levels<'a>(cells: &'a [Cell], name: &str) -> Vec<&'a str> {
    let mut levels: Vec<&str> = Vec::new();
    for level in cells.iter().filter_map(|cell| cell.factor(name)) {
        if !levels.contains(&level) {
            levels.push(level);
        }
    }
    levels.sort_by_key(|level| !matches!(*level, "false" | "off" | "no" | "0"));
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Factor, RoundFigures};

    fn cell(tracker: &str, monitor: &str, throughput: f64) -> Cell {
        let factor = |name: &str, value: &str| Factor { name: name.into(), value: value.into() };
        let round = |number: usize| RoundFigures {
            number,
            throughput: throughput * (1.0 + 0.001 * number as f64),
            ..RoundFigures::default()
        };
        Cell {
            factors: vec![
                factor("users", "150"),
                factor("tracker", tracker),
                factor("monitor", monitor),
            ],
            recorded: (0..5).map(round).collect(),
            ..Cell::default()
        }
    }

    #[test]
    fn off_is_the_base_whatever_the_order_and_constant_factors_do_not_matter() {
        let cells = [
            cell("true", "true", 400.0),
            cell("true", "false", 500.0),
            cell("false", "true", 800.0),
            cell("false", "false", 1000.0),
        ];
        let found = factor_effects(&cells).expect("2 by 2");
        assert_eq!((found.first.as_str(), found.second.as_str()), ("tracker", "monitor"));
        assert!((found.effects.first.value - 0.5).abs() < 1e-6, "{found:?}");
        assert!((found.effects.second.value - 0.8).abs() < 1e-6, "{found:?}");
        assert!((found.effects.interaction.value - 1.0).abs() < 1e-6, "{found:?}");
        assert_eq!(factor_effects(&cells[..3]), None);
    }
}
