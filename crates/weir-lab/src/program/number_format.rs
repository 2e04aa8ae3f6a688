//! Formats of integers, as Java's `DecimalFormat` has them.

/// A format of integers: `000`, `user-000`, `#,##0`. The default one has no leading zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberFormat {
    prefix: String,
    suffix: String,
    /// Least number of digits.
    digits: u8,
    /// Digits between two commas; 0 without commas.
    group: usize,
}

impl NumberFormat {
    /// A format of this pattern; `None` if it has more than digits, commas and literals.
    #[must_use]
    pub fn new(pattern: &str) -> Option<Self> {
        let is_digit = |c: char| matches!(c, '0' | '#' | ',');
        let (prefix, rest) = pattern.split_at(pattern.find(is_digit).unwrap_or(pattern.len()));
        let end = rest.find(|c: char| !is_digit(c)).unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(end);
        let special = ['0', '#', ',', '.', ';', '%', '\'', '\u{2030}', '\u{a4}'];
        let is_literal = |affix: &str| !affix.contains(special);
        let digits = number.replace(',', "");
        let zeros = digits.trim_start_matches('#');
        let has_exponent = suffix.starts_with('E');
        let is_number = !zeros.contains('#') && !number.ends_with(',') && !has_exponent;
        if !(is_number && is_literal(prefix) && is_literal(suffix)) {
            return None;
        }
        Some(Self {
            prefix: prefix.to_owned(),
            suffix: suffix.to_owned(),
            digits: u8::try_from(zeros.len()).ok()?,
            group: number.rsplit_once(',').map_or(0, |(_, last)| last.len()),
        })
    }

    /// A number in this format. Its sign is before the prefix, and no digit.
    #[must_use]
    pub fn apply(&self, number: i64) -> String {
        let sign = if number < 0 { "-" } else { "" };
        let width = usize::from(self.digits);
        let digits = format!("{:0width$}", number.unsigned_abs());
        let mut text = format!("{sign}{}", self.prefix);
        for (at, digit) in digits.char_indices() {
            if at > 0 && self.group > 0 && (digits.len() - at).is_multiple_of(self.group) {
                text.push(',');
            }
            text.push(digit);
        }
        text + &self.suffix
    }
}

#[cfg(test)]
mod tests {
    use super::NumberFormat;

    #[test]
    fn numbers_have_the_format_of_java() {
        for (pattern, number, expected) in [
            ("", 0, "0"),
            ("", -12, "-12"),
            ("000", 7, "007"),
            ("000", 1234, "1234"),
            ("id-000", -5, "-id-005"),
            ("000 x", 5, "005 x"),
            ("user", 5, "user5"),
            ("#", 0, "0"),
            ("#,##0", 0, "0"),
            ("#,##0", 1_234_567, "1,234,567"),
            ("#,##0 EUR", -1234, "-1,234 EUR"),
            ("0,000", 5, "0,005"),
            ("#,#00", 123_456, "123,456"),
            ("###,#0", 12345, "1,23,45"),
        ] {
            let format = NumberFormat::new(pattern).expect(pattern);
            assert_eq!(format.apply(number), expected, "{pattern}");
        }
        let many = "0".repeat(300);
        for pattern in
            ["0.0", "#.##", "0a0", "0#", "0,", "0%", "0;0", "'a'0", "0E0", "\u{a4}0", &many]
        {
            assert_eq!(NumberFormat::new(pattern), None, "{pattern}");
        }
    }
}
