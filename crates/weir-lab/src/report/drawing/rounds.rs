//! Throughput of every round: what was discarded, what was recorded, and the interval.

use super::super::html::number;
use super::{Scale, ticks};
use crate::protocol::{Entry, Use};
use crate::results::Cell;
use std::fmt::Write;

const WIDTH: f64 = 1_080.0;
const HEIGHT: f64 = 260.0;

/// The rounds of a case; empty if it has none.
pub(in crate::report) fn rounds(cell: &Cell) -> String {
    let rounds = &cell.rounds;
    let largest = rounds.iter().map(|round| round.throughput).fold(0.0, f64::max);
    if rounds.is_empty() || largest <= 0.0 {
        return String::new();
    }
    let smallest = rounds.iter().map(|round| round.throughput).fold(largest, f64::min);
    // Rounds that are near each other are looked at from near: these are dots, not bars.
    let near = smallest > 0.5 * largest && smallest < largest;
    let marks = ticks(if near { smallest } else { 0.0 }, largest, 4);
    let (low, high) =
        (marks.first().copied().unwrap_or(0.0), marks.last().copied().unwrap_or(largest));
    let x = Scale { low: 0.0, high: rounds.len() as f64 + 1.0, from: 70.0, to: WIDTH - 10.0 };
    let y = Scale { low, high, from: HEIGHT - 40.0, to: 12.0 };
    let mut out = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Throughput of every round\">"
    );
    for mark in marks {
        let at = y.at(mark);
        let _ = write!(
            out,
            "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            x.from,
            x.to,
            x.from - 8.0,
            at + 4.0,
            number(mark)
        );
    }
    band(&mut out, cell, x, y);
    let every = rounds.len().div_ceil(20).max(1);
    for round in rounds {
        let at = x.at(round.number as f64);
        dot(&mut out, round, at, y.at(round.throughput));
        if (round.number - 1).is_multiple_of(every) {
            let _ = write!(
                out,
                "<text class=\"tick\" x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                HEIGHT - 22.0,
                round.number
            );
        }
    }
    let _ = write!(
        out,
        "<text class=\"axis\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">round; requests a second</text></svg>",
        (x.from + x.to) / 2.0,
        HEIGHT - 4.0
    );
    out
}

/// The interval of the mean, across the recorded rounds.
fn band(out: &mut String, cell: &Cell, x: Scale, y: Scale) {
    let recorded = || cell.rounds.iter().filter(|round| round.used == Use::Recorded);
    let numbers = recorded().map(|round| round.number as f64);
    let (first, last) = numbers
        .fold((f64::INFINITY, 0.0_f64), |(low, high), number| (low.min(number), high.max(number)));
    let (Some(interval), true) = (cell.interval, first.is_finite()) else { return };
    let (left, right) = (x.at(first - 0.5), x.at(last + 0.5));
    let (top, bottom) = (y.at(interval.high), y.at(interval.low));
    let _ = write!(
        out,
        "<rect class=\"band\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\">\
         <title>95 % interval: {} to {}</title></rect>",
        right - left,
        (bottom - top).max(1.0),
        number(interval.low),
        number(interval.high)
    );
}

fn dot(out: &mut String, round: &Entry, x: f64, y: f64) {
    let (class, word) = match round.used {
        Use::Calibration => ("calibration", "calibration"),
        Use::WarmUp => ("warm", "discarded"),
        Use::Flawed => ("flawed", "flawed"),
        Use::Recorded => ("recorded", "recorded"),
    };
    let _ = write!(
        out,
        "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\">\
         <title>round {}, {word}: {}/s in {:.2} s</title></circle>",
        round.number,
        number(round.throughput),
        round.seconds
    );
}
