//! Lines over the levels of a factor: throughput and 99th percentile, one line per level of another
//! factor, a pair of charts for each combination of the others.

use super::super::html::{number, time};
use super::{Scale, px, ticks};
use crate::results::{Cell, Levels, levels};
use maud::{Markup, html};
use std::fmt::Write;

const WIDTH: f64 = 530.0;
const HEIGHT: f64 = 270.0;
/// Lines that can be distinguished.
const MAX_LINES: usize = 8;
/// Pairs of charts.
const MAX_PAIRS: usize = 12;

/// Charts of a run with a factor of at least three levels, or of two factors; `None` otherwise.
pub(in crate::report) fn matrix(cells: &[Cell]) -> Option<Markup> {
    let mut factors = levels(cells);
    let numeric = |factor: &Levels<'_>| {
        factor.values.iter().all(|value| value.starts_with(|c: char| c.is_ascii_digit()))
    };
    factors.sort_by_key(|factor| {
        let users = factor.name == "users";
        std::cmp::Reverse((users, numeric(factor), factor.values.len()))
    });
    let enough = factors.first().is_some_and(|x| x.values.len() >= 3) || factors.len() >= 2;
    if !enough || !factors.first().is_some_and(numeric) {
        return None;
    }
    let x = factors.remove(0);
    factors.sort_by_key(|factor| std::cmp::Reverse(factor.values.len()));
    let series = (!factors.is_empty()).then(|| factors.remove(0));
    let pair = |chosen: Vec<(&str, &str)>| {
        let fits = |cell: &&Cell| chosen.iter().all(|(n, value)| cell.factor(n) == Some(*value));
        let cells: Vec<&Cell> = cells.iter().filter(fits).collect();
        let title: Vec<String> =
            chosen.iter().map(|(name, value)| format!("{name} {value}")).collect();
        pair(&title.join(", "), &cells, &x, series.as_ref())
    };
    let pairs = combinations(&factors).into_iter().take(MAX_PAIRS).map(pair);
    Some(html! { @for pair in pairs { (pair) } })
}

fn pair(title: &str, cells: &[&Cell], x: &Levels<'_>, series: Option<&Levels<'_>>) -> Markup {
    let lines: Vec<&str> = series.map_or_else(|| vec![""], |series| series.values.clone());
    let of = |line: &str, figure: fn(&Cell) -> Option<f64>| -> Vec<Option<f64>> {
        let is_at = |cell: &&&Cell, level: &str| {
            cell.factor(x.name) == Some(level)
                && series.is_none_or(|series| cell.factor(series.name) == Some(line))
        };
        let at = |level: &&str| {
            cells.iter().find(|cell| is_at(cell, level)).and_then(|cell| figure(cell))
        };
        x.values.iter().map(at).collect()
    };
    let values = |figure: fn(&Cell) -> Option<f64>| -> Vec<_> {
        lines.iter().take(MAX_LINES).map(|line| of(line, figure)).collect()
    };
    let throughput = values(|cell| Some(cell.throughput?.mean));
    let p99 = values(|cell| cell.total().and_then(|total| total.response_time(|times| times.p99)));
    html! {
        @if !title.is_empty() { h3 { (title) } }
        @if let Some(series) = series {
            p.legend {
                (series.name) ": "
                @for (at, line) in lines.iter().take(MAX_LINES).enumerate() {
                    span class=(format_args!("key s{at}")) {} (line) " "
                }
            }
        }
        div.pair {
            (chart("Throughput, requests per second", x, &throughput, number))
            (chart("Response time, 99th percentile", x, &p99, time))
        }
    }
}

fn chart(
    title: &str,
    x: &Levels<'_>,
    lines: &[Vec<Option<f64>>],
    show: fn(f64) -> String,
) -> Markup {
    let largest = lines.iter().flatten().flatten().copied().fold(0.0, f64::max);
    let marks = ticks(0.0, if largest > 0.0 { largest } else { 1.0 }, 4);
    let high = marks.last().copied().unwrap_or(1.0);
    let across =
        Scale { low: -0.3, high: x.values.len() as f64 - 0.7, from: 84.0, to: WIDTH - 12.0 };
    let up = Scale { low: 0.0, high, from: HEIGHT - 46.0, to: 30.0 };
    html! {
        svg.chart viewBox=(format_args!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(title) {
            text.title x="0" y="14" { (title) }
            @for mark in marks {
                @let at = up.at(mark);
                line.grid x1=(across.from) x2=(across.to) y1=(px(at)) y2=(px(at)) {}
                text.tick x=(across.from - 8.0) y=(px(at + 4.0)) text-anchor="end" { (show(mark)) }
            }
            @for (at, level) in x.values.iter().enumerate() {
                text.tick x=(px(across.at(at as f64))) y=(HEIGHT - 28.0) text-anchor="middle" {
                    (level)
                }
            }
            @for (number, values) in lines.iter().enumerate() {
                (line(number, values, across, up, show))
            }
            text.axis x=(px((across.from + across.to) / 2.0)) y=(HEIGHT - 6.0) text-anchor="middle" {
                (x.name)
            }
        }
    }
}

fn line(
    number: usize,
    values: &[Option<f64>],
    across: Scale,
    up: Scale,
    show: fn(f64) -> String,
) -> Markup {
    let mut path = String::new();
    let mut dots = Vec::new();
    let mut pen = 'M';
    for (at, value) in values.iter().enumerate() {
        // The line is interrupted where a number is missing.
        let Some(value) = value else {
            pen = 'M';
            continue;
        };
        let (x, y) = (across.at(at as f64), up.at(*value));
        let _ = write!(path, "{pen}{x:.1} {y:.1}");
        dots.push((x, y, *value));
        pen = 'L';
    }
    html! {
        path class=(format_args!("line s{number}")) d=(path) {}
        @for (x, y, value) in dots {
            circle class=(format_args!("dot s{number}")) cx=(px(x)) cy=(px(y)) r="4" {
                title { (show(value)) }
            }
        }
    }
}

/// Every combination of levels.
fn combinations<'a>(factors: &[Levels<'a>]) -> Vec<Vec<(&'a str, &'a str)>> {
    let mut all = vec![Vec::new()];
    for factor in factors {
        let with = |chosen: &Vec<(&'a str, &'a str)>| {
            factor
                .values
                .iter()
                .map(|value| [chosen.clone(), vec![(factor.name, *value)]].concat())
                .collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).take(MAX_PAIRS).collect();
    }
    all
}
