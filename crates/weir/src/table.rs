//! Text tables.

use crate::output;
use serde::Serialize;

/// A column with its header.
pub(crate) struct Column {
    pub(crate) cells: Vec<String>,
    /// Aligned to the right.
    pub(crate) numeric: bool,
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
    let cells = |column: usize| rows.iter().map(move |row| row[column].clone());
    let columns: [Column; N] = std::array::from_fn(|column| {
        let header = std::iter::once(header[column].to_owned());
        Column { cells: header.chain(cells(column)).collect(), numeric: false }
    });
    render(&columns)
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
    let width = |cells: &[String]| cells.iter().map(|c| c.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = columns.iter().map(|column| width(&column.cells)).collect();
    let mut out = String::new();
    for line in 0..columns.first().map_or(0, |column| column.cells.len()) {
        let cells = columns.iter().zip(&widths).map(|(column, width)| match column.numeric {
            true => format!("{:>width$}", column.cells[line]),
            false => format!("{:width$}", column.cells[line]),
        });
        out.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        out.push('\n');
    }
    out
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
}
