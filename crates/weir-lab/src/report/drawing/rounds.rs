//! Throughput of every round: discarded and recorded rounds, and the interval.

use super::super::html::number;
use super::{Scale, px, ticks};
use crate::protocol::{LoggedRound, RoundUse};
use crate::results::Cell;
use maud::{Markup, html};

const WIDTH: f64 = 1_080.0;
const HEIGHT: f64 = 260.0;

/// The rounds of a case; `None` if it has none.
pub(in crate::report) fn rounds(cell: &Cell) -> Option<Markup> {
    let rounds = &cell.rounds;
    let largest = rounds.iter().map(|round| round.throughput).fold(0.0, f64::max);
    if rounds.is_empty() || largest <= 0.0 {
        return None;
    }
    let smallest = rounds.iter().map(|round| round.throughput).fold(largest, f64::min);
    // The axis starts near the values when they are close to each other: these are dots, not bars.
    let near = smallest > 0.5 * largest && smallest < largest;
    let marks = ticks(if near { smallest } else { 0.0 }, largest, 4);
    let (low, high) =
        (marks.first().copied().unwrap_or(0.0), marks.last().copied().unwrap_or(largest));
    let x = Scale { low: 0.0, high: rounds.len() as f64 + 1.0, from: 70.0, to: WIDTH - 10.0 };
    let y = Scale { low, high, from: HEIGHT - 40.0, to: 12.0 };
    let every = rounds.len().div_ceil(20).max(1);
    Some(html! {
        svg.chart viewBox=(format_args!("0 0 {WIDTH} {HEIGHT}")) role="img"
            aria-label="Throughput of every round" {
            @for mark in marks {
                @let at = y.at(mark);
                line.grid x1=(x.from) x2=(x.to) y1=(px(at)) y2=(px(at)) {}
                text.tick x=(x.from - 8.0) y=(px(at + 4.0)) text-anchor="end" { (number(mark)) }
            }
            (band(cell, x, y).unwrap_or_default())
            @for round in rounds {
                @let at = x.at(round.number as f64);
                (dot(round, at, y.at(round.throughput)))
                @if (round.number - 1).is_multiple_of(every) {
                    text.tick x=(px(at)) y=(HEIGHT - 22.0) text-anchor="middle" { (round.number) }
                }
            }
            text.axis x=(px((x.from + x.to) / 2.0)) y=(HEIGHT - 4.0) text-anchor="middle" {
                "round; requests per second"
            }
        }
    })
}

/// The interval of the mean, across the recorded rounds.
fn band(cell: &Cell, x: Scale, y: Scale) -> Option<Markup> {
    let recorded = || cell.rounds.iter().filter(|round| round.used == RoundUse::Recorded);
    let first = recorded().next()?.number as f64;
    let last = recorded().next_back()?.number as f64;
    let interval = cell.interval?;
    let (left, right) = (x.at(first - 0.5), x.at(last + 0.5));
    let (top, bottom) = (y.at(interval.high), y.at(interval.low));
    Some(html! {
        rect.band x=(px(left)) y=(px(top)) width=(px(right - left))
            height=(px((bottom - top).max(1.0))) {
            title { "95 % interval: " (number(interval.low)) " to " (number(interval.high)) }
        }
    })
}

fn dot(round: &LoggedRound, x: f64, y: f64) -> Markup {
    let (class, word) = match round.used {
        RoundUse::Calibration => ("calibration", "calibration"),
        RoundUse::WarmUp => ("warm", "discarded"),
        RoundUse::Invalid => ("flawed", "invalid"),
        RoundUse::Discarded => ("warm", "not used"),
        RoundUse::Recorded => ("recorded", "recorded"),
    };
    let seconds = format_args!("{:.2}", round.seconds);
    html! {
        circle class=(class) cx=(px(x)) cy=(px(y)) r="5" {
            title {
                "round " (round.number) ", " (word) ": " (number(round.throughput)) "/s in " (seconds) " s"
            }
        }
    }
}
