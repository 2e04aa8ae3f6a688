//! Text tables: plain in a pipe; on a terminal with colours, and as wide as the terminal.

use crate::output;
use anstyle::{AnsiColor, Style};
use serde::Serialize;

/// Narrowest width to which a column is cut.
const MIN_CUT_WIDTH: usize = 12;
/// Columns that are never cut: a part of their cells is of no use.
const WHOLE: [&str; 5] = ["TIME", "ID", "TRANSACTION", "ITSELF", "AMOUNT"];
/// Columns whose words have a colour.
const STATES: [&str; 5] = ["STATE", "STATUS", "OUTCOME", "RESOLUTION", "JUDGEMENT"];

/// What standard output is.
#[derive(Clone, Copy, Debug, Default)]
struct Terminal {
    colors: bool,
    /// Its width, if it is a terminal.
    width: Option<usize>,
}

impl Terminal {
    fn of_output() -> Self {
        // Unit tests compare plain text, wherever they run.
        if cfg!(test) {
            return Self::default();
        }
        Self { colors: output::styled(), width: output::width() }
    }
}

/// A column with its header.
pub(crate) struct Column {
    pub(crate) cells: Vec<String>,
    /// Aligned to the right.
    pub(crate) numeric: bool,
}

impl Column {
    fn header(&self) -> &str {
        self.cells.first().map_or("", String::as_str)
    }

    fn width(&self) -> usize {
        self.cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    fn may_be_cut(&self) -> bool {
        !self.numeric && !WHOLE.contains(&self.header())
    }
}

/// Prints values: one JSON object per line, or a table with a row for each.
pub(crate) fn print<T: Serialize, const N: usize>(
    values: &[T],
    json: bool,
    header: [&str; N],
    row: impl Fn(&T) -> [String; N],
) -> anyhow::Result<()> {
    if json {
        return output::json_lines(values);
    }
    let rows: Vec<_> = values.iter().map(row).collect();
    output::text(&table(header, &rows));
    Ok(())
}

/// Rows of text below a header.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    render(&columns(header, rows))
}

fn columns<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> [Column; N] {
    let cells = |column: usize| rows.iter().map(move |row| row[column].clone());
    std::array::from_fn(|column| {
        let header = std::iter::once(header[column].to_owned());
        Column { cells: header.chain(cells(column)).collect(), numeric: false }
    })
}

/// A table of figures: the first column and columns with words are aligned to the left.
pub(crate) fn aligned(header: &[&str], rows: &[Vec<String>]) -> String {
    let column = |(at, head): (usize, &&str)| {
        let cells = rows.iter().map(|row| row.get(at).cloned().unwrap_or_default());
        let mut cells: Vec<String> = cells.collect();
        let numeric = at > 0 && !cells.iter().any(|cell| cell.starts_with(char::is_alphabetic));
        cells.insert(0, (*head).to_owned());
        Column { cells, numeric }
    };
    render(&header.iter().enumerate().map(column).collect::<Vec<_>>())
}

/// Columns as wide as their widest cell, two spaces between, no trailing white space.
pub(crate) fn render(columns: &[Column]) -> String {
    lines(columns, &[], Terminal::of_output())
}

