//! Tables, numbers and JSON in HTML.

use maud::{Markup, html};

/// JSON for a script element.
pub(super) fn json(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    text.replace('<', "\\u003c").replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
}

/// A column of a table: its head, and its cell of a row. A head that starts with `#` marks a column
/// of numbers.
pub(super) type Column<'c, R> = (&'c str, &'c dyn Fn(&R) -> Markup);

/// A table with a row for each of `rows`.
pub(super) fn table<R>(rows: &[R], columns: &[Column<'_, R>]) -> Markup {
    let class = |head: &str| head.starts_with('#').then_some("n");
    html! {
        div.scroll tabindex="0" {
            table {
                thead {
                    tr {
                        @for (head, _) in columns {
                            th scope="col" class=[class(head)] { (head.trim_start_matches('#')) }
                        }
                    }
                }
                tbody {
                    @for row in rows {
                        tr { @for (head, cell) in columns { td class=[class(head)] { (cell(row)) } } }
                    }
                }
            }
        }
    }
}

/// A number for display: three to four significant digits, thousands separated.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let digits = match value.abs() {
        0.0 => 0,
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    let (integer, rest) = text.split_once('.').map_or((text.as_str(), ""), |(a, b)| (a, b));
    let (sign, integer) = integer.strip_prefix('-').map_or(("", integer), |integer| ("−", integer));
    let grouped = grouped(integer);
    if rest.is_empty() { format!("{sign}{grouped}") } else { format!("{sign}{grouped}.{rest}") }
}

/// Digits with a thin space between thousands.
fn grouped(digits: &str) -> String {
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    grouped
}

/// A count for display, thousands separated.
pub(super) fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// Milliseconds, or seconds or microseconds where they are easier to read.
pub(super) fn time(ms: f64) -> String {
    match ms {
        ms if ms >= 10_000.0 => format!("{} s", number(ms / 1e3)),
        ms if ms >= 1.0 || ms == 0.0 => format!("{} ms", number(ms)),
        ms => format!("{} µs", number(ms * 1e3)),
    }
}

/// Bytes, in powers of 1024.
pub(super) fn bytes(count: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count;
    let mut at = 0;
    while value >= 1024.0 && at + 1 < units.len() {
        value /= 1024.0;
        at += 1;
    }
    format!("{} {}", number(value), units[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_does_not_end_its_script() {
        assert_eq!(json(&"</script><!--"), "\"\\u003c/script>\\u003c!--\"");
    }

    #[test]
    fn numbers_have_significant_digits_and_units() {
        assert_eq!(number(1_234_567.8), "1\u{202f}234\u{202f}568");
        assert_eq!((number(12.345).as_str(), number(0.01234).as_str()), ("12.3", "0.012"));
        assert_eq!(number(-1_500.0), "−1\u{202f}500");
        assert_eq!(number(f64::NAN), "–");
        assert_eq!((time(0.25).as_str(), time(12_000.0).as_str()), ("250 µs", "12.0 s"));
        assert_eq!(bytes(1536.0), "1.50 KiB");
    }
}
