//! Levels of the factors of a run, and effects of two factors with two levels each.

use super::{Cell, FactorEffects};
use crate::stats::effects;

/// A factor and its levels, in the order of the cases.
pub(crate) struct Levels<'c> {
    pub(crate) name: &'c str,
    pub(crate) values: Vec<&'c str>,
}

/// Factors with more than one level.
pub(crate) fn levels(cells: &[Cell]) -> Vec<Levels<'_>> {
    let mut found: Vec<Levels<'_>> = Vec::new();
    for factor in cells.iter().flat_map(|cell| &cell.factors) {
        let at = found.iter().position(|known| known.name == factor.name).unwrap_or_else(|| {
            found.push(Levels { name: &factor.name, values: Vec::new() });
            found.len() - 1
        });
        if !found[at].values.contains(&factor.value.as_str()) {
            found[at].values.push(&factor.value);
        }
    }
    found.retain(|factor| factor.values.len() > 1);
    found
}

/// Effects on the throughput, if the cases are exactly the four of a 2×2 design and each has
/// rounds. A level is off if it is `false`, `off`, `no` or `0`, or else the first one.
pub(super) fn factor_effects(cells: &[Cell]) -> Option<FactorEffects> {
    let mut factors = levels(cells);
    for factor in &mut factors {
        factor.values.sort_by_key(|level| !matches!(*level, "false" | "off" | "no" | "0"));
    }
    let [Levels { name: first, values: firsts }, Levels { name: second, values: seconds }] =
        &factors[..]
    else {
        return None;
    };
    let ([off, on], [without, with], 4) = (&firsts[..], &seconds[..], cells.len()) else {
        return None;
    };
    let rounds = |a: &str, b: &str| {
        let is_at = |cell: &&Cell| cell.factor(first) == Some(a) && cell.factor(second) == Some(b);
        cells.iter().find(is_at).map(Cell::throughputs)
    };
    let (off_off, off_on) = (rounds(off, without)?, rounds(off, with)?);
    let (on_off, on_on) = (rounds(on, without)?, rounds(on, with)?);
    let effects = effects([[&off_off, &off_on], [&on_off, &on_on]], 0.95)?;
    Some(FactorEffects { first: (*first).to_owned(), second: (*second).to_owned(), effects })
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