/// A table whose rows arrive one after the other: the widths of its columns are fixed.
pub(crate) struct Stream<const N: usize> {
    header: [&'static str; N],
    widths: [usize; N],
}

impl<const N: usize> Stream<N> {
    pub(crate) const fn new(header: [&'static str; N], widths: [usize; N]) -> Self {
        Self { header, widths }
    }

    /// The line of the header.
    pub(crate) fn header(&self) -> String {
        lines(&columns(self.header, &[]), &self.widths, Terminal::of_output())
    }

    /// The line of a row.
    pub(crate) fn row(&self, row: [String; N]) -> String {
        let both = lines(&columns(self.header, &[row]), &self.widths, Terminal::of_output());
        both.split_once('\n').map_or(String::new(), |(_, row)| row.to_owned())
    }
}

fn lines(columns: &[Column], min_widths: &[usize], terminal: Terminal) -> String {
    let least = min_widths.iter().copied().chain(std::iter::repeat(0));
    let mut widths: Vec<usize> =
        columns.iter().zip(least).map(|(column, least)| column.width().max(least)).collect();
    if let Some(width) = terminal.width {
        cut(columns, &mut widths, width);
    }
    let mut out = String::new();
    for line in 0..columns.first().map_or(0, |column| column.cells.len()) {
        let last = columns.iter().rposition(|column| !column.cells[line].is_empty());
        for (at, (column, width)) in columns.iter().zip(&widths).enumerate() {
            if last.is_none_or(|last| at > last) {
                break;
            }
            let text = shortened(&column.cells[line], *width);
            let padding = " ".repeat(width - text.chars().count());
            let style = if line == 0 { Style::new().bold() } else { tone(column.header(), &text) };
            let text = if terminal.colors { format!("{style}{text}{style:#}") } else { text };
            match (column.numeric, last == Some(at)) {
                (true, _) => out.extend([padding, text]),
                (false, true) => out.push_str(&text),
                (false, false) => out.extend([text, padding]),
            }
            if last != Some(at) {
                out.push_str("  ");
            }
        }
        out.push('\n');
    }
    out
}

/// Reduces the widths of the widest columns until a line fits, if that is possible.
fn cut(columns: &[Column], widths: &mut [usize], terminal: usize) {
    let between = 2 * columns.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + between > terminal {
        let may = |at: &usize| columns[*at].may_be_cut() && widths[*at] > MIN_CUT_WIDTH;
        let Some(widest) = (0..widths.len()).filter(may).max_by_key(|at| widths[*at]) else {
            return;
        };
        widths[widest] -= 1;
    }
}

/// A text of at most `width` characters.
fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain(std::iter::once('…')).collect()
}

/// The colour of a state.
fn tone(header: &str, cell: &str) -> Style {
    if !STATES.contains(&header) {
        return Style::new();
    }
    let color = match cell.to_ascii_lowercase().as_str() {
        "completed" | "passed" | "succeeded" | "resolved" | "done" | "better" => AnsiColor::Green,
        "failed" | "rejected" | "refused" | "open" | "unknown" | "worse" => AnsiColor::Red,
        "interrupted" | "paused" | "cancelled" | "dismissed" | "unclear" => AnsiColor::Yellow,
        number if number.len() == 3 && number.bytes().all(|digit| digit.is_ascii_digit()) => {
            match number.as_bytes()[0] {
                b'5' => AnsiColor::Red,
                b'4' => AnsiColor::Yellow,
                b'2' => AnsiColor::Green,
                _ => return Style::new(),
            }
        }
        _ => return Style::new(),
    };
    color.on_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let text = table(["METHODS", "PATH"], &[["GET", "/a"].map(str::to_owned)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0].find("PATH"), lines[1].find("/a"));
        assert!(lines[0].ends_with("PATH"));
    }

    #[test]
    fn figures_are_right_aligned() {
        let rows = [["ann", "7"], ["x", "1000"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(aligned(&["NAME", "N"], &rows), "NAME     N\nann      7\nx     1000\n");
    }

    #[test]
    fn a_terminal_gets_colours_and_lines_that_fit() {
        let row = ["019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55", "failed", "GET /a/long/path/of/it"];
        let columns = columns(["ID", "STATE", "REQUEST"], &[row.map(str::to_owned)]);
        let narrow = lines(&columns, &[], Terminal { colors: false, width: Some(60) });
        let row = narrow.lines().nth(1).unwrap();
        assert_eq!(row, "019a9e3c-4c5e-7d2a-9b1f-3f6d2c1e0a55  failed  GET /a/long/p…");
        let colored = lines(&columns, &[], Terminal { colors: true, width: None });
        assert!(colored.contains("\u{1b}[31mfailed\u{1b}[0m  GET"), "{colored:?}");
        assert!(colored.starts_with("\u{1b}[1mID\u{1b}[0m  "), "{colored:?}");
        // As narrow as possible: ids stay whole.
        let tiny = lines(&columns, &[], Terminal { colors: false, width: Some(10) });
        assert!(tiny.contains("0a55  failed  GET /a/long…"), "{tiny}");
    }

    #[test]
    fn rows_of_a_stream_have_the_same_columns() {
        let stream = Stream::new(["A", "B"], [5, 0]);
        assert_eq!(stream.header(), "A      B\n");
        assert_eq!(stream.row(["x", "y"].map(str::to_owned)), "x      y\n");
    }
}
