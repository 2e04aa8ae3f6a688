//! Charts without scripts: cases with their intervals, rounds, lines over the levels of a factor.
//! Colours come from the style of the page, so that they follow its theme.

mod cases;
mod matrix;
mod ratios;
mod rounds;

pub(super) use cases::cases;
pub(super) use matrix::matrix;
pub(super) use ratios::{Ratio, height, ratios};
pub(super) use rounds::rounds;

/// Maps values to positions in a drawing.
#[derive(Clone, Copy, Debug)]
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    fn at(&self, value: f64) -> f64 {
        let share = (value - self.low) / (self.high - self.low);
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }
}

/// A position with one decimal.
fn px(position: f64) -> String {
    format!("{position:.1}")
}

/// A text of at most `most` characters.
fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

/// Round numbers from `low` to `high`, about `count` of them, both ends included.
fn ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    let span = high - low;
    if !(span.is_finite() && span > 0.0) {
        return vec![low, low + 1.0];
    }
    let rough = span / count.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(rough);
    let (first, last) = ((low / step).floor(), (high / step).ceil());
    (0..=(last - first) as usize).map(|at| (first + at as f64) * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_enclose() {
        assert_eq!(ticks(0.0, 97.0, 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(970.0, 1_030.0, 4), [960.0, 980.0, 1000.0, 1020.0, 1040.0]);
        assert_eq!(ticks(5.0, 5.0, 4), [5.0, 6.0]);
        assert_eq!(ticks(0.0, f64::NAN, 4).len(), 2);
    }
}
