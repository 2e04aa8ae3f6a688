//! A row per case: mean, interval, smallest and largest round.

use super::super::html::number;
use super::{Scale, px, shortened, ticks};
use crate::results::Cell;
use maud::{Markup, html};

const ROW: f64 = 30.0;
const WIDTH: f64 = 1_080.0;
const NAMES: f64 = 350.0;
const FIGURES: f64 = 110.0;
const MAX_NAME_CHARS: usize = 42;

/// Throughput of each case that has a number; `None` if none has.
pub(in crate::report) fn cases(cells: &[Cell]) -> Option<Markup> {
    let rows: Vec<&Cell> = cells.iter().filter(|cell| cell.throughput.is_some()).collect();
    let largest = rows.iter().filter_map(|cell| Some(cell.throughput?.max)).fold(0.0, f64::max);
    if rows.is_empty() || largest <= 0.0 {
        return None;
    }
    let marks = ticks(0.0, largest, 5);
    let high = marks.last().copied().unwrap_or(largest);
    let x = Scale { low: 0.0, high, from: NAMES, to: WIDTH - FIGURES };
    let bottom = 10.0 + ROW * rows.len() as f64;
    Some(html! {
        svg.chart viewBox=(format_args!("0 0 {WIDTH} {}", bottom + 40.0)) role="img"
            aria-label="Throughput of each case with its interval" {
            @for mark in marks {
                @let at = px(x.at(mark));
                line.grid x1=(at) x2=(at) y1="6" y2=(px(bottom)) {}
                text.tick x=(at) y=(px(bottom + 16.0)) text-anchor="middle" { (number(mark)) }
            }
            @for (at, cell) in rows.iter().enumerate() {
                (row(cell, 10.0 + ROW * (at as f64 + 0.5), x))
            }
            text.axis x=(px((x.from + x.to) / 2.0)) y=(px(bottom + 34.0)) text-anchor="middle" {
                "requests per second"
            }
        }
    })
}

fn row(cell: &Cell, y: f64, x: Scale) -> Markup {
    let Some(spread) = cell.throughput else { return Markup::default() };
    let [mean, min, max] = [spread.mean, spread.min, spread.max].map(number);
    html! {
        g {
            title { (cell.name) ": mean " (mean) ", rounds " (min) " to " (max) }
            text.name x=(x.from - 12.0) y=(px(y + 4.0)) text-anchor="end" { (shortened(&cell.name, MAX_NAME_CHARS)) }
            line.range x1=(px(x.at(spread.min))) x2=(px(x.at(spread.max))) y1=(px(y)) y2=(px(y)) {}
            @if let Some(interval) = cell.interval {
                line.interval x1=(px(x.at(interval.low))) x2=(px(x.at(interval.high)))
                    y1=(px(y)) y2=(px(y)) {}
            }
            @for published in cell.published.iter().filter(|figure| figure.what == "throughput") {
                path.published d=(format_args!("M{:.1} {:.1}v18", x.at(published.value), y - 9.0)) {
                    title { "published: " (number(published.value)) }
                }
            }
            circle.mean cx=(px(x.at(spread.mean))) cy=(px(y)) r="4" {}
            text.figure x=(px(x.to + 14.0)) y=(px(y + 4.0)) { (mean) }
        }
    }
}
