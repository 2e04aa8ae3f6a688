//! Live view of a load on a terminal: a few lines that are drawn again every second.
//!
//! Nothing of the terminal is changed (no screen of its own, no hidden cursor), so that a signal or a
//! panic leaves nothing to restore.

use crate::escape;
use std::io::Write;
use unicode_width::UnicodeWidthStr;
use weir_lab::measure;
use weir_lab::program::{Label, Labels, Program};
use weir_lab::protocol::RoundSize;
use weir_lab::record::{Interval, Tally};
use weir_lab::sample::ErrorKind;

/// Labels that are shown.
const MAX_LABELS: usize = 8;
/// Cells of the bar, on a terminal of usual width or more.
const BAR: usize = 24;
/// Widest column of names of labels, and narrowest.
const NAME_WIDTHS: (usize, usize) = (30, 8);
/// Narrowest column of names beside all figures of a label.
const ROOMY_NAME: usize = 16;
/// Size of an unknown terminal.
const USUAL_SIZE: Size = Size { width: 80, height: 24 };

/// Columns and rows of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size {
    width: usize,
    height: usize,
}

/// The view.
pub(super) struct Live {
    /// Labels and transactions of the program, and its size.
    labels: Labels,
    transactions: Vec<Label>,
    size: Option<RoundSize>,
    /// Requests of an iteration, if their number is known.
    requests: Option<f64>,
    /// Completed requests, and errors by kind, since the start.
    done: u64,
    errors: [u64; ErrorKind::ALL.len()],
    /// Lines on the terminal, and its width then.
    drawn: usize,
    drawn_width: usize,
}

impl Live {
    pub(super) fn new() -> Self {
        Self {
            labels: Labels::default(),
            transactions: Vec::new(),
            size: None,
            requests: None,
            done: 0,
            errors: [0; ErrorKind::ALL.len()],
            drawn: 0,
            drawn_width: 0,
        }
    }

    /// The following seconds are of this program.
    pub(super) fn start(&mut self, program: &Program) {
        self.labels = program.labels.clone();
        self.transactions = program.transactions();
        self.size = measure::size(program);
        self.requests = measure::requests_of_iteration(program);
        (self.done, self.errors) = (0, [0; ErrorKind::ALL.len()]);
    }

    /// Draws a second.
    pub(super) fn second(&mut self, phase: &str, second: &Interval) {
        let all = second.all(&self.transactions);
        self.done += all.samples();
        self.errors.iter_mut().zip(all.errors).for_each(|(sum, count)| *sum += count);
        let size = Size::of_terminal();
        let lines = self.frame(phase, &all, second, size);
        self.draw(&lines, size);
    }

    /// Draws a single line.
    pub(super) fn line(&mut self, text: &str) {
        self.draw(&[text.to_owned()], Size::of_terminal());
    }

    /// Keeps what is drawn; the next drawing is below.
    pub(super) fn end(&mut self) {
        self.drawn = 0;
    }

    /// The lines of a second, as many as the terminal shows.
    fn frame(&self, phase: &str, all: &Tally, second: &Interval, size: Size) -> Vec<String> {
        let mut lines = wrapped(&self.head(phase, second, size), size);
        lines.extend(wrapped(&self.figures(all, second), size));
        lines.extend(wrapped(&self.error_parts(), size));
        lines.extend(self.label_lines(second, size));
        // The cursor is below them.
        lines.truncate(size.height.saturating_sub(1).max(1));
        lines
    }

    /// Time or requests, and how far the load is.
    fn head(&self, phase: &str, second: &Interval, size: Size) -> Vec<String> {
        let passed = second.second + 1;
        let (share, of) = match self.size {
            Some(RoundSize::Seconds(seconds)) if seconds > 0.0 => {
                (Some(passed as f64 / seconds), format!("{passed} of {seconds:.0} s"))
            }
            Some(RoundSize::Iterations(iterations)) if iterations > 0 => {
                let share = self.done as f64 / iterations as f64;
                (Some(share), format!("{passed} s, {} of {iterations}", self.done))
            }
            _ => (None, format!("{passed} s")),
        };
        let bar = share.map(|share| {
            let cells = BAR.min(size.width * 3 / 10);
            let full = (share.clamp(0.0, 1.0) * cells as f64) as usize;
            format!("[{}{}]", "#".repeat(full), ".".repeat(cells - full))
        });
        bar.into_iter().chain([of, phase.to_owned()]).collect()
    }

    fn figures(&self, all: &Tally, second: &Interval) -> Vec<String> {
        let mut parts = times(all);
        parts.push(format!("{} users", second.users));
        if second.offered > 0 {
            parts.push(match self.requests {
                Some(requests) => format!("{:.0}/s offered", second.offered as f64 * requests),
                // Not comparable with the requests beside them.
                None => format!("{} iterations/s offered", second.offered),
            });
        }
        if second.dropped > 0 {
            parts.push(format!("{} dropped", second.dropped));
        }
        parts
    }

