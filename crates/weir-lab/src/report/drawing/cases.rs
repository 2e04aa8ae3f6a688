//! A row a case: mean, interval, smallest and largest round.

use super::super::html::{escape, number};
use super::{Scale, ticks};
use crate::results::Cell;
use std::fmt::Write;

const ROW: f64 = 30.0;
const WIDTH: f64 = 1_080.0;
const NAMES: f64 = 350.0;
const FIGURES: f64 = 110.0;

/// Throughput of each case that has a number; empty if none has.
pub(in crate::report) fn cases(cells: &[Cell]) -> String {
    let rows: Vec<&Cell> = cells.iter().filter(|cell| cell.throughput.is_some()).collect();
    let largest = rows.iter().filter_map(|cell| Some(cell.throughput?.max)).fold(0.0, f64::max);
    if rows.is_empty() || largest <= 0.0 {
        return String::new();
    }
    let marks = ticks(0.0, largest, 5);
    let high = marks.last().copied().unwrap_or(largest);
    let x = Scale { low: 0.0, high, from: NAMES, to: WIDTH - FIGURES };
    let bottom = 10.0 + ROW * rows.len() as f64;
    let mut out = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" \
         aria-label=\"Throughput of each case with its interval\">",
        bottom + 40.0
    );
    for mark in marks {
        let at = x.at(mark);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"6\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            number(mark)
        );
    }
    for (at, cell) in rows.iter().enumerate() {
        row(&mut out, cell, 10.0 + ROW * (at as f64 + 0.5), x);
    }
    let _ = write!(
        out,
        "<text class=\"axis\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">requests a second</text></svg>",
        (x.from + x.to) / 2.0,
        bottom + 34.0
    );
    out
}

fn row(out: &mut String, cell: &Cell, y: f64, x: Scale) {
    let Some(spread) = cell.throughput else { return };
    let _ = write!(
        out,
        "<g><title>{name}: mean {mean}, rounds {min} to {max}</title>\
         <text class=\"name\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\
         <line class=\"range\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
        x.from - 12.0,
        y + 4.0,
        escape(&shortened(&cell.name, 42)),
        x.at(spread.min),
        x.at(spread.max),
        name = escape(&cell.name),
        mean = number(spread.mean),
        min = number(spread.min),
        max = number(spread.max),
    );
    if let Some(interval) = cell.interval {
        let _ = write!(
            out,
            "<line class=\"interval\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>",
            x.at(interval.low),
            x.at(interval.high)
        );
    }
    for published in cell.published.iter().filter(|figure| figure.what == "throughput") {
        let _ = write!(
            out,
            "<path class=\"published\" d=\"M{:.1} {:.1}v18\"><title>published: {}</title></path>",
            x.at(published.value),
            y - 9.0,
            number(published.value)
        );
    }
    let _ = write!(
        out,
        "<circle class=\"mean\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"/>\
         <text class=\"figure\" x=\"{:.1}\" y=\"{:.1}\">{}</text></g>",
        x.at(spread.mean),
        x.to + 14.0,
        y + 4.0,
        number(spread.mean)
    );
}

/// At most `most` characters.
fn shortened(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    name.chars().take(most - 1).chain(['…']).collect()
}
