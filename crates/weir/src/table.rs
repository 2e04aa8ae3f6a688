//! Text tables.

/// Columns as wide as their widest cell, two spaces between, no trailing white space.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let header = header.map(str::to_owned);
    let lines = || std::iter::once(&header).chain(rows);
    let width = |column: usize| lines().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut out = String::new();
    for row in lines() {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        out.push_str(line.trim_end());
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