    fn error_parts(&self) -> Vec<String> {
        let mut kinds: Vec<_> = ErrorKind::ALL.iter().zip(self.errors).collect();
        kinds.retain(|(_, count)| *count > 0);
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let part = |(at, (kind, count)): (usize, (&ErrorKind, u64))| {
            let before = if at == 0 { "errors: " } else { "" };
            format!("{before}{count} {}", kind.name())
        };
        kinds.into_iter().enumerate().map(part).collect()
    }

    /// A line for each label, or two on a narrow terminal, if there are several and not many.
    fn label_lines(&self, second: &Interval, size: Size) -> Vec<String> {
        let used = (0..).map(Label).zip(&second.labels);
        let used: Vec<_> = used.filter(|(_, tally)| tally.samples() > 0).collect();
        if !(2..=MAX_LABELS).contains(&used.len()) {
            return Vec::new();
        }
        let rows = |of: fn(&Tally) -> Vec<String>| -> Vec<String> {
            used.iter().map(|(_, tally)| of(tally).join(GAP)).collect()
        };
        let room = |rows: &[String]| {
            let widest = rows.iter().map(|row| row.width()).max().unwrap_or_default();
            size.width.saturating_sub(widest + 2 * GAP.len() + 1)
        };
        let (widest, narrowest) = NAME_WIDTHS;
        let mut rows_of_all = rows(times);
        if room(&rows_of_all) < ROOMY_NAME {
            rows_of_all = rows(short_times);
        }
        let room = room(&rows_of_all);
        let (width, divide) = match room < narrowest {
            true => (size.width.saturating_sub(GAP.len() + 1), true),
            false => (room.min(widest), false),
        };
        let names = self.labels.names();
        let line = |((label, _), row): (&(Label, &Tally), String)| {
            let name = fitted(names.get(label.0 as usize).map_or("", String::as_str), width);
            if divide {
                return vec![format!("{GAP}{name}"), format!("{GAP}{GAP}{row}")];
            }
            let space = " ".repeat(width.saturating_sub(name.width()));
            vec![format!("{GAP}{name}{space}{GAP}{row}")]
        };
        used.iter().zip(rows_of_all).flat_map(line).collect()
    }

    fn draw(&mut self, lines: &[String], size: Size) {
        // A narrower terminal has divided the lines, in ways of its own: the next drawing is below.
        let above = if size.width < self.drawn_width { 0 } else { self.drawn };
        let text = drawing(above, lines, size.width);
        (self.drawn, self.drawn_width) = (lines.len(), size.width);
        let mut out = std::io::stderr().lock();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

impl Size {
    fn of_terminal() -> Self {
        let (width, height) = match terminal_size::terminal_size_of(std::io::stderr()) {
            Some((width, height)) => (usize::from(width.0), usize::from(height.0)),
            None => (USUAL_SIZE.width, USUAL_SIZE.height),
        };
        Self { width: width.max(2), height: height.max(2) }
    }
}

/// Between the parts of a line.
const GAP: &str = "  ";

/// Parts in as few lines as the width permits.
fn wrapped(parts: &[String], size: Size) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.width() + GAP.len() + part.width() < size.width => {
                line.push_str(GAP);
                line.push_str(part);
            }
            _ => lines.push(part.clone()),
        }
    }
    lines
}

/// Replaces the lines drawn before. Longer lines than the terminal is wide would be several.
fn drawing(drawn: usize, lines: &[String], width: usize) -> String {
    let up = if drawn > 0 { format!("\x1b[{drawn}A") } else { String::new() };
    let mut text = format!("{up}\r\x1b[J");
    for line in lines {
        text.push_str(&fitted(line, width - 1));
        text.push('\n');
    }
    text
}

/// The beginning of a text that needs at most so many columns. Names come from plans and servers: what
/// a terminal obeys is replaced.
fn fitted(text: &str, columns: usize) -> String {
    let mut fitted = String::new();
    for character in text.chars() {
        fitted.push(if escape::is_harmful(character) { ' ' } else { character });
        // Of the whole text: a variation selector makes the character before it wider.
        if fitted.width() > columns {
            fitted.pop();
            break;
        }
    }
    fitted
}

fn times(tally: &Tally) -> Vec<String> {
    let mut parts = vec![
        format!("{}/s", tally.samples()),
        format!("p50 {:.2}", milliseconds(tally, 50.0)),
        format!("p95 {:.2}", milliseconds(tally, 95.0)),
    ];
    parts.extend(short_times(tally).into_iter().skip(1));
    parts
}

