//! A row per ratio: a bar, its interval, and the bound that it has to meet.

use super::{Scale, px, shortened, ticks};
use crate::results::{BarOutcome, BarResult};
use maud::{Markup, html};

const WIDTH: f64 = 900.0;
const NAMES: f64 = 380.0;
const FIGURES: f64 = 60.0;
const ROW: f64 = 26.0;
const TOP: f64 = 8.0;
const MAX_NAME_CHARS: usize = 56;

/// A ratio with its name.
#[derive(Clone, Debug)]
pub(in crate::report) struct Ratio<'r> {
    pub(in crate::report) name: String,
    pub(in crate::report) bar: &'r BarResult,
    pub(in crate::report) value: f64,
}

impl<'r> Ratio<'r> {
    /// The ratio of a bar; `None` if the bar is none, or was not measured.
    pub(in crate::report) fn of(name: String, bar: &'r BarResult) -> Option<Self> {
        bar.factor?;
        let value = bar.value.filter(|value| *value > 0.0)?;
        Some(Self { name, bar, value })
    }

    fn high(&self) -> f64 {
        let interval = self.bar.interval.map_or(self.value, |interval| interval.high);
        // A wide interval must not hide the others.
        self.value.max(self.bar.factor.unwrap_or_default()).max(interval.min(2.0 * self.value))
    }
}

/// Height of a chart with so many rows.
pub(in crate::report) fn height(rows: usize) -> f64 {
    TOP + ROW * rows as f64 + 40.0
}

/// Ratios of one direction, drawn from `y` downwards. `axis` names the values.
pub(in crate::report) fn ratios(all: &[Ratio<'_>], y: f64, axis: &str) -> Markup {
    let largest = all.iter().map(Ratio::high).fold(1.0, f64::max);
    let marks = ticks(0.0, largest, 5);
    let high = marks.last().copied().unwrap_or(largest);
    let x = Scale { low: 0.0, high, from: NAMES, to: WIDTH - FIGURES };
    let (top, bottom) = (y + TOP, y + TOP + ROW * all.len() as f64);
    html! {
        @for mark in marks {
            @let at = px(x.at(mark));
            line class=(if mark == 1.0 { "one" } else { "grid" }) x1=(at) x2=(at) y1=(px(top)) y2=(px(bottom)) {}
            text.tick x=(at) y=(px(bottom + 14.0)) text-anchor="middle" { (format_args!("{mark:.1}")) }
        }
        @for (at, ratio) in all.iter().enumerate() {
            (row(ratio, top + ROW * (at as f64 + 0.5), x))
        }
        text.tick x=(px((x.from + x.to) / 2.0)) y=(px(bottom + 30.0)) text-anchor="middle" { (axis) }
    }
}

fn row(ratio: &Ratio<'_>, y: f64, x: Scale) -> Markup {
    let start = x.at(0.0);
    let class = match ratio.bar.outcome {
        BarOutcome::Met => "ratio-met",
        BarOutcome::Missed => "ratio-missed",
        BarOutcome::Inconclusive => "ratio-open",
    };
    let found = ratio.bar.found();
    html! {
        g {
            title { (ratio.name) ": " (found) ", bar: " (ratio.bar.bar) }
            text.name x=(x.from - 10.0) y=(px(y + 4.0)) text-anchor="end" { (shortened(&ratio.name, MAX_NAME_CHARS)) }
            rect class=(class) x=(px(start)) y=(px(y - 8.0)) width=(px(x.at(ratio.value) - start)) height="16" {}
            @if let Some(interval) = ratio.bar.interval {
                line.ratio-interval x1=(px(x.at(interval.low))) x2=(px(x.at(interval.high))) y1=(px(y)) y2=(px(y)) {}
            }
            @if let Some(factor) = ratio.bar.factor {
                line.bound x1=(px(x.at(factor))) x2=(px(x.at(factor))) y1=(px(y - 11.0)) y2=(px(y + 11.0)) {}
            }
            text.figure x=(px(x.to + 8.0)) y=(px(y + 4.0)) { (format_args!("{:.2}", ratio.value)) }
        }
    }
}
