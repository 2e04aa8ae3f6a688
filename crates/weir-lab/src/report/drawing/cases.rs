//! A row per case: mean, interval, smallest and largest round.

use super::super::html::number;
use super::{Scale, px, shortened, ticks};
use crate::results::Cell;
use maud::{Markup, html};

/// Where the parts of a row are.
#[derive(Clone, Copy, Debug)]
struct Layout {
    class: &'static str,
    width: f64,
    row: f64,
    /// Room for names on the left; without it they are above the lines.
    names: Option<f64>,
    figures: f64,
    marks: usize,
    max_name_chars: usize,
}

const WIDE: Layout = Layout {
    class: "chart wide-only",
    width: 1_080.0,
    row: 30.0,
    names: Some(350.0),
    figures: 110.0,
    marks: 5,
    max_name_chars: 42,
};
/// For phones.
const NARROW: Layout = Layout {
    class: "chart narrow-only",
    width: 360.0,
    row: 42.0,
    names: None,
    figures: 64.0,
    marks: 3,
    max_name_chars: 50,
};
/// Left of the lines if names are above.
const MARGIN: f64 = 8.0;

/// Throughput of each case that has a number; `None` if none has.
pub(in crate::report) fn cases(cells: &[Cell]) -> Option<Markup> {
    let rows: Vec<&Cell> = cells.iter().filter(|cell| cell.throughput.is_some()).collect();
    let largest = rows.iter().filter_map(|cell| Some(cell.throughput?.max)).fold(0.0, f64::max);
    if rows.is_empty() || largest <= 0.0 {
        return None;
    }
    Some(html! {
        (chart(&rows, largest, WIDE))
        (chart(&rows, largest, NARROW))
    })
}

fn chart(rows: &[&Cell], largest: f64, layout: Layout) -> Markup {
    let marks = ticks(0.0, largest, layout.marks);
    let high = marks.last().copied().unwrap_or(largest);
    let from = layout.names.unwrap_or(MARGIN);
    let x = Scale { low: 0.0, high, from, to: layout.width - layout.figures };
    let bottom = 10.0 + layout.row * rows.len() as f64;
    html! {
        svg class=(layout.class) viewBox=(format_args!("0 0 {} {}", layout.width, bottom + 40.0)) role="img"
            aria-label="Throughput of each case with its interval" {
            @for mark in marks {
                @let at = px(x.at(mark));
                line.grid x1=(at) x2=(at) y1="6" y2=(px(bottom)) {}
                text.tick x=(at) y=(px(bottom + 16.0)) text-anchor="middle" { (number(mark)) }
            }
            @for (at, cell) in rows.iter().enumerate() {
                (row(cell, 10.0 + layout.row * at as f64, x, layout))
            }
            text.axis x=(px((x.from + x.to) / 2.0)) y=(px(bottom + 34.0)) text-anchor="middle" {
                "requests per second"
            }
        }
    }
}

fn row(cell: &Cell, top: f64, x: Scale, layout: Layout) -> Markup {
    let Some(spread) = cell.throughput else { return Markup::default() };
    let [mean, min, max] = [spread.mean, spread.min, spread.max].map(number);
    let name = shortened(&cell.name, layout.max_name_chars);
    let is_beside = layout.names.is_some();
    let y = top + layout.row * if is_beside { 0.5 } else { 0.75 };
    html! {
        g {
            title { (cell.name) ": mean " (mean) ", rounds " (min) " to " (max) }
            @if is_beside {
                text.name x=(px(x.from - 12.0)) y=(px(y + 4.0)) text-anchor="end" { (name) }
            } @else {
                text.name x=(px(x.from)) y=(px(top + 14.0)) { (name) }
            }
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