/// The same for a narrow terminal.
fn short_times(tally: &Tally) -> Vec<String> {
    let p99 = format!("p99 {:.2} ms", milliseconds(tally, 99.0));
    let mut parts = vec![format!("{}/s", tally.samples()), p99];
    if tally.failed() > 0 {
        parts.push(format!("{} errors", tally.failed()));
    }
    parts
}

fn milliseconds(tally: &Tally, percentile: f64) -> f64 {
    tally.response().value_at_percentile(percentile) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(labels: usize) -> Interval {
        let mut second = Interval::new(1, labels, false);
        for tally in &mut second.labels {
            (tally.ok, tally.errors[ErrorKind::Timeout.index()]) = (8, 2);
            tally.service.record_n(2_000_000, 10).expect("it grows");
        }
        second.users = 3;
        second
    }

    fn live(labels: [&str; 2]) -> Live {
        let mut live = Live::new();
        live.labels = labels.into_iter().collect();
        live.size = Some(RoundSize::Seconds(4.0));
        live.errors[ErrorKind::Timeout.index()] = 4;
        live
    }

    fn frame(live: &Live, labels: usize, width: usize, height: usize) -> Vec<String> {
        let second = second(labels);
        let lines = live.frame("round 1", &second.all(&[]), &second, Size { width, height });
        assert!(lines.iter().all(|line| line.width() < width), "{lines:#?}");
        lines
    }

    #[test]
    fn characters_with_a_variation_selector_are_as_wide_as_they_are_shown() {
        let wide = "\u{2764}\u{fe0f}".repeat(40);
        assert_eq!(fitted(&wide, 7).width(), 7, "the last one is narrow, without its selector");
        let live = live([&wide, "two"]);
        for width in [40, 60, 100] {
            frame(&live, 2, width, 24);
        }
    }

    #[test]
    fn a_second_has_rates_times_errors_and_labels() {
        let live = live(["one", "two"]);
        let lines = frame(&live, 2, 80, 24);
        assert_eq!(
            lines,
            [
                "[############............]  2 of 4 s  round 1",
                "20/s  p50 2.00  p95 2.00  p99 2.00 ms  4 errors  3 users",
                "errors: 4 timeout",
                &format!("  one{}10/s  p50 2.00  p95 2.00  p99 2.00 ms  2 errors", " ".repeat(27)),
                &format!("  two{}10/s  p50 2.00  p95 2.00  p99 2.00 ms  2 errors", " ".repeat(27)),
            ]
        );
        assert_eq!(frame(&live, 20, 80, 24).len(), 3, "too many labels");
    }

    #[test]
    fn what_is_offered_is_in_requests_or_says_that_it_is_not() {
        let mut second = second(2);
        second.offered = 7;
        let mut live = live(["one", "two"]);
        let figures = live.figures(&second.all(&[]), &second);
        assert_eq!(figures.last().map(String::as_str), Some("7 iterations/s offered"));
        live.requests = Some(3.0);
        let figures = live.figures(&second.all(&[]), &second);
        assert_eq!(figures.last().map(String::as_str), Some("21/s offered"));
    }

    #[test]
    fn a_narrow_terminal_has_shorter_lines_and_a_low_one_fewer() {
        let live = live(["one with a name that is long", "二つ目のラベル二つ目のラベル"]);
        assert_eq!(
            frame(&live, 2, 40, 24),
            [
                "[######......]  2 of 4 s  round 1",
                "20/s  p50 2.00  p95 2.00  p99 2.00 ms",
                "4 errors  3 users",
                "errors: 4 timeout",
                "  one with  10/s  p99 2.00 ms  2 errors",
                "  二つ目の  10/s  p99 2.00 ms  2 errors",
            ]
        );
        let lines = frame(&live, 2, 36, 24);
        assert_eq!(lines[5], "    10/s  p99 2.00 ms  2 errors", "{lines:#?}");
        assert_eq!(lines[6], "  二つ目のラベル二つ目のラベル", "{lines:#?}");
        assert_eq!(frame(&live, 2, 80, 3).len(), 2);
        for width in 2..100 {
            let second = second(2);
            let size = Size { width, height: 24 };
            let lines = live.frame("round 1", &second.all(&[]), &second, size);
            for line in drawing(0, &lines, width).lines() {
                assert!(line.trim_start_matches("\r\x1b[J").width() < width, "{width}: {line}");
            }
        }
    }

    #[test]
    fn drawings_replace_each_other_and_do_not_wrap() {
        let lines = ["a\x1b[31mb\u{202e}".to_owned(), "x".repeat(100)];
        let text = drawing(3, &lines, 20);
        assert_eq!(text, format!("\x1b[3A\r\x1b[Ja [31mb \n{}\n", "x".repeat(19)));
        assert_eq!(drawing(0, &[], 20), "\r\x1b[J");
    }
}
