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
}
