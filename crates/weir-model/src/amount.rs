//! Amounts of money: decimal, exact, and the same in whatever order they are added.
//!
//! An amount is a whole number of units of 10⁻¹⁸. A configured price has at most 8 decimals, so a
//! price times a number of calls and a price for a KiB times a number of bytes (a 1024th has 10
//! decimals) are exact: nothing is rounded until an invoice is totalled.

use std::fmt;
use std::str::FromStr;

/// Decimals that an amount has.
const DECIMALS: u32 = 18;
/// Units of 1.
const ONE: i128 = 10_i128.pow(DECIMALS);

/// An amount of money, of a currency that stands beside it. It is at most 1.7 × 10²⁰: a sum beyond
/// that stays there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i128);

/// A text is no amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAmount {
    /// It is no decimal number: digits, and perhaps a point and more digits.
    #[error("not a decimal number")]
    Form,
    /// It has more than 18 decimals, other than zeros at the end.
    #[error("more than 18 decimals")]
    Decimals,
    /// It is too large.
    #[error("too large")]
    Size,
}

impl Amount {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// In units of 10⁻¹⁸.
    #[must_use]
    pub const fn from_units(units: i128) -> Self {
        Self(units)
    }

    /// Units of 10⁻¹⁸.
    #[must_use]
    pub const fn units(self) -> i128 {
        self.0
    }

    /// The sum.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// So many times as much.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(i128::from(count)))
    }

    /// A 1024th for each of so many bytes, when this is the price of a KiB. Exact if it has at most
    /// 8 decimals; otherwise what is beyond 18 decimals is cut off.
    #[must_use]
    pub fn for_bytes(self, bytes: u64) -> Self {
        // Whole KiB first, so that nothing overflows that need not.
        let (whole, rest) = (bytes / 1024, bytes % 1024);
        self.times(whole).plus(Self(self.0.saturating_mul(i128::from(rest)) / 1024))
    }

    /// Rounded to so many decimals (at most 18), a half away from zero: the commercial rule.
    #[must_use]
    pub fn rounded(self, decimals: u32) -> Self {
        let step = 10_i128.pow(DECIMALS - decimals.min(DECIMALS));
        let rest = self.0 % step;
        let whole = self.0 - rest;
        Self(if rest.abs() * 2 >= step {
            whole.saturating_add(step * rest.signum())
        } else {
            whole
        })
    }

    /// With exactly so many decimals, rounded.
    #[must_use]
    pub fn fixed(self, decimals: u32) -> String {
        let decimals = decimals.min(DECIMALS);
        let units = self.rounded(decimals).0 / 10_i128.pow(DECIMALS - decimals);
        let (sign, units) = (if units < 0 { "-" } else { "" }, units.unsigned_abs());
        let one = 10_u128.pow(decimals);
        if decimals == 0 {
            return format!("{sign}{units}");
        }
        format!("{sign}{}.{:0width$}", units / one, units % one, width = decimals as usize)
    }

    /// How many decimals it has, zeros at the end left out.
    #[must_use]
    pub fn decimals(self) -> u32 {
        (0..DECIMALS)
            .find(|decimals| self.0 % 10_i128.pow(DECIMALS - decimals) == 0)
            .unwrap_or(DECIMALS)
    }
}

/// All its decimals, zeros at the end left out.
impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.fixed(self.decimals()))
    }
}

impl FromStr for Amount {
    type Err = NoAmount;

    /// Reads `12`, `0.0004` or `-3.50`; no exponent, no thousands separators.
    fn from_str(text: &str) -> Result<Self, NoAmount> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let (whole, fraction) = match digits.split_once('.') {
            Some((_, "")) => return Err(NoAmount::Form),
            Some(parts) => parts,
            None => (digits, ""),
        };
        let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
            return Err(NoAmount::Form);
        }
        let fraction = fraction.trim_end_matches('0');
        if fraction.len() > DECIMALS as usize {
            return Err(NoAmount::Decimals);
        }
        let whole: i128 = whole.parse().map_err(|_| NoAmount::Size)?;
        let fraction: i128 =
            format!("{fraction:0<width$}", width = DECIMALS as usize).parse().unwrap_or(0);
        let units = whole.checked_mul(ONE).and_then(|units| units.checked_add(fraction));
        let units = units.ok_or(NoAmount::Size)?;
        Ok(Self(if negative { -units } else { units }))
    }
}

impl std::iter::Sum for Amount {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Self::plus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(text: &str) -> Amount {
        text.parse().expect(text)
    }

    #[test]
    fn what_is_read_is_written() {
        for text in ["0", "1", "0.0004", "-3.5", "170000000000000000000", "0.000000000000000001"] {
            assert_eq!(amount(text).to_string(), text);
        }
        assert_eq!(amount("007.50000000000000000000000").to_string(), "7.5");
        assert_eq!("-0".parse(), Ok(Amount::ZERO));
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        for text in
            ["", "-", ".", ".5", "1.", "+1", "1e3", "1,5", " 1", "1_000", "١", "--1", "1.-5"]
        {
            assert_eq!(text.parse::<Amount>(), Err(NoAmount::Form), "{text:?}");
        }
        assert_eq!("0.0000000000000000001".parse::<Amount>(), Err(NoAmount::Decimals));
        assert_eq!("999999999999999999999".parse::<Amount>(), Err(NoAmount::Size));
        assert_eq!("9".repeat(99).parse::<Amount>(), Err(NoAmount::Size));
    }

    #[test]
    fn bytes_are_priced_exactly() {
        let price = amount("0.00000001");
        assert_eq!(price.for_bytes(1).to_string(), "0.000000000009765625");
        let parts: Amount =
            [1, 1023, 1025, 4_000_000_007].map(|bytes| price.for_bytes(bytes)).into_iter().sum();
        assert_eq!(parts, price.for_bytes(1 + 1023 + 1025 + 4_000_000_007));
        assert_eq!(amount("1").for_bytes(3 << 30).to_string(), "3145728");
    }

    #[test]
    fn a_half_is_rounded_away_from_zero() {
        for (text, decimals, rounded) in [
            ("1.005", 2, "1.01"),
            ("1.004999999999999999", 2, "1.00"),
            ("-1.005", 2, "-1.01"),
            ("0.5", 0, "1"),
            ("0.49", 0, "0"),
            ("2.5", 0, "3"),
            ("9.99999", 4, "10.0000"),
            ("1.2", 18, "1.200000000000000000"),
        ] {
            assert_eq!(amount(text).fixed(decimals), rounded, "{text} {decimals}");
        }
        assert_eq!(amount("-0.001").fixed(2), "0.00");
    }

    #[test]
    fn sums_beyond_the_largest_stay_there() {
        let most = Amount::from_units(i128::MAX);
        assert_eq!(most.plus(amount("1")), most);
        assert_eq!(amount("1000000000").times(u64::MAX), most);
        assert_eq!(
            amount("1000000000").for_bytes(u64::MAX),
            amount("1000000000").times(u64::MAX / 1024).plus(amount("999023437.5"))
        );
        assert!(most.rounded(2).rounded(0).rounded(18).rounded(2) > Amount::ZERO);
    }
}
